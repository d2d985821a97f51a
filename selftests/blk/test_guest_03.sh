#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An HVM guest works on its disks through this driver, not on those that QEMU emulates.
# pairs: rust/rust rust/c
# control: c/rust c/c
# timeout: 400
# tier: long
# cpu: max,-xsave,-fsgsbase,-pcid,-invpcid,-la57,-smap,-umip

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
disk=$(make_disk 16)
guest_create h type=hvm disk="phy:$disk,xvda,w" timeout=240 || ktap_exit_fail_msg "no guest"
ktap_test "the emulated disk is unplugged" guest_run h \
	"dmesg | grep -q 'unplug emulated disks' && ! ls /sys/block | grep -E '^(sd|hd)'"
ktap_test "the disk that is there from the start works" disk_works h xvda
attach_new h xvdb 16
ktap_test "another disk works" disk_works h xvdb
before=$(sum_guest h xvdb)
ktap_equal "dom0 sees the same" "$before" "$(sum_dom0 "$disk")"
disk_detach h xvdb
ktap_test "detached, it leaves no trace" no_trace h xvdb
disk_attach h "phy:$disk,xvdb,w"
ktap_equal "attached again, it has its data" "$before" "$(sum_guest h xvdb)"
guest_destroy h
ktap_finished
