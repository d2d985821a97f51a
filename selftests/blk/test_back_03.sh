#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Discards reach the device, do not hold up other requests, and are not offered if the toolstack or
# the device does not want them. The frontend is C's, which discards.
# pairs: c/rust
# control: c/c
# timeout: 300
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 9
share_guest

attach_new g xvdb 32
dd if=/dev/urandom "of=$disk" bs=1M oflag=direct 2>/dev/null
ktap_equal "it is offered" "1 512" "$(xenstore-read "$(backend_path g xvdb)/feature-discard" \
	"$(backend_path g xvdb)/discard-granularity" | paste -sd ' ')"
before=$(statistic g xvdb ds_req)
ktap_test "it works" guest_run g "blkdiscard -o 1048576 -l 4194304 /dev/xvdb 2>&1"
ktap_test "it is counted" test "$(statistic g xvdb ds_req)" -gt "$before"
# What is left of a discarded block of this device is zeros.
ktap_equal "what was discarded is gone" "$(head -c 4194304 /dev/zero | sha256sum)" \
	"$(dd if="$disk" bs=1M skip=1 count=4 iflag=direct 2>/dev/null | sha256sum)"
load=$(fio_start g xvdb 8)
wait_for_load g xvdb
ktap_test "all of it, beside other requests" guest_run g "for i in 1 2 3 4; do
	blkdiscard -f /dev/xvdb 2>&1 || exit; done"
ktap_test "which all succeed" guest_wait "$load"
disk_detach g xvdb

attach_new g xvdb 16 512 discard=0
ktap_equal "not by the device: not offered" 0 \
	"$(xenstore-read "$(backend_path g xvdb)/feature-discard")"
disk_detach g xvdb
disk_attach g "phy:$disk,xvdb,w,discard=0" nowait 2>/dev/null ||
	disk_attach g "vdev=xvdb,access=w,no-discard,target=$disk" || ktap_exit_fail_msg "no disk"
disk_wait g xvdb
ktap_equal "not by the toolstack: no key" "" \
	"$(xenstore-read "$(backend_path g xvdb)/feature-discard" 2>/dev/null)"
ktap_test "the disk works" disk_works g xvdb
ktap_finished
