#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Four jobs read and write at random with a checksum in every block, and it is all there again
# after the disk was detached and attached.
# pairs: rust/rust rust/c
# control: c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 4
share_guest
attach_new g xvdb 64

options="--bsrange=4k-256k --size=6m --numjobs=4 --offset_increment=16m --iodepth=16 \
	--verify=crc32c --verify_fatal=1"
ktap_test "mixed reads and writes" fio_guest g /dev/xvdb 90 --rw=randrw "$options"
ktap_test "writes" fio_guest g /dev/xvdb 90 --rw=randwrite "$options" --do_verify=0
before=$(sum_guest g xvdb)
disk_detach g xvdb
disk_attach g "phy:$disk,xvdb,w"
ktap_test "the same blocks after attaching again" fio_guest g /dev/xvdb 90 --rw=randwrite \
	"$options" --verify_only
ktap_equal "and everything else" "$before" "$(sum_guest g xvdb)"
ktap_finished
