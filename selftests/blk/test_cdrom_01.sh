#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Programs can find out by ioctl() whether a disk is a CD-ROM. The disks have no sectors, so that
# nobody reads them: their backends are keys in xenstore and nothing else.
# pairs: rust/c
# control: c/c
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
hand_make g xvdc
hand_make g xvdd
hand_connect g xvdc sectors=0 sector-size=2048 info=5
hand_connect g xvdd sectors=0 sector-size=512 info=0
front_reaches g xvdc 4
front_reaches g xvdd 4
guest_put g "$(command -v cdrom-ioctl)" || ktap_exit_fail_msg "no program in the guest"

answers() {
	guest_run g "/tmp/cdrom-ioctl /dev/$1 | paste -sd ' '"
}

zeroes='\x00\x00\x00\x00\x00\x00\x00\x00'
ones='\xff\xff\xff\xff\xff\xff\xff\xff'
ktap_equal "a CD-ROM is read-only and has its sectors" "1 2048" \
	"$(block_keys g xvdc ro queue/logical_block_size)"
ktap_equal "a CD-ROM" "multisession 0 $zeroes capability 0 $ones other errno=22" "$(answers xvdc)"
ktap_equal "another disk" "multisession 0 $zeroes capability errno=22 other errno=22" \
	"$(answers xvdd)"
ktap_test "both are removed" hand_remove g xvdc xvdd
ktap_test "there is nothing left of them" guest_run g "! ls -d /sys/block/xvd[cd] 2>/dev/null"
ktap_finished
