#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B05: requests are as large as both ends allow: 44 KiB without indirect requests, 1 MiB at most with the
# C backend. Their data is where it belongs.
# pairs: rust/c
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# Segments that the driver may use | KiB of a request | requests that twice 1 MiB takes at most
cases=("11|44|48" "32|128|16" "100|400|6" "256|1024|2" "4096|1024|2")
ktap_set_plan $((${#cases[@]} * 4))
guest_create i memory=512 timeout=240 || ktap_exit_fail_msg "no guest"
disk=$(make_disk 32)
guest_run i "head -c 2097152 /dev/urandom >/tmp/data"

# requests COMMAND...: how many reach the backend while the guest runs the command.
requests() {
	local key=$1 before
	shift
	before=$(statistic i xvdb "$key")
	guest_run i "$* 2>&1" >&2
	echo $(($(statistic i xvdb "$key") - before))
}

# The block layer may join what is left of the first MiB and the second one.
few_enough() {
	ktap_print_msg "$1 requests"
	[ "$1" -le "$count" ] && [ "$1" -ge $((2048 / size)) ]
}

same_everywhere() {
	guest_run i "cmp /tmp/data /tmp/copy" && [ "$(guest_run i "sha256sum </tmp/data")" = \
		"$(dd "if=$disk" bs=2M count=1 iflag=direct 2>/dev/null | sha256sum)" ]
}

for case in "${cases[@]}"; do
	IFS='|' read -r segments size count <<<"$case"
	name="$segments segments"
	guest_run i "rmmod xen-blkfront && modprobe xen-blkfront max_queues=1 \
		max_indirect_segments=$segments" || ktap_exit_fail_msg "the driver does not load"
	disk_attach i "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
	ktap_equal "$name: the disk's limit" "$size" "$(block_keys i xvdb queue/max_hw_sectors_kb)"
	guest_run i "echo $size >/sys/block/xvdb/queue/max_sectors_kb"
	ktap_test "$name: requests that write 2 MiB" few_enough \
		"$(requests wr_req dd if=/tmp/data of=/dev/xvdb bs=2M count=1 oflag=direct)"
	ktap_test "$name: requests that read 2 MiB" few_enough \
		"$(requests rd_req dd if=/dev/xvdb of=/tmp/copy bs=2M count=1 iflag=direct)"
	ktap_test "$name: what is read is what was written, on both sides" same_everywhere
	disk_detach i xvdb || break
done
ktap_finished
