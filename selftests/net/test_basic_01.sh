#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An interface carries packets of all sizes both ways, unchanged, by IPv4 and IPv6; it counts them, and leaves
# nothing behind when it goes.
# pairs: rust/rust rust/c c/rust
# control: c/c
# allow-console: xennet_disconnect_backend
# timeout: 200

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 12
share_guest
attach_new
bad=
for size in 0 18 1400 1472 8000 60000; do
	ping -c 2 -i 0.2 -W 5 -s $size 10.0.0.2 >/dev/null || bad="$bad $size"
done
ktap_equal "packets of all sizes" "" "$bad"
ktap_test "IPv6" ping -c 2 -i 0.2 -W 5 -s 1400 fd00::2
ktap_test "24 MiB to the guest" to_guest 24
ktap_test "24 MiB from the guest" from_guest 24
ktap_test "8 MiB to the guest by IPv6" to_guest 8 fd00::2
ktap_test "8 MiB from the guest by IPv6" from_guest 8 fd00::1
ktap_test "the guest has counted what it sent" test "$(counter guest tx_bytes)" -gt 33500000
ktap_test "... and received" test "$(counter guest rx_bytes)" -gt 33500000
ktap_equal "no error" "0 0 0 0" "$(counter guest rx_errors) $(counter guest tx_errors) \
$(counter guest rx_dropped) $(counter guest tx_dropped)"
ktap_test "it can be taken down and up" guest_run n "ip link set $node down && ip link set $node up"
ktap_test "... and works then" wait_for 10 vif_reachable 2
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
