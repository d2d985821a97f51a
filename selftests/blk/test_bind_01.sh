#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A device can be taken from its driver through sysfs in the middle of its work, and given back: then its disk works
# again.
# control: rust/c c/c
# allow-console: I/O error
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
disk_is_back() {
	wait_for 30 has_node "$1" "$2" && disk_works "$1" "$2"
}

ktap_set_plan 8
share_guest
attach_new g xvdb 32
device=vbd-$(vdev_number xvdb)
load=$(fio_start g xvdb 60)
wait_for_load g xvdb || ktap_exit_fail_msg "no load"
ktap_test "it is taken away" guest_run g 50 "echo $device >/sys/bus/xen/drivers/vbd/unbind"
ktap_test "the load ends with an error" ends_with_error "$load" 20
ktap_test "nobody is stuck" nobody_stuck g
ktap_test "there is no disk" has_no_node g xvdb
guest_run g 50 "echo $device >/sys/bus/xen/drivers/vbd/bind" >/dev/null
ktap_test "it is given back" guest_run g "[ -e /sys/bus/xen/drivers/vbd/$device ]"
beyond_c "the frontend does not begin anew" "... and there is the disk again, and works" disk_is_back g xvdb
ktap_test "it can be detached" disk_detach g xvdb
ktap_test "and attached, and works" attach_works g xvdb
ktap_finished
