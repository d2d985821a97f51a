#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# MTUs up to the largest work in both directions (case N18), the toolstack's is taken (case N19), and one that
# cannot be is refused.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 9
share_guest
vif_options=(mtu=1400)
attach_new
if is_c; then
	ktap_test_skip "the toolstack's MTU" "the C driver does not look at it"
else
	ktap_equal "the toolstack's MTU" 1400 "$(guest_run n "cat /sys/class/net/$node/mtu")"
fi
ktap_test "67 is refused" test "$(guest_run n "ip link set $node mtu 67 2>/dev/null || echo no")" = no
for mtu in 1500 9000 65517; do
	ip link set "$back" mtu $mtu && ip link set xenbr0 mtu $mtu && guest_run n "ip link set $node mtu $mtu"
	ktap_test "MTU $mtu" ping -c 3 -i 0.2 -W 5 -M "do" -s $((mtu - 28)) 10.0.0.2
	ktap_test "MTU $mtu, data from the guest" from_guest 8
done
ip link set xenbr0 mtu 1500
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
