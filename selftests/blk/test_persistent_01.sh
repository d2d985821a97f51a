#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Grants are persistent if both ends want that. Then no more pages stay granted than
# max_persistent_grants allows, a ring that has none left goes on all the same, and what has not been
# needed for a while is given back once the backend has let go of it.
# pairs: rust/c
# timeout: 500

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 13
share_guest
parameters=/sys/module/xen_blkback/parameters
disk=$(make_disk 64)

# load_driver PARAMETER...: loads the guest's driver with them, and attaches the disk.
load_driver() {
	if ! guest_run g "rmmod xen-blkfront && modprobe xen-blkfront $*" ||
		! disk_attach g "phy:$disk,xvdb,w"; then
		ktap_exit_fail_msg "no disk"
	fi
}

# says WORDS: whether the log's last line on the disk has them.
says() {
	guest_run g "dmesg | grep 'xvdb: .*persistent grants' | tail -n 1 | grep '$1'"
}

load_driver max_queues=1
ktap_test "by default they are" says "persistent grants: enabled"
ktap_equal "the key says so" 1 "$(xenstore-read "$(frontend_path g xvdb)/feature-persistent")"
ktap_test "data is copied" disk_works g xvdb
ktap_test "into pages that stay" test "$(number g xvdb persistent)" -gt 100
disk_detach g xvdb

load_driver max_queues=1 feature_persistent=0
ktap_test "not if the frontend does not want it" says "persistent grants: disabled"
ktap_equal "the key says so" 0 "$(xenstore-read "$(frontend_path g xvdb)/feature-persistent")"
ktap_test "the disk works" disk_works g xvdb
ktap_equal "nothing is copied" 0 "$(number g xvdb persistent)"
disk_detach g xvdb

echo N >$parameters/feature_persistent
load_driver max_queues=1
ktap_test "not if the backend does not want it" says "persistent grants: disabled"
disk_detach g xvdb
echo Y >$parameters/feature_persistent

load_driver max_queues=1 max_persistent_grants=64 max_indirect_segments=32
ktap_test "64 pages for 32 requests of up to 32: the disk works" fio_guest g /dev/xvdb 60 \
	--rw=randrw --bsrange=4k-256k --iodepth=64 --size=16m --verify=crc32c --verify_fatal=1
ktap_equal "there are no more" 64 "$(number g xvdb granted_pages)"
disk_detach g xvdb

unused=$(<$parameters/persistent_grant_unused_seconds)
echo 1 >$parameters/persistent_grant_unused_seconds
load_driver max_queues=1 max_indirect_segments=32
fio_guest g /dev/xvdb 60 --rw=randrw --bs=128k --iodepth=32 --size=32m
peak=$(number g xvdb granted_pages)

# The backend looks at what it has mapped only when it has something to do.
few_left() {
	guest_run g "dd if=/dev/xvdb of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null"
	[ "$(number g xvdb granted_pages)" -lt 100 ]
}

ktap_test "what is left over is given back" wait_for 90 few_left
ktap_print_msg "$peak pages under load, $(number g xvdb granted_pages) afterwards"
ktap_test "the disk works" disk_works g xvdb
echo "$unused" >$parameters/persistent_grant_unused_seconds
disk_detach g xvdb
ktap_finished
