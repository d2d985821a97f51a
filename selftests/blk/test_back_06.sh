#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The backend's module and the driver's binding with guests attached: the module stays while there is a
# disk, a disk whose driver is unbound can be bound again, and everything goes once the disk has.
# pairs: rust/rust
# control: c/rust
# timeout: 300
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 8
share_guest
attach_new g xvdb 16
device=vbd-$(guest_id g)-$(vdev_number xvdb)
driver=/sys/bus/xen-backend/drivers/vbd

! rmmod xen-blkback 2>/dev/null
ktap_test "the module does not go" test $? = 0
ktap_test "the disk works" disk_works g xvdb
ktap_test "the driver is unbound" eval "echo $device >$driver/unbind"
ktap_test "its files are gone" test ! -e "/sys/bus/xen-backend/devices/$device/statistics"
ktap_test "the driver is bound" eval "echo $device >$driver/bind"
ktap_test "the disk works again" wait_for 30 disk_works g xvdb
ktap_test "the disk is detached" disk_detach g xvdb
ktap_test "the module goes, and comes" eval "rmmod xen-blkback && modprobe xen-blkback"
ktap_finished
