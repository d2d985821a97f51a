#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk detached by force in the middle of its work: what is in flight ends with an error within
# ten seconds, the guest lives, and a disk can be attached in its place.
# pairs: rust/rust rust/c
# control: c/c c/rust
# timeout: 400
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 4
share_guest
attach_new g xvdb 32
load=$(fio_start g xvdb 60)
wait_for_load g xvdb || ktap_exit_fail_msg "no load"
disk_detach g xvdb force
why="its removal waits for answers that nobody will give"
beyond_c "$why" "what is in flight ends with an error" ends_with_error "$load" 10
beyond_c "$why" "nobody is stuck" nobody_stuck g
beyond_c "$why" "no trace of the disk" no_trace g xvdb
beyond_c "$why" "a disk works in its place" attach_works g xvdb
! is_c || guest_destroy g
ktap_finished
