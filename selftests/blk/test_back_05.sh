#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backing device that is pulled out under load (case B16): the guest gets errors at once, the disk can
# be detached, nobody hangs, and the next disk works.
# pairs: rust/rust
# control: c/rust
# timeout: 300
# allow-console: I/O error|Buffer I/O

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest
attach_new g xvdb 32
load=$(fio_start g xvdb 60)
wait_for_load g xvdb || ktap_exit_fail_msg "no load"
folder=/sys/kernel/config/nullb/$(basename "$disk")
echo 0 >"$folder/power"
ktap_test "what is in flight ends with an error" ends_with_error "$load" 15
told() {
	xenstore-read "/local/domain/0/error/backend/vbd/$(guest_id g)/$(vdev_number xvdb)/error" |
		grep -q "has been removed"
}
ktap_test "the toolstack is told" wait_for 5 told
ktap_test "nobody in the guest is stuck" nobody_stuck g
ktap_test "the disk can be detached" disk_detach g xvdb
rmdir "$folder"
ktap_equal "nobody in dom0 is stuck" "" "$(pgrep -l -r D .)"
attach_new g xvdb 16
ktap_test "a disk works in its place" disk_works g xvdb
ktap_finished
