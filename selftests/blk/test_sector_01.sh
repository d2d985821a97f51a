#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk's sectors have the size that they have in dom0 (case B09): 512 bytes and 4096 bytes. Nothing
# smaller than a sector is written. Sectors emulated on larger ones are test_flush_02's.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 6
share_guest

sizes() {
	guest_run g "blockdev --getss --getpbsz --getiomin /dev/xvdb | paste -sd ' '"
}

write_of() {
	guest_run g "dd if=/dev/urandom of=/dev/xvdb bs=$1 count=1 seek=3 oflag=direct 2>&1" >/dev/null
}

attach_new g xvdb 16 512
ktap_equal "512: the guest's sizes" "512 512 512" "$(sizes)"
ktap_test "512: one sector is written" write_of 512
disk_detach g xvdb

attach_new g xvdb 16 4096
ktap_equal "4096: the guest's sizes" "4096 4096 4096" "$(sizes)"
# Pieces of a request that are no whole sectors would be refused by the backend.
beyond_c "it allows pieces of 512 bytes" "4096: no buffer may begin within a sector" \
	test "$(block_keys g xvdb queue/dma_alignment)" = 4095
ktap_test "4096: blocks are as written" disk_works g xvdb
before=$(sum_dom0 "$disk")
write_of 512
ktap_equal "4096: a write of 512 bytes is refused" "1 $before" "$? $(sum_dom0 "$disk")"
disk_detach g xvdb
ktap_finished
