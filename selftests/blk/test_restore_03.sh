#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest that does nothing is saved and restored (case B33: it tells a kernel that cannot from a driver
# that cannot). Its disk works before and after, and has what was written.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
guest_create s timeout=240 fresh || ktap_exit_fail_msg "no guest"
state=/var/lib/xen/s.save
attach_new s xvdb 16
ktap_test "before: the disk works" disk_works s xvdb
before=$(sum_guest s xvdb)
ktap_test "saved and restored" eval "guest_save s $state && guest_restore s $state"
rm -f $state
ktap_equal "after: the disk has what was written" "$before" "$(sum_guest s xvdb)"
ktap_test "after: the disk works" disk_works s xvdb
ktap_test "nobody is stuck" nobody_stuck s
guest_destroy s
ktap_finished
