#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A size that makes no sense, written while the disk is in use, is not believed: the disk stays as
# it was, and works.
# control: rust/c c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
sizes=(junk -1 18446744073709551615 '')
ktap_set_plan $((${#sizes[@]} * 2 + 2))
share_guest
attach_new g xvdb 16
back=$(backend_path g xvdb)
for size in "${sizes[@]}"; do
	xenstore-write -- "$back/sectors" "$size" "$back/state" 4
	beyond_c "it says nothing" "\"$size\": the error names the key" \
		wait_for 10 error_says g xvdb sectors
	beyond_c "it takes what looks like a number" "\"$size\": the size stays" \
		test "$(block_keys g xvdb size)" = 32768
	xenstore-rm "$(guest_home g)/error/device/vbd/$(vdev_number xvdb)" 2>/dev/null
done
xenstore-write -- "$back/sectors" 32768 "$back/state" 4
wait_for 10 guest_run g "[ \$(cat /sys/block/xvdb/size) = 32768 ]"
ktap_test "the disk works" disk_works g xvdb
ktap_test "it can be detached" disk_detach g xvdb
ktap_finished
