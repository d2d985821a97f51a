#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Two rings of sixteen pages cost dom0 little memory (case B04), idle and after all their requests were in
# use at once: less than half of the 20 MiB a ring that the C driver allocates.
# pairs: rust/rust
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 4
share_guest

# In KiB, with everything given back that can be.
free_memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^MemFree/ { print $2 }' /proc/meminfo
}

guest_run g "rmmod xen-blkfront && modprobe xen-blkfront max_queues=2 max_ring_page_order=4"
disk=$(make_disk 64)
# All of the device's own memory.
dd if=/dev/urandom "of=$disk" bs=1M oflag=direct 2>/dev/null
before=$(free_memory)
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
ktap_equal "rings" "2 512" "$(guest_run g "cd /sys/block/xvdb/mq && echo \$(ls | wc -l) \$(cat 0/nr_tags)")"
idle=$((before - $(free_memory)))
ktap_print_msg "idle: $idle KiB"
ktap_test "idle" test $idle -lt 20480
ktap_test "1024 requests at once" fio_guest g /dev/xvdb 90 --rw=randrw --bs=4k --iodepth=512 \
	--numjobs=2 --size=8m --offset_increment=16m
used=$((before - $(free_memory)))
ktap_print_msg "after use: $used KiB"
ktap_test "after use" test $used -lt 20480
disk_detach g xvdb
ktap_finished
