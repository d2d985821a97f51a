#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Dom0 may have next to no frames mapped (case B02): no request fails, and no data is lost. The C driver
# makes I/O errors of it.
# pairs: rust/rust
# control: c/rust
# timeout: 400
# xen-arg: gnttab_max_maptrack_frames=1

# shellcheck source=selftests/blk/common.sh
. ./common.sh
vdevs=(xvdb xvdc xvdd)
ktap_set_plan 5
share_guest
disks=()
for vdev in "${vdevs[@]}"; do
	attach_new g "$vdev" 48
	disks+=("$disk")
done

verify() {
	local vdev handles=() handle status=0
	for vdev in "${vdevs[@]}"; do
		handles+=("$(guest_start g 120 "fio --name=test --filename=/dev/$vdev --direct=1 \
			--ioengine=libaio --rw=randrw --bsrange=4k-512k --size=8m --numjobs=2 \
			--offset_increment=16m --iodepth=32 --verify=crc32c --verify_fatal=1 2>&1")")
	done
	for handle in "${handles[@]}"; do
		guest_wait "$handle" 150 >/tmp/fio || {
			status=1
			grep -E 'fio:|verify|error' /tmp/fio | head -n 4 | sed 's/^/# /'
		}
	done
	return $status
}
ktap_test "three disks at once, with checksums" verify
ktap_test "there was no room" eval "dmesg | grep -q 'no room to map more frames'"
errors=0
for vdev in "${vdevs[@]}"; do
	errors=$((errors + $(cat "/sys/bus/xen-backend/devices/vbd-$(guest_id g)-$(vdev_number \
		"$vdev")"/ring-*/err_req | paste -sd +)))
done
ktap_equal "no request failed" 0 "$errors"
ktap_equal "no error in the guest" "" "$(guest_run g "dmesg | grep 'I/O error'")"
detach_all() {
	for vdev in "${vdevs[@]}"; do
		disk_detach g "$vdev" || return
	done
}
ktap_test "all are detached" detach_all
ktap_finished
