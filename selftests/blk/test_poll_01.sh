#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Queues that are polled: io_uring and preadv2() look for their requests themselves, and the backend
# sends no events for them. All other requests go by the other queues. One queue is never polled.
# pairs: rust/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 12
share_guest
disk=$(make_disk 32)
# Dom0 has as many CPUs as the guest, which would limit the queues.
limit=/sys/module/xen_blkback/parameters/max_queues
saved=$(<$limit)

# load_driver QUEUES PARAMETER...: loads the driver, with a backend that has so many queues.
load_driver() {
	echo "$1" >$limit
	if ! guest_run g "rmmod xen-blkfront && modprobe xen-blkfront ${*:2}" ||
		! disk_attach g "phy:$disk,xvdb,w"; then
		ktap_exit_fail_msg "no disk"
	fi
	guest_run g "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug"
}

# events QUEUE: how many it has received.
events() {
	guest_run g "awk '\$1 == \"queue$1.events_received\" { print \$2 }' \
		/sys/kernel/debug/xen-blkfront/xvdb"
}

# polled_fio OPTION...: polls; prints why it failed.
polled_fio() {
	local output status
	# The option hipri is one of the engine, which has to be named before.
	output=$(guest_run g 90 "fio --name=poll --filename=/dev/xvdb --direct=1 $* --hipri \
		--size=4m --bsrange=4k-64k --rw=randrw --verify=crc32c --verify_fatal=1 2>&1")
	status=$?
	[ $status = 0 ] || head -n 8 <<<"$output" | sed 's/^/# /'
	return $status
}

load_driver 4 max_queues=2 poll_queues=1
ktap_equal "queues: two and a polled one" 3 "$(guest_run g "ls /sys/block/xvdb/mq | wc -l")"
ktap_equal "the backend has as many" 3 \
	"$(xenstore-read "$(frontend_path g xvdb)/multi-queue-num-queues")"
ktap_equal "the disk can poll" 1 "$(block_keys g xvdb queue/io_poll)"
ktap_test "io_uring" polled_fio --ioengine=io_uring --iodepth=16
ktap_test "preadv2" polled_fio --ioengine=pvsync2
ktap_test "requests went by the polled queue" guest_run g \
	"awk '\$1 == \"queue2.reads\" { exit !(\$2 > 100) }' /sys/kernel/debug/xen-blkfront/xvdb"
ktap_equal "without events" 0 "$(events 2)"
ktap_test "others are not polled" disk_works g xvdb
ktap_equal "the polled queue has still no events" 0 "$(events 2)"
ktap_test "it can be detached" disk_detach g xvdb

load_driver 1 max_queues=2 poll_queues=1
ktap_equal "one queue: it is not polled" "1 0" \
	"$(guest_run g "ls /sys/block/xvdb/mq | wc -l") $(block_keys g xvdb queue/io_poll)"
ktap_test "one queue: it works" disk_works g xvdb
disk_detach g xvdb
echo "$saved" >$limit
ktap_finished
