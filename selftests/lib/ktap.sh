# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Test results in KTAP (Documentation/dev-tools/ktap.rst of the kernel).

KTAP_PASS=0
KTAP_FAIL=1
KTAP_SKIP=4

ktap_planned=0
ktap_number=0
ktap_passed=0
ktap_failed=0
ktap_skipped=0

ktap_print_header() {
	echo "KTAP version 1"
}

# ktap_print_msg TEXT...: a remark, which is no result.
ktap_print_msg() {
	echo "# $*"
}

# ktap_set_plan NUMBER: how many results there will be.
ktap_set_plan() {
	ktap_planned=$1
	echo "1..$1"
}

ktap_result() {
	ktap_number=$((ktap_number + 1))
	echo "$1 $ktap_number $2"
}

ktap_test_pass() {
	ktap_passed=$((ktap_passed + 1))
	ktap_result ok "$*"
}

ktap_test_fail() {
	ktap_failed=$((ktap_failed + 1))
	ktap_result "not ok" "$*"
}

# ktap_test_skip NAME [REASON...]
ktap_test_skip() {
	local name=$1
	shift
	ktap_skipped=$((ktap_skipped + 1))
	ktap_result ok "$name # SKIP $*"
}

# ktap_test NAME COMMAND...: a pass if the command succeeds.
ktap_test() {
	local name=$1
	shift
	if "$@"; then
		ktap_test_pass "$name"
	else
		ktap_test_fail "$name"
	fi
}

# ktap_skip_all REASON...: ends the script, as nothing can be tested here.
ktap_skip_all() {
	echo "1..0 # SKIP $*"
	exit $KTAP_SKIP
}

# ktap_exit_fail_msg REASON...: ends the script, as going on makes no sense.
ktap_exit_fail_msg() {
	echo "Bail out! $*"
	exit $KTAP_FAIL
}

# Ends the script with the exit status that its results call for.
ktap_finished() {
	echo "# Totals: pass:$ktap_passed fail:$ktap_failed xfail:0 xpass:0 skip:$ktap_skipped error:0"
	if [ $ktap_failed -gt 0 ]; then
		exit $KTAP_FAIL
	fi
	if [ $ktap_number -ne "$ktap_planned" ]; then
		echo "# planned $ktap_planned results, but there are $ktap_number"
		exit $KTAP_FAIL
	fi
	if [ $ktap_passed -eq 0 ] && [ $ktap_skipped -gt 0 ]; then
		exit $KTAP_SKIP
	fi
	exit $KTAP_PASS
}

# ktap_equal NAME EXPECTED ACTUAL
ktap_equal() {
	[ "$2" = "$3" ] || ktap_print_msg "$1: \"$3\" instead of \"$2\""
	ktap_test "$1" test "$2" = "$3"
}
