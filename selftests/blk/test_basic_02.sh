#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Requests of all sizes between one sector and 1 MiB, at odd sectors and in any order, hit exactly
# what they should; so do those from memory that does not begin with a page.
# pairs: rust/rust rust/c c/rust
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
attach_new g xvdb 32

# 8 MiB from sector 5 on, cut into pieces; each is copied on its own, in a random order.
# shellcheck disable=SC2016 # expanded in the guest
pieces='sizes=(512 1048576 1024 4096 3584 61440 4608 66048 130560 131584); at=2560
	for ((i = 0; at < 8388608; i++)); do
		echo $at ${sizes[i % 10]}
		at=$((at + sizes[i % 10]))
	done | shuf'
guest_run g 120 "set -e
	dd if=/dev/urandom of=/tmp/data bs=1M count=12 2>/dev/null
	$pieces >/tmp/pieces
	while read -r at size; do
		dd if=/tmp/data of=/dev/xvdb bs=\$size count=1 skip=\$at seek=\$at \
			iflag=skip_bytes oflag=seek_bytes,direct conv=notrunc status=none
	done </tmp/pieces"
ktap_equal "every piece is written" 0 $?
ktap_test "and where it belongs" guest_run g "cmp -i 2560 -n 8388608 /tmp/data /dev/xvdb"
ktap_test "nothing before it is touched" guest_run g "cmp -n 2560 /dev/zero /dev/xvdb"
ktap_test "every piece is read" guest_run g 120 "set -e
	truncate -s 12M /tmp/copy
	while read -r at size; do
		dd if=/dev/xvdb of=/tmp/copy bs=\$size count=1 skip=\$at seek=\$at \
			iflag=skip_bytes,direct oflag=seek_bytes conv=notrunc status=none
	done </tmp/pieces
	cmp -i 2560 -n 8388608 /tmp/data /tmp/copy"

unaligned() {
	local size
	for size in 1536 4608 66048; do
		fio_guest g /dev/xvdb 60 --rw=randrw --bs=$size --iomem_align=512 --blockalign=512 \
			--size=2m --iodepth=8 --verify=crc32c --verify_fatal=1 || return
	done
}
ktap_test "memory that begins within a page" unaligned
ktap_finished
