#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Files in dom0 as disks, by loop devices with and without direct I/O and with sectors of 512, 2048 and
# 4096 bytes (cases B09, B11, B27): the guest's sectors are the loop device's, data passes both ways, a
# read-only device stays as it is.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
kinds=("512 off" "2048 off" "4096 off" "4096 on")
ktap_set_plan $((${#kinds[@]} * 3 + 2))
share_guest
# Direct I/O needs a file system that is on a disk.
mkdir -p /tmp/below
if ! below=$(make_disk 64 4096) || ! mkfs.ext4 -q "$below" || ! mount "$below" /tmp/below; then
	ktap_exit_fail_msg "no file system in dom0"
fi
file=/tmp/below/loop.img

# loop_device SECTOR-SIZE DIRECT-IO [OPTION]: makes one of a new file, prints its path.
loop_device() {
	truncate -s 24M $file &&
		losetup --find --show --sector-size "$1" --direct-io="$2" ${3:+"$3"} $file
}

for kind in "${kinds[@]}"; do
	read -r size direct <<<"$kind"
	name="$size-byte sectors, direct I/O $direct"
	if ! loop=$(loop_device "$size" "$direct") || ! disk_attach g "phy:$loop,xvdb,w"; then
		ktap_exit_fail_msg "no disk of $name"
	fi
	ktap_equal "$name: the guest's sectors" "$size" "$(guest_run g "blockdev --getss /dev/xvdb")"
	ktap_test "$name: blocks are as written" disk_works g xvdb
	ktap_equal "$name: the file has what the guest wrote" "$(sum_guest g xvdb)" "$(sum_dom0 "$loop")"
	disk_detach g xvdb
	losetup -d "$loop"
	rm $file
done

if ! loop=$(loop_device 2048 off --read-only) || ! disk_attach g "phy:$loop,xvdb,r"; then
	ktap_exit_fail_msg "no read-only disk"
fi
before=$(sum_dom0 "$loop")
ktap_test "read-only: it cannot be written" guest_run g "! dd if=/dev/zero of=/dev/xvdb bs=2048 count=1 \
	oflag=direct 2>/dev/null"
ktap_equal "read-only: it is as it was" "$before" "$(sum_guest g xvdb)"
disk_detach g xvdb
losetup -d "$loop"
umount /tmp/below
ktap_finished
