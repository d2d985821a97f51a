#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N11, N13: a guest that takes no packets for a while. What waits is limited, by its bytes and by the memory
# that dom0 has left, and dropped in the end; the carrier goes and comes back once, and then all is as before. (C's frontend warns of what it still has to send when it goes.)
# control: rust/rust c/rust
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 7
share_guest
backend_load netback "$XENVM_BACK_NETBACK" rx_drain_timeout_msecs=2000 rx_stall_timeout_msecs=6000 ||
	ktap_exit_fail_msg "no backend"
attach_new

waiting() {
	ethtool -S "$back" | awk '$1 == "tx_waiting_bytes:" { print $2 }'
}

has_carrier() {
	[ "$(cat "/sys/class/net/$back/carrier")" = 1 ]
}

has_no_carrier() {
	! has_carrier
}

free_memory() {
	awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo
}

free=$(free_memory)
dropped=$(counter dom0 tx_dropped)
changes=$(cat "/sys/class/net/$back/carrier_changes")
xl pause "$(guest_id n)"
ping -q -f -s 1400 -w 15 10.0.0.2 >/dev/null 2>&1 &
flood=$!
sleep 3
# Two queues of 512 KiB.
ktap_test "what waits is limited" test "$(waiting)" -le $((2 * (512 << 10) + (64 << 10)))
free=$((free - $(free_memory)))
ktap_print_msg "memory that dom0 has less than before: $free KiB"
ktap_test "so is the memory for it" test $free -lt 8192
ktap_test "the carrier goes" wait_for 20 has_no_carrier
kill $flood 2>/dev/null
wait $flood
ktap_test "packets are dropped" test "$(counter dom0 tx_dropped)" -gt "$dropped"
xl unpause "$(guest_id n)"
ktap_test "the carrier comes back" wait_for 20 has_carrier
ktap_test "data passes both ways" both_ways 2
ktap_equal "changes of the carrier" 2 "$(($(cat "/sys/class/net/$back/carrier_changes") - changes))"
vif_detach n "$vif"
backend_load netback "$XENVM_BACK_NETBACK"
ktap_finished
