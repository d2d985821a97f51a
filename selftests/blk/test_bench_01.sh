#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The benchmark for real hosts measures a disk and an interface of a guest, finds out which drivers are loaded, and
# compares what it has measured.
# pairs: rust/rust
# control: c/c
# timeout: 500
# tier: long

ktap_set_plan 7
guest_create n timeout=240 || ktap_exit_fail_msg "no guest"
disk=$(make_disk 64) || ktap_exit_fail_msg "no disk"
if ! vif=$(vif_attach n) || ! vif_up n "$vif" 2; then
	ktap_exit_fail_msg "no interface"
fi
numbers=/tmp/numbers
rm -f $numbers

measure() {
	../bench/host measure --guest n --run "guest-exec run n 300" --scale 0.01 --output $numbers "$@"
}

for _ in 1 2; do
	ktap_test "a disk is measured" measure --disk "phy:$disk"
done
ktap_test "it has been detached" eval "! xl block-list n | grep -q $(vdev_number xvdz)"
ktap_test "an interface is measured" measure --address 10.0.0.1 --guest-address 10.0.0.2
ktap_equal "each workload has its numbers" 13 "$(grep -c '"requests": [1-9]' $numbers)"
../bench/host report $numbers >/tmp/report
ktap_print_msg "$(cat /tmp/report)"
ktap_equal "the pair is named" "$XENVM_FRONT_BLKFRONT/$XENVM_BACK_BLKBACK" \
	"$(awk '$1 == "randread-4k-qd32" { print $2 }' /tmp/report)"
ktap_test "a guest that is not there is refused" eval "! ../bench/host measure --guest x --run false --disk x --output $numbers"
vif_detach n "$vif"
ktap_finished
