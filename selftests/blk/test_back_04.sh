#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A device that grows or shrinks while nobody uses the disk: the backend tells the guest within two
# seconds, and not more often than there is something to tell.
# pairs: rust/rust
# control: rust/c
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
truncate -s 16M /tmp/size.img
disk=$(losetup --find --show /tmp/size.img)
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
back=$(backend_path g xvdb)

says() {
	[ "$(xenstore-read "$back/sectors")" = "$1" ]
}

# resize MIB: makes the device as large; whether the frontend is told in time.
resize() {
	truncate -s "$1M" /tmp/size.img
	losetup -c "$disk"
	wait_for 2 says $(($1 * 2048))
}

ktap_test "it grows" resize 24
ktap_test "it grows again" resize 64
ktap_test "it shrinks" resize 8
timeout 4 xenstore-watch -n 5 "$back/state" >/tmp/news
# The first line says that the watch is set.
ktap_test "silence when nothing changes" test "$(wc -l </tmp/news)" -le 1
ktap_test "the disk works" disk_works g xvdb
disk_detach g xvdb
losetup -d "$disk"
rm /tmp/size.img
ktap_finished
