#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B12: a backend that turns out not to discard: the disk has no discards any more, and works. Secure
# discards are only asked for if they are offered.
# pairs: rust/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/blk/rogue.sh
. ./rogue.sh
ktap_set_plan 10
share_guest

# serve OPTION...: runs a backend; the guest has its disk afterwards.
serve() {
	rogue_log=/tmp/rogue.discard
	rogue-blkback --domid "$(guest_id g)" --vdev xvdb --size 16M --discard 1 --log "$@" \
		>"$rogue_log" 2>&1 &
	rogue_pid=$!
	wait_for 20 has_node g xvdb
}

limits() {
	block_keys g xvdb queue/discard_granularity queue/discard_max_bytes | sed -E 's/ [1-9].*/ 1/'
}

has_no_discards() {
	[ "$(limits)" = "0 0" ]
}

serve --key discard-granularity=65536 --key discard-alignment=4096
ktap_equal "the backend's units" "65536 1" "$(limits)"
guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=1M count=4 oflag=direct status=none"
ktap_test "a range is discarded" guest_run g "blkdiscard -l 2097152 /dev/xvdb &&
	cmp -n 2097152 /dev/xvdb /dev/zero && ! cmp -i 2097152 -n 65536 /dev/xvdb /dev/zero >/dev/null"
ktap_test "secure discards are not sent" guest_run g "! blkdiscard --secure /dev/xvdb 2>&1"
ktap_test "it goes" rogue_end g

serve --key discard-secure=1
ktap_test "secure discards, if offered" guest_run g "blkdiscard --secure /dev/xvdb"
ktap_test "it goes" rogue_end g

serve --attack discard-unsupported
# The block layer does not tell a program that asks for one that it was not done.
guest_run g "blkdiscard /dev/xvdb 2>&1"
ktap_test "after one that was refused there are none" wait_for 10 has_no_discards
ktap_test "the log says so" guest_run g "dmesg | grep 'xvdb: discard op failed'"
ktap_test "the disk works" disk_works g xvdb
ktap_test "it goes" rogue_end g
ktap_finished
