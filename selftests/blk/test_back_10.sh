#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A frontend that asks for what none should, in both layouts of requests: each request gets the answer
# that it deserves, nothing is damaged, and a broken ring closes the device. It is a program in dom0.
# pairs: rust/rust
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 9

try() {
	local abi=$1 size=$2 name="$1, sectors of $2 bytes" number log=/tmp/rogue.log
	number=$((RANDOM % 1000 + 100))
	disk=$(make_disk 16 "$size")
	timeout "$(stretch 60)" rogue-blkfront "$(printf '%x:%x' "0x$(stat -c %t "$disk")" \
		"0x$(stat -c %T "$disk")")" $number "$abi" 32768 "$size" >$log
	ktap_equal "$name: all answers are right" 0 $?
	grep -v ^ok $log | sed 's/^/# /'
	ktap_test "$name: there were many" test "$(grep -c ^ok $log)" -gt 60
	gone() {
		! [ -e "/sys/bus/xen-backend/devices/vbd-0-$number" ]
	}
	ktap_test "$name: the device is gone" wait_for 10 gone
	xenstore-rm "/local/domain/0/error/backend/vbd/0/$number" 2>/dev/null
	remove_disk "$disk"
}

try x86_64-abi 512
try x86_32-abi 512
try x86_64-abi 4096
ktap_finished
