#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B19: a restored guest finds larger sectors than its disk had. In use, the disk is refused, with an
# error that says why, and what waits for it ends with an error. Not in use, it has the new sectors.
# Larger or not, smaller ones are taken.
# pairs: rust/c
# timeout: 700
# tier: long
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 9
guest_create r memory=256 timeout=240 fresh || ktap_exit_fail_msg "no guest"
state=/var/lib/xen/r.save
small=$(make_disk 16 512)
large=$(make_disk 16 4096)
ln -sfn "$small" /run/disk

# move PATH: saves the guest and restores it with that as its disk.
move() {
	local status
	guest_save r $state || return
	ln -sfn "$1" /run/disk
	guest_restore r $state
	status=$?
	rm -f $state
	return $status
}

sectors() {
	block_keys r xvdb queue/logical_block_size
}

has_sectors() {
	[ "$(sectors)" = "$1" ]
}

disk_attach r "phy:/run/disk,xvdb,w" || ktap_exit_fail_msg "no disk"
ktap_equal "before" 512 "$(sectors)"
ktap_test "not in use: it moves to larger sectors" move "$large"
ktap_test "and has them" wait_for 20 has_sectors 4096
ktap_test "and works" disk_works r xvdb
ktap_test "it moves to smaller sectors" move "$small"
ktap_test "and has them" wait_for 20 has_sectors 512

handle=$(fio_start r xvdb 200)
wait_for_load r xvdb
move "$large"
ktap_test "in use: the error says why it is refused" wait_for 20 error_says r xvdb \
	"sector-size is 4096, but the disk is in use with sectors of 512 bytes"
ktap_test "in use: what waits ends with an error" ends_with_error "$handle" 20
ktap_test "in use: nobody is stuck" nobody_stuck r
guest_destroy r
rm /run/disk
ktap_finished
