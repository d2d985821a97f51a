#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What dom0 sees of an interface: its address and limits, counters by the guest's view turned round, which go on
# when the frontend connects anew, and files in debugfs. (C's frontend warns of what it still has to send then.)
# pairs: rust/rust
# control: c/rust
# allow-console: xennet_disconnect_backend
# timeout: 200

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 15
share_guest
attach_new
path=$(vif_back n "$vif")
net=/sys/class/net/$back

reconnect() {
	guest_run n "cd /sys/bus/xen/drivers/vif && echo vif-$vif >unbind && sleep 1 && echo vif-$vif >bind" || return
	wait_for "$XENVM_QUICK" vif_connected n "$vif" && vif_up n "$vif" 2
}

# Nothing is taken from the guest while the interface is down; what it has transmitted meanwhile comes afterwards.
down_and_up() {
	ip link set "$back" down
	guest_run n "! ping -q -c 1 -W 2 10.0.0.1" || return
	ip link set "$back" up
	wait_for 10 vif_reachable 2 && both_ways 1
}

ktap_equal "address" fe:ff:ff:ff:ff:ff "$(cat "$net/address")"
ktap_test "MTU up to 65517" ip link set "$back" mtu 65517
ktap_test "... and not more" sh -c "! ip link set $back mtu 65518 2>/dev/null"
ip link set "$back" mtu 1500
ktap_equal "carrier" 1 "$(cat "$net/carrier")"
ktap_test "data passes both ways" both_ways 2
received=$(counter dom0 rx_bytes)
sent=$(counter dom0 tx_bytes)
ktap_test "down, and up again" down_and_up
ktap_test "what the guest has sent is counted" test "$received" -gt 2000000
ktap_test "... and what it was sent" test "$sent" -gt 2000000
ktap_test "the C driver's statistics" sh -c "ethtool -S $back | grep -q 'tx_zerocopy_sent: 0' &&
	ethtool -S $back | grep -q 'rx_gso_checksum_fixup: ' && ethtool -S $back | grep -q 'tx_frag_overflow: '"
file=/sys/kernel/debug/xen-netback/$back/io_ring_q0
ktap_test "the rings in debugfs" grep -q '^TX: nr_ents 256' "$file"
ktap_test "a kick" sh -c "echo kick >$file"
ktap_test "nothing else" sh -c "! echo kock >$file 2>/dev/null"
ktap_test "the frontend connects anew" reconnect
ktap_test "counters go on" test "$(counter dom0 rx_bytes)" -ge "$received"
ktap_test "the interface is gone with the device" vif_detach n "$vif"
[ -e "$path" ] && ktap_print_msg "$path is left"
ktap_finished
