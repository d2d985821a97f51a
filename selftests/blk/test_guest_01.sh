#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A PV guest has its root on a disk, and works on it.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 4
root=$(make_root_disk) || ktap_exit_fail_msg "no root"
guest_create r root=xvda disk="phy:$root,xvda,w" || ktap_exit_fail_msg "no guest"
ktap_equal "the root is on the disk" "/dev/xvda ext4" "$(guest_run r "findmnt -no SOURCE,FSTYPE /")"
ktap_test "files are what they were" guest_run r 90 "cp -r /usr/bin /root/copy && sync &&
	echo 3 >/proc/sys/vm/drop_caches && diff -r /usr/bin /root/copy"
ktap_test "blocks of a file are as written" fio_guest r /root/file 60 --rw=randrw --bs=4k --size=2m \
	--iodepth=8 --verify=crc32c --verify_fatal=1
attach_new r xvdb 16
ktap_test "another disk works" disk_works r xvdb
guest_destroy r
ktap_finished
