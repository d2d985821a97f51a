#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Files on ext4 and xfs survive that the disk is detached and attached, and the file systems are
# clean.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest

try() {
	local kind=$1 check=$2
	attach_new g xvdb "$3"
	ktap_test "$kind: files are written" guest_run g 90 "set -e
		mkfs.$kind -q /dev/xvdb
		mount -t $kind /dev/xvdb /mnt
		cp /usr/bin/* /mnt
		for i in {1..200}; do head -c \$((i * 37)) /dev/urandom >/mnt/small\$i; done
		rm /mnt/small*7
		(cd /mnt && find . -type f -exec sha256sum {} +) >/tmp/sums
		umount /mnt"
	disk_detach g xvdb
	disk_attach g "phy:$disk,xvdb,w"
	ktap_test "$kind: it is clean" guest_run g 60 "$check /dev/xvdb 2>&1"
	ktap_test "$kind: the files are the same" guest_run g 90 "set -e
		mount -t $kind /dev/xvdb /mnt
		cd /mnt
		[ \$(find . -type f | wc -l) = \$(wc -l </tmp/sums) ]
		sha256sum -c --quiet /tmp/sums
		cd /
		umount /mnt"
	disk_detach g xvdb
	remove_disk "$disk"
}

try ext4 "e2fsck -fn" 96
try xfs "xfs_repair -n" 320
ktap_finished
