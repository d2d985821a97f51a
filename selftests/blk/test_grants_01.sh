#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B01: a guest that has far too few grant references for what its disks could use: all of them work,
# none hangs, and no request fails. With and without persistent grants, and with small requests among the
# large ones, which must not keep what was set aside for these.
# pairs: rust/c
# timeout: 500
# tier: long

# shellcheck source=selftests/blk/common.sh
. ./common.sh
vdevs=(xvdb xvdc xvdd xvde xvdf xvdg)
ktap_set_plan 8
guest_create s vcpus=2 memory=512 timeout=240 set=max_grant_frames=4 ||
	ktap_exit_fail_msg "no guest"

# Free references are few: 4 frames of 512, and each ring has some for itself.
try() {
	local vdev handles=() handle slow=0 before=$SECONDS
	guest_run s "rmmod xen-blkfront && modprobe xen-blkfront max_queues=2 $2" ||
		ktap_exit_fail_msg "the driver does not load"
	for vdev in "${vdevs[@]}"; do
		disk_attach s "phy:$(make_disk 16),$vdev,w" || slow=1
	done
	ktap_test "$1: all disks are there" test $slow = 0
	for vdev in "${vdevs[@]}"; do
		handles+=("$(guest_start s 150 "fio --name=$vdev --filename=/dev/$vdev --direct=1 \
			--ioengine=libaio --rw=randrw --bsrange=16k-1m --iodepth=32 --numjobs=1 --size=16m --loops=2 \
			--verify=crc32c --verify_fatal=1 --group_reporting")")
	done
	slow=0
	for handle in "${handles[@]}"; do
		guest_wait "$handle" >/tmp/output || {
			slow=1
			grep -E 'fio:|error|verify' /tmp/output | head -n 3 | sed 's/^/# /'
		}
	done
	ktap_test "$1: all requests are done, rightly" test $slow = 0
	ktap_print_msg "$1: $((SECONDS - before)) s"
	ktap_test "$1: nobody is stuck" nobody_stuck s
	for vdev in "${vdevs[@]}"; do
		disk_detach s "$vdev" || slow=1
	done
	ktap_test "$1: all disks go" test $slow = 0
}

try "persistent" feature_persistent=1
try "not persistent" feature_persistent=0
guest_destroy s
ktap_finished
