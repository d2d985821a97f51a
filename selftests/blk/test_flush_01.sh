#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk whose device in dom0 has a volatile cache says so, and each fsync() and synchronous write
# reaches the backend as a flush. One without says that, and sends none.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 9
share_guest

# flushes COMMAND...: how many flushes reach the backend while the guest runs the command.
flushes() {
	local before
	before=$(statistic g xvdb f_req)
	guest_run g "$* 2>&1" >&2
	echo $(($(statistic g xvdb f_req) - before))
}

# try NAME CACHE: one flush at least for each, where there is a cache, and none at all otherwise.
try() {
	local wanted=(-eq 0)
	[ "$2" = "write through" ] || wanted=(-ge "$3")
	ktap_equal "$1: cache and FUA" "$2 0" "$(block_keys g xvdb queue/write_cache queue/fua)"
	ktap_test "$1: fsync" test "$(flushes dd if=/dev/zero of=/dev/xvdb bs=64k count=4 \
		conv=fsync)" "${wanted[@]}"
	[ "$2" = "write through" ] || wanted=(-ge 8)
	ktap_test "$1: synchronous writes" test "$(flushes dd if=/dev/zero of=/dev/xvdb bs=4k count=8 \
		oflag=direct,dsync)" "${wanted[@]}"
}

attach_new g xvdb 16 512 cache_size=4
try "cache" "write back" 1
ktap_test "cache: the log says so" guest_run g "dmesg | grep 'xvdb: flush diskcache: enabled;'"
disk_detach g xvdb
attach_new g xvdb 16 512
try "no cache" "write through" 0
ktap_test "no cache: the log says so" guest_run g \
	"dmesg | grep 'xvdb: barrier or flush: disabled;'"
ktap_test "no cache: the disk works" disk_works g xvdb
ktap_finished
