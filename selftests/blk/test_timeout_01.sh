#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# B17, B31: a backend that takes requests and does not answer: the log says so once, after the time
# that the disk's io_timeout gives, and requests wait. With request_timeout they end with an error,
# and the device can be detached.
# pairs: rust/c
# timeout: 400
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/blk/rogue.sh
. ./rogue.sh
ktap_set_plan 12
share_guest

# serve OPTION...: runs a backend that stops answering after 50 requests, and reads until it does.
serve() {
	rogue_log=/tmp/rogue.timeout
	rogue-blkback --domid "$(guest_id g)" --vdev xvdb --size 16M --attack hang --after 50 \
		>"$rogue_log" 2>&1 &
	rogue_pid=$!
	wait_for 20 has_node g xvdb || ktap_exit_fail_msg "no disk"
	guest_run g "dmesg -C; echo 2000 >/sys/block/xvdb/queue/io_timeout"
	work=$(guest_start g 100 "fio --name=wait --filename=/dev/xvdb --direct=1 --ioengine=libaio \
		--rw=randread --bs=4k --iodepth=8 --size=16m")
}

log_has() {
	guest_run g "dmesg | grep '$1'"
}

count_lines() {
	guest_run g "dmesg | grep -c '$1'"
}

serve
ktap_test "the log says that it does not answer" wait_for 20 log_has \
	"xvdb: the backend has not answered a request on queue . for 2 s, going on waiting"
sleep 7
ktap_test "once for a queue" test "$(count_lines 'going on waiting')" -le 2
ktap_test "the request waits" guest_run g "pgrep fio"
ktap_test "it goes" rogue_end g
ktap_test "with an error" ends_with_error "$work" 20

guest_run g "echo 5 >/sys/module/xen_blkfront/parameters/request_timeout"
serve
ktap_test "request_timeout: requests end with an error" ends_with_error "$work" 30
ktap_test "request_timeout: the error node says why" wait_for 10 error_says g xvdb \
	"backend has not answered a request for [0-9]+ s; xvdb disabled"
ktap_test "request_timeout: nobody is stuck" nobody_stuck g
ktap_test "request_timeout: it goes" rogue_end g

# What has been answered meanwhile is not late, although all timers run at once.
attach_new g xvdb 16
work=$(fio_start g xvdb 20)
wait_for_load g xvdb
xl pause g
sleep 8
xl unpause g
ktap_test "request_timeout: a guest that was paused for longer keeps its disk" guest_wait "$work"
disk_detach g xvdb
guest_run g "echo 0 >/sys/module/xen_blkfront/parameters/request_timeout"
disk=$(make_disk 16)
ktap_test "a good backend works" attach_works g xvdb
ktap_equal "and has the usual time" 30000 "$(block_keys g xvdb queue/io_timeout)"
ktap_finished
