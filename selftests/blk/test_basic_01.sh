#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk has the name, numbers, size and flags that the toolstack gave it, data passes both ways,
# and detached it leaves nothing behind.
# pairs: rust/rust rust/c c/rust
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 8
share_guest
attach_new g xvdb 24
ktap_equal "major and minor number" "202:16" "$(block_keys g xvdb dev)"
ktap_equal "size, writable, not removable" "49152 0 0" "$(block_keys g xvdb size ro removable)"
ktap_test "log line" guest_run g "dmesg | grep -q 'blkfront: xvdb: .*persistent grants: .*indirect'"

dd if=/dev/urandom "of=$disk" bs=1M count=24 oflag=direct 2>/dev/null
ktap_equal "the guest reads what dom0 wrote" "$(sum_dom0 "$disk")" "$(sum_guest g xvdb)"
guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=1M count=24 oflag=direct status=none"
ktap_equal "dom0 reads what the guest wrote" "$(sum_guest g xvdb)" "$(sum_dom0 "$disk")"

disk_detach g xvdb
ktap_test "detached, it leaves no trace" no_trace g xvdb

before=$(sum_dom0 "$disk")
disk_attach g "phy:$disk,xvdb,r"
ktap_equal "attached read-only, it is" 1 "$(block_keys g xvdb ro)"
guest_run g "dd if=/dev/zero of=/dev/xvdb bs=4k count=1 oflag=direct status=none 2>&1"
ktap_equal "and what is on it stays" "$before" "$(sum_dom0 "$disk")"
ktap_finished
