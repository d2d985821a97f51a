#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A ring of more pages has more requests in flight, which is what counts where the device is slow
# (case B06): each request takes the device 0.4 seconds here, however many there are.
# control: rust/rust rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 3
share_guest
disk=$(make_disk 32 512 irqmode=2 completion_nsec=400000000 hw_queue_depth=512) ||
	ktap_exit_fail_msg "no disk"

# milliseconds ORDER: how long 256 requests take with one ring of so many pages.
milliseconds() {
	guest_run g "rmmod xen-blkfront && modprobe xen-blkfront max_queues=1 max_ring_page_order=$1" &&
		disk_attach g "phy:$disk,xvdb,w" || return
	guest_run g 120 "fio --name=slow --filename=/dev/xvdb --direct=1 --ioengine=libaio --rw=read \
		--bs=4k --size=1m --iodepth=256 --output-format=terse --terse-version=3" |
		awk -F ';' '/^3;/ { print $9 }'
	disk_detach g xvdb
}

small=$(milliseconds 0)
ktap_test "32 requests at once" test "${small:-0}" -ge 3000
large=$(milliseconds 3)
ktap_test "256 requests at once" test "${large:-0}" -ge 400
ktap_print_msg "256 requests took $small ms by a ring of one page, $large ms by one of eight"
ktap_test "the larger ring is at least twice as fast" test "${small:-0}" -gt $((${large:-0} * 2))
ktap_finished
