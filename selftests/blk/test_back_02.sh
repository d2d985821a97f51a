#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk that is attached read-only, and one whose device is: the guest sees that and cannot write.
# pairs: rust/rust
# control: c/rust
# timeout: 300
# allow-console: I/O error|read-only

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 10
share_guest

try() {
	local name=$1
	before=$(sum_dom0 "$disk")
	ktap_equal "$name: info" 4 "$(xenstore-read "$(backend_path g xvdb)/info")"
	ktap_equal "$name: the guest knows" 1 "$(block_keys g xvdb ro)"
	guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=4k count=4 oflag=direct 2>/dev/null"
	ktap_test "$name: the guest cannot write" test $? != 0
	ktap_equal "$name: nothing was written" "$before" "$(sum_guest g xvdb)"
	disk_detach g xvdb
}

disk=$(make_disk 16)
dd if=/dev/urandom "of=$disk" bs=1M oflag=direct 2>/dev/null
disk_attach g "phy:$disk,xvdb,r" || ktap_exit_fail_msg "no disk"
try "mode r"
blockdev --setro "$disk"
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
try "read-only device"

# A file system keeps some of the device's pages in dom0's memory as long as it is mounted.
disk=$(make_disk 16)
if ! mkfs.ext4 -q "$disk" || ! mount -o ro "$disk" /mnt; then
	ktap_exit_fail_msg "dom0 cannot mount the disk"
fi
ktap_test "a disk that dom0 has mounted read-only is attached" disk_attach g "phy:$disk,xvdb,r"
ktap_test "the guest can mount it, too" guest_run g "mount -o ro /dev/xvdb /mnt && umount /mnt"
disk_detach g xvdb
umount /mnt
ktap_finished
