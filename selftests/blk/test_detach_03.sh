#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A backend that disappears under load, as if its domain had died: what is in flight ends with an
# error, the guest lives, the device can be removed, and a new one works. With the C driver it
# waits for ever.
# pairs: rust/rust
# control: rust/c c/c c/rust
# timeout: 400
# allow-console: I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
attach_new g xvdb 32
load=$(fio_start g xvdb 60)
wait_for_load g xvdb || ktap_exit_fail_msg "no load"
xenstore-rm "$(backend_path g xvdb)"
why="requests to a backend that has gone wait for ever"
beyond_c "$why" "what is in flight ends with an error" ends_with_error "$load" 15
beyond_c "$why" "nobody is stuck" nobody_stuck g
beyond_c "$why" "the device is closed" front_reaches g xvdb 6
forget_device g xvdb
beyond_c "$why" "no trace of the disk" no_trace g xvdb
beyond_c "$why" "a disk works in its place" attach_works g xvdb
! is_c || guest_destroy g
ktap_finished
