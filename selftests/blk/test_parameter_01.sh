#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The driver's parameters can be read where administrators look for them, and what makes no sense
# is replaced, with a line in the log, instead of refused.
# control: rust/c c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest

# parameters WORDS: loads the driver with them and prints what it made of them.
parameters() {
	guest_run g "cd /sys/module && dmesg -c >/dev/null && rmmod xen-blkfront &&
		modprobe xen-blkfront $* && cd xen_blkfront/parameters &&
		stat -c '%n %a' max_queues max_ring_page_order && cat max_queues max_ring_page_order" |
		paste -sd ' '
}

modes="max_queues 444 max_ring_page_order 444"
ktap_equal "defaults" "$modes 2 0" "$(parameters)"
ktap_equal "values given" "$modes 1 3" "$(parameters max_queues=1 max_ring_page_order=3)"
ktap_equal "values too large" "$modes 2 4" "$(parameters max_queues=99 max_ring_page_order=9)"
ktap_test "log line for the queues" guest_run g \
	"dmesg | grep 'Invalid max_queues (99), will use default max: 2'"
ktap_test "log line for the ring" guest_run g \
	"dmesg | grep 'Invalid max_ring_order (9), will use default max: 4'"

parameters max_queues=0 >/dev/null
attach_new g xvdb 16
ktap_test "no queues at all: the disk works" disk_works g xvdb
ktap_finished
