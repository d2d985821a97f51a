#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk whose device grows or shrinks in dom0 does so in the guest, while it is in use.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400
# allow-console: I/O error|attempt to access beyond

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest
truncate -s 32M /tmp/resize.img
disk=$(losetup --find --show /tmp/resize.img)
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
guest_run g "mkfs.ext4 -q /dev/xvdb && mount /dev/xvdb /mnt && cp /usr/bin/fio /mnt"

guest_has_size() {
	[ "$(block_keys g xvdb size)" = "$1" ]
}

# resize MIB: makes the device in dom0 as large.
resize() {
	truncate -s "$1M" /tmp/resize.img
	losetup -c "$disk"
}

resize 64
ktap_test "it grows" wait_for 10 guest_has_size 131072
ktap_test "the log says so" guest_run g "dmesg | grep 'Setting capacity to 131072'"
ktap_test "its file system can grow" guest_run g "resize2fs /dev/xvdb 2>&1 &&
	[ \$(df -m --output=size /mnt | tail -n 1) -gt 50 ] && cmp /usr/bin/fio /mnt/fio"
guest_run g "umount /mnt"
ktap_test "what is new works" guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=1M seek=40 count=8 \
	oflag=direct 2>&1"

resize 16
ktap_test "it shrinks" wait_for 10 guest_has_size 32768
ktap_test "nothing can be read beyond its end" guest_run g \
	"! dd if=/dev/xvdb of=/tmp/out bs=4k skip=5000 count=1 iflag=direct 2>&1 || ! [ -s /tmp/out ]"
disk_detach g xvdb
losetup -d "$disk"
rm /tmp/resize.img
ktap_finished
