#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk can be attached and detached again and again (case B15): each time it is there soon and works,
# and nothing is leaked: no interrupts, event channels, grants, memory or nodes in xenstore.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/lib/leaks.sh
. "$XENVM_LIB/leaks.sh"
ktap_set_plan 7
share_guest
disk=$(make_disk 16)
rounds=${rounds:-30}

cycle() {
	local begun=$SECONDS
	disk_attach g "phy:$disk,xvdb,w" || return
	[ $((SECONDS - begun)) -le 15 ] || ktap_print_msg "round $round: $((SECONDS - begun)) s"
	guest_run g "head -c 262144 /dev/urandom >/tmp/data &&
		dd if=/tmp/data of=/dev/xvdb bs=128k oflag=direct 2>/dev/null &&
		dd if=/dev/xvdb bs=64k count=4 iflag=direct 2>/dev/null | cmp - /tmp/data" &&
		disk_detach g xvdb && [ $((SECONDS - begun)) -le "$(stretch 30)" ]
}

done=0
for ((round = 1; round <= rounds; round++)); do
	cycle && done=$((done + 1))
	# By then everything that is allocated once has been.
	if [ "$round" = 5 ]; then
		leaks_before g
	fi
done
leaks_after g
ktap_equal "every time in time, with its data" "$rounds" "$done"
leaks_test "$((rounds - 5))"
ktap_test "no trace of the disk" no_trace g xvdb
ktap_finished
