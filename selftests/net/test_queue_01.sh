#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# One queue and two, with an event channel for each direction and with one for both: data passes each way, and
# the queues are those that were asked for.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 12
share_guest

# check QUEUES CHANNELS: with as many queues, and as many channels for each.
check() {
	guest_run n "rmmod xen-netfront && modprobe xen-netfront max_queues=$1"
	attach_new
	ktap_equal "queues" "$1" "$(guest_run n "ls -d /sys/class/net/$node/queues/tx-* | wc -l")"
	ktap_equal "event channels" $(($1 * $2)) "$(guest_run n "grep -cE '$node|vif$vif-q' /proc/interrupts")"
	ktap_test "data passes both ways, with $1 queues and $2 channels each" both_ways 8
	vif_detach n "$vif"
}

check 1 2
check 2 2
backend_load netback "$XENVM_BACK_NETBACK" separate_tx_rx_irq=0 || ktap_exit_fail_msg "no backend"
check 1 1
check 2 1
backend_load netback "$XENVM_BACK_NETBACK"
ktap_finished
