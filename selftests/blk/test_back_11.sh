#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A device that stands still, as one does whose paths have failed: requests that find no pages meanwhile
# do not fail, however long it takes; a ring that waits for its last requests does not spin; and a
# disk that is removed while its device is waited for leaves nothing in xenstore.
# pairs: rust/rust
# tier: long
# timeout: 400
# allow-console: I/O error|blk_update_request|keeps pages of

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 8
share_guest
below=$(make_disk 64)
dmsetup create --noudevsync still --table "0 $(blockdev --getsz "$below") linear $below 0" ||
	ktap_exit_fail_msg "no device that can be suspended"
disk=/dev/dm-$(dmsetup info -c --noheadings -o minor still)

stand_still() {
	dmsetup suspend --noflush --nolockfs --noudevsync still
}

go_on() {
	dmsetup resume --noudevsync still
}

# Pages for copies are 512 a ring, and a request of 16 KiB takes four.
guest_run g "rmmod xen-blkfront &&
	modprobe xen-blkfront max_queues=1 max_ring_page_order=4 feature_persistent=0" ||
	ktap_exit_fail_msg "the driver does not load"
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
stand_still
work=$(guest_start g 200 "fio --name=still --filename=/dev/xvdb --direct=1 --ioengine=libaio \
	--rw=read --bs=16k --iodepth=200 --size=8m")
ktap_test "a request is held" wait_for 20 statistic_above g xvdb oo_req 0
# Longer than a request is held when nothing is under way that would give pages back.
sleep 35
ktap_test "it waits for the device" guest_run g "pgrep fio"
go_on
guest_wait "$work" 100 >/tmp/output
ktap_equal "no request has failed" "0 0" "$? $(statistic g xvdb err_req)"

stand_still
work=$(guest_start g 100 "dd if=/dev/xvdb of=/dev/null bs=16k count=1 iflag=direct")
before=$(statistic g xvdb rd_req)
wait_for 20 statistic_above g xvdb rd_req "$((before - 1))"
thread=$(pgrep "^$(guest_id g)\.xvdb-0$")
disk_detach g xvdb force
# ticks: processor time of the ring's thread, in 1/100 s.
ticks() {
	awk '{ print $14 + $15 }' "/proc/$thread/stat"
}
before=$(ticks)
sleep 5
used=$(($(ticks) - before))
ktap_print_msg "the ring's thread used $used of 500 ticks"
ktap_test "the ring's thread waits without spinning" test "$used" -lt 100
go_on
ktap_test "it ends when the device has answered" wait_for 30 test ! -e "/proc/$thread"
guest_wait "$work" 60 >/dev/null
wait_for 30 no_trace g xvdb

# What dom0 has written to the device must reach it before the guest may.
exec 9<>"$disk"
printf 'not written yet' >&9
stand_still
disk_attach g "phy:$disk,xvdb,w" nowait
front=$(frontend_path g xvdb)
back=$(backend_path g xvdb)
ktap_test "the backend waits for the device" front_reaches g xvdb 3
forget_device g xvdb
go_on
# One opener is this script.
closed() {
	[ "$(dmsetup info -c --noheadings -o open still)" = 1 ]
}
ktap_test "the removed disk's device is closed" wait_for 30 closed
exec 9>&-
ktap_equal "nothing of it is in xenstore" "gone gone" "$(xs_state "$front") $(xs_state "$back")"
xenstore-exists "$back" && ktap_print_msg "there is still $back"
dmsetup remove --noudevsync still
ktap_finished
