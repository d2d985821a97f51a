#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A PVH guest has its root on a disk, and works on it and on another one.
# pairs: rust/rust rust/c
# control: c/rust c/c
# timeout: 400
# tier: long
# cpu: max,-xsave,-fsgsbase,-pcid,-invpcid,-la57,-smap,-umip

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
root=$(make_root_disk) || ktap_exit_fail_msg "no root"
guest_create p type=pvh root=xvda disk="phy:$root,xvda,w" timeout=150 ||
	ktap_exit_fail_msg "no guest"
ktap_equal "the root is on the disk" "/dev/xvda ext4" "$(guest_run p "findmnt -no SOURCE,FSTYPE /")"
attach_new p xvdb 16
ktap_test "another disk works" disk_works p xvdb
before=$(sum_guest p xvdb)
ktap_equal "dom0 sees the same" "$before" "$(sum_dom0 "$disk")"
disk_detach p xvdb
ktap_test "detached, it leaves no trace" no_trace p xvdb
disk_attach p "phy:$disk,xvdb,w"
ktap_equal "attached again, it has its data" "$before" "$(sum_guest p xvdb)"
guest_destroy p
ktap_finished
