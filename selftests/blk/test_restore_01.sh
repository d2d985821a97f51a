#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B18, B19, B20: a guest is saved in the midst of large writes and restored with a backend that allows
# less, and then again with one that allows more: another number of rings, rings of another size,
# fewer segments in a request, persistent grants or none. Nothing is lost, the load goes on, and the
# disk's limits are those of its backend. (The C driver asserts that a new backend allows no less.)
# pairs: rust/c
# timeout: 900
# tier: long

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 15
guest_create r vcpus=2 memory=384 timeout=240 fresh || ktap_exit_fail_msg "no guest"
parameters=/sys/module/xen_blkback/parameters
queues=$(<$parameters/max_queues)
state=/var/lib/xen/r.save

# load: writes and reads again, in pieces of up to 1 MiB, several at once; prints the handle.
load() {
	guest_start r 300 "fio --name=load --filename=/dev/xvdb --direct=1 --ioengine=libaio \
		--rw=randwrite --bsrange=64k-1m --iodepth=16 --size=24m --loops=3 \
		--verify=crc32c --verify_fatal=1 --verify_backlog=16 --fsync=32 --group_reporting"
}

# override NAME KEY=VALUE...: writes over what the backend offers to the domain that comes next, as
# soon as it does. It is there some time before its guest runs.
override() {
	local old=$1 id back word pairs
	shift
	for _ in {1..2000}; do
		for id in $(xenstore-list /local/domain/0/backend/vbd 2>/dev/null); do
			back=/local/domain/0/backend/vbd/$id/$(vdev_number xvdb)
			if [ "$id" -le "$old" ] || ! xenstore-exists "$back/multi-queue-max-queues" ||
				! xenstore-exists "$back/feature-max-indirect-segments"; then
				continue
			fi
			pairs=()
			for word; do
				pairs+=("$back/${word%%=*}" "${word#*=}")
			done
			xenstore-write "${pairs[@]}"
			return
		done
		sleep 0.05
	done
}

# move PERSISTENT QUEUES KEY=VALUE...: saves and restores the guest, with another backend.
move() {
	local status
	guest_save r $state || return
	echo "$1" >$parameters/feature_persistent
	echo "$2" >$parameters/max_queues
	override "$(guest_id r)" "${@:3}" &
	guest_restore r $state
	status=$?
	wait $!
	rm -f $state
	return $status
}

guest_run r "rmmod xen-blkfront; modprobe xen-blkfront max_queues=2 max_ring_page_order=2 \
	max_indirect_segments=256" || ktap_exit_fail_msg "the driver does not load"
# Each request takes 20 ms, so that there are always some in flight.
attach_new r xvdb 24 512 irqmode=2 completion_nsec=20000000 cache_size=1
ktap_equal "before: the disk's limit in KiB" 1024 "$(block_keys r xvdb queue/max_hw_sectors_kb)"

handle=$(load)
wait_for_load r xvdb
ktap_test "the guest moves to a lesser backend" move N 1 feature-max-indirect-segments=0 \
	max-ring-page-order=0 multi-queue-max-queues=1
ktap_test "the load goes on, and reads what it wrote" \
	guest_wait "$handle" 300
ktap_test "the disk's limit is the lesser backend's" \
	test "$(block_keys r xvdb queue/max_hw_sectors_kb)" = 44
ktap_test "the log says what it has" guest_run r \
	"dmesg | grep 'persistent grants: ' | tail -n 1 | grep 'persistent grants: disabled; indirect descriptors: disabled'"
parts=$(number r xvdb parts)
ktap_test "requests went in parts" test "$parts" -gt 0
ktap_print_msg "$parts parts"
ktap_test "the disk works" disk_works r xvdb
ktap_test "nobody is stuck" nobody_stuck r

handle=$(load)
wait_for_load r xvdb
ktap_test "the guest moves to a better backend" move Y 2 feature-max-indirect-segments=100 \
	max-ring-page-order=2
ktap_test "the load goes on, and reads what it wrote" guest_wait "$handle" 300
ktap_test "the disk's limit is the better backend's" \
	test "$(block_keys r xvdb queue/max_hw_sectors_kb)" = 400
ktap_test "the log says what it has" guest_run r \
	"dmesg | grep 'persistent grants: ' | tail -n 1 | grep 'persistent grants: enabled; indirect descriptors: enabled'"
ktap_test "the disk works" disk_works r xvdb
ktap_test "nobody is stuck" nobody_stuck r
ktap_test "it can be detached" disk_detach r xvdb
echo "$queues" >$parameters/max_queues
echo Y >$parameters/feature_persistent
guest_destroy r
ktap_finished
