#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The Rust and the C driver take each other's place in a running guest, from which no disk is lost. A
# driver that has a disk cannot be unloaded, used or not.
# pairs: rust/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 11
share_guest
attach_new g xvdb 16
dd if=/dev/urandom "of=$disk" bs=1M count=16 oflag=direct 2>/dev/null
sum=$(sum_dom0 "$disk")

for driver in c rust; do
	ktap_test "with a disk: unloading is refused" guest_run g "! rmmod xen-blkfront 2>&1"
	disk_detach g xvdb
	ktap_test "to $driver: the other one is unloaded" guest_driver g blkfront $driver
	ktap_equal "to $driver: it is the one that runs" $driver "$(driver_loaded g blkfront)"
	disk_attach g "phy:$disk,xvdb,w"
	ktap_equal "to $driver: the disk has its data" "$sum" "$(sum_guest g xvdb)"
done

guest_run g "mkfs.ext4 -q /dev/xvdb && mount /dev/xvdb /mnt"
ktap_test "mounted: unloading is refused" guest_run g "! rmmod xen-blkfront 2>&1"
ktap_test "mounted: the disk works" guest_run g "dd if=/dev/urandom of=/mnt/file bs=64k count=8 \
	conv=fsync 2>&1 && umount /mnt"
disk_detach g xvdb
ktap_test "without a disk: the driver is unloaded" guest_run g "rmmod xen-blkfront &&
	! [ -e /sys/module/xen_blkfront ] && modprobe xen-blkfront"
ktap_finished
