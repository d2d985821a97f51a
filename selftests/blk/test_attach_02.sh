#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A device whose backend never gets ready, as its hotplug script has failed, holds up nobody: other
# disks come and go meanwhile. When its backend gets ready after all, it works (case B31).
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest
late=$(make_disk 16)
hand_type=vbd
# What the toolstack writes for a disk, but for what its hotplug script adds.
hand_make g xvdc params=/dev/missing dev=xvdc type=phy mode=w device-type=disk removable=0 \
	bootable=1
front_reaches g xvdc 3 || ktap_print_msg "the backend does not wait for its device"

quick() {
	local begun=$SECONDS
	disk=$(make_disk 16)
	disk_attach g "phy:$disk,xvdb,w" && disk_works g xvdb && disk_detach g xvdb &&
		[ $((SECONDS - begun)) -lt "$(stretch 20)" ]
}
ktap_test "another disk comes, works and goes" quick
ktap_test "the device waits" front_reaches g xvdc 3
ktap_test "a device that does not exist is refused" eval \
	'! xl block-attach g phy:/dev/missing,xvdd,w 2>/dev/null'
ktap_test "the guest has heard nothing of it" no_trace g xvdd

xenstore-write "$(hand_path g xvdc)/physical-device" "$(stat -c %t:%T "$late")"
wait_for 20 has_node g xvdc
ktap_test "the device works when its backend does" disk_works g xvdc
xenstore-write "$(hand_path g xvdc)/online" 0
hand_state g xvdc 5
front_reaches g xvdc 6
hand_remove g xvdc
ktap_test "and leaves no trace" wait_for 10 no_trace g xvdc
ktap_finished
