#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B12: what a guest discards is discarded in dom0, in units that the guest is told of. Not offered
# by the toolstack, or on a read-only disk, there is none.
# pairs: rust/c
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 12
share_guest

# discard_keys: granularity, largest discard in bytes and largest secure discard, 1 for any.
discard_keys() {
	block_keys g xvdb queue/discard_granularity queue/discard_max_bytes | sed -E 's/ [1-9].*/ 1/'
}

# has_data MIB: whether what dom0 has at this place is not empty.
has_data() {
	! dd "if=$disk" bs=1M skip="$1" count=1 iflag=direct 2>/dev/null |
		cmp -n 1048576 - /dev/zero >/dev/null
}

attach_new g xvdb 32
ktap_equal "units, and that there are discards" "512 1" "$(discard_keys)"
guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=1M count=32 oflag=direct status=none"
before=$(statistic g xvdb ds_req)
ktap_test "a range is discarded" guest_run g "blkdiscard -o 4194304 -l 8388608 /dev/xvdb"
ktap_test "by a request for that" test "$(statistic g xvdb ds_req)" -gt "$before"
ktap_equal "it is empty" "$(head -c 8388608 /dev/zero | sha256sum)" \
	"$(dd "if=$disk" bs=1M skip=4 count=8 iflag=direct 2>/dev/null | sha256sum)"
ktap_test "nothing before it is" has_data 3
ktap_test "nothing behind it is" has_data 12
guest_run g "mkfs.ext4 -q /dev/xvdb && mount -o discard /dev/xvdb /mnt && cp /usr/bin/fio /mnt && sync"
before=$(statistic g xvdb ds_req)
guest_run g "rm /mnt/fio && sync && umount /mnt"
ktap_test "a file system that deletes a file discards" wait_for 10 statistic_above g xvdb ds_req \
	"$before"
ktap_test "secure discards are refused" guest_run g "! blkdiscard --secure /dev/xvdb 2>&1"
disk_detach g xvdb

disk_attach g "format=raw,vdev=xvdb,access=w,no-discard,target=$disk"
ktap_equal "not offered: there is none" "0 0" "$(discard_keys)"
ktap_test "not offered: the disk works" disk_works g xvdb
disk_detach g xvdb

disk_attach g "phy:$disk,xvdb,r"
beyond_c "it shows discards that are refused later" "read-only: there is none" \
	test "$(discard_keys)" = "0 0"
before=$(sum_dom0 "$disk")
guest_run g "blkdiscard /dev/xvdb 2>&1" >/dev/null
ktap_equal "read-only: nothing is discarded" "$before" "$(sum_dom0 "$disk")"
disk_detach g xvdb
ktap_finished
