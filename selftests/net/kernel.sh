# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Runs the kernel's own tests of network devices (tools/testing/selftests/drivers/net), which `needs: kernel-tests`
# has put there, with an interface in dom0 as the device. The remote end is in the namespace `far` of dom0.

# Lines of test, name and reason: failures that are none, as they ask for what cannot be.
kernel_impossible="ring_reconfig.py ring_reconfig.ringparam rings are as large as the protocol says
napi_threaded.py napi_threaded.napi_init this version of ethtool has no JSON for -l
napi_threaded.py napi_threaded.change_num_queues this version of ethtool has no JSON for -l
napi_threaded.py napi_threaded.enable_dev_threaded_disable_napi_threaded this version of ethtool has no JSON for -l
hw/irq.py irq.check_irqs_reported event channels are no MSI interrupts
hw/csum.py csum.ipv4_tx_udp_csum_offload packets for the same domain keep the checksum that was left out
hw/csum.py csum.ipv4_tx_udp_zero_checksum packets for the same domain keep the checksum that was left out
hw/csum.py csum.ipv6_tx_udp_csum_offload packets for the same domain keep the checksum that was left out
hw/csum.py csum.ipv6_tx_udp_zero_checksum packets for the same domain keep the checksum that was left out"

kernel_folder=$PWD/../kernel/tools/testing/selftests/drivers/net

# kernel_addresses DEVICE REMOTE: gives the two ends their addresses; the remote one goes to its namespace.
kernel_addresses() {
	# Some of the tests take the device down.
	echo 1 >"/proc/sys/net/ipv6/conf/$1/keep_addr_on_down"
	settle dom0 "$1" 192.0.2.1/24 2001:db8::1/64 && settle dom0/far "$2" 192.0.2.2/24 2001:db8::2/64 &&
		reaches dom0 192.0.2.2 && reaches dom0 2001:db8::2
}

# kernel_run DEVICE TEST...: runs the tests; what they print is in /tmp/kernel-tests, with the test's name before each
# line and its exit status at its end.
kernel_run() {
	local test
	export NETIF=$1 LOCAL_V4=192.0.2.1 REMOTE_V4=192.0.2.2 LOCAL_V6=2001:db8::1 REMOTE_V6=2001:db8::2
	export REMOTE_TYPE=netns REMOTE_ARGS=far PYTHONDONTWRITEBYTECODE=1
	shift
	# What takes PPPoE apart comes with it.
	modprobe -q pppoe
	for test; do
		(cd "$kernel_folder/$(dirname "$test")" && timeout "$(stretch 400)" "./$(basename "$test")" 2>&1) |
			sed "s|^ok [0-9]* |ok |; s|^not ok [0-9]* |not ok |; s|^|$test |"
		echo "$test status ${PIPESTATUS[0]}"
		# A test that was ended may have left one.
		ip link set "$NETIF" xdp off 2>/dev/null
	done >/tmp/kernel-tests
}

# kernel_report: makes a result of each of theirs, and one of each test's end.
kernel_report() {
	local test line
	ktap_set_plan "$(grep -cE '^[^ ]* (ok|not ok|status) ' /tmp/kernel-tests)"
	while read -r test line; do
		case $line in
		"ok "*" # SKIP"* | "not ok "*" # SKIP"*) ktap_test_skip "$test $(kernel_name "$line")" "${line#* # SKIP}" ;;
		"ok "*" # XFAIL"*) ktap_test_skip "$test $(kernel_name "$line")" "${line#* # }" ;;
		"ok "*) ktap_test_pass "$test ${line#ok }" ;;
		"not ok "*) kernel_failed "$test" "${line#not ok }" ;;
		"status 0") ktap_test_pass "$test ran to its end" ;;
		"status 4") ktap_test_skip "$test" "nothing of it can be done" ;;
		"status "*) ktap_test "$test ran to its end, with $line" kernel_says_why "$test" "$line" ;;
		*) ktap_print_msg "$test $line" ;;
		esac
	done </tmp/kernel-tests
}

# kernel_failed TEST NAME: a failure, if it is one.
kernel_failed() {
	local test name reason
	while read -r test name reason; do
		if [ "$1 ${2%% *}" = "$test $name" ]; then
			ktap_test_skip "$1 $2" "$reason"
			return
		fi
	done <<<"$kernel_impossible"
	ktap_test_fail "$1 $2"
}

kernel_name() {
	sed 's/^not //; s/^ok //; s/ # .*//' <<<"$1"
}

# kernel_says_why TEST STATUS: whether a test that ended with that has said what failed.
kernel_says_why() {
	[ "$2" = "status 1" ] && grep -q "^$1 not ok " /tmp/kernel-tests
}
