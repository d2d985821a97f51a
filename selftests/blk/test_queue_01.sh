#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Each virtual CPU has a ring of its own, with an event channel of its own (case B07): what a program
# on one CPU reads and writes raises no event on the others' channels, and all rings work at once.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest
attach_new g xvdb 32
ktap_equal "rings" 2 "$(guest_run g "ls /sys/block/xvdb/mq | wc -l")"

# How many events each ring's channel has had, in the order of the rings.
events() {
	guest_run g "awk '/ blkif\$/ { print \$2 + \$3 }' /proc/interrupts | paste -sd ' '"
}

# load CPU: reads and writes by a program that stays on one CPU.
load() {
	fio_guest g /dev/xvdb 60 --rw=randrw --bs=4k --size=1m --iodepth=4 --cpus_allowed="$1"
}

# The interrupts are not listed in the order of the rings: which one is whose is to be found out.
rows=()
for cpu in 0 1; do
	read -r first0 second0 < <(events)
	load $cpu || ktap_exit_fail_msg "the disk does not work"
	read -r first1 second1 < <(events)
	counts=($((first1 - first0)) $((second1 - second0)))
	rows[cpu]=$((counts[1] > counts[0]))
	mine=${counts[rows[cpu]]} other=${counts[1 - rows[cpu]]}
	ktap_print_msg "CPU $cpu: $mine events on one channel, $other on the other"
	# The kernel may itself read the disk, on any CPU.
	ktap_test "CPU $cpu has a ring of its own" test "$mine" -gt $((10 * other + 8))
done
ktap_test "the two rings are not the same" test "${rows[0]}" != "${rows[1]}"
ktap_test "both at once" fio_guest g /dev/xvdb 60 --rw=randrw --bs=4k --size=1m --iodepth=16 \
	--numjobs=2 --offset_increment=8m --cpus_allowed=0-1 --cpus_allowed_policy=split \
	--verify=crc32c --verify_fatal=1
disk_detach g xvdb
ktap_test "no trace of the disk" no_trace g xvdb
ktap_finished
