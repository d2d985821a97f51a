#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An interface can be taken away while it carries traffic, by the toolstack and from its driver; the guest goes
# on, can have another one, and can give the driver the same one again.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 8
share_guest

# No fragments: C's backend lends them to dom0's network stack, which would keep them for half a minute if the
# rest does not come, and the backend waits for that.
busy() {
	ping -q -i 0.01 -s 1400 10.0.0.2 >/dev/null 2>&1 &
	pinging=$!
	flood=$(guest_start n 60 "ping -q -i 0.01 -w 30 -s 1400 10.0.0.1 >/dev/null 2>&1; true")
	wait_for 10 has_received 50
}

has_received() {
	[ "$(counter dom0 rx_packets)" -gt "$1" ]
}

idle() {
	kill -INT $pinging 2>/dev/null
	guest_run n "pkill -INT ping"
	guest_wait "$flood" 40 >/dev/null
}

attach_new
busy
ktap_test "detached" vif_detach n "$vif"
idle
ktap_test "nothing is left of it in the guest" guest_run n "! ls /sys/class/net | grep -v lo"

attach_new
busy
ktap_test "the driver loses it" guest_run n 30 "echo vif-$vif >/sys/bus/xen/drivers/vif/unbind"
idle
ktap_test "... and the driver can be unloaded" guest_run n "rmmod xen-netfront && modprobe xen-netfront"
ktap_test "then it connects" wait_for "$XENVM_QUICK" vif_connected n "$vif"
ktap_test "... and works" vif_up n "$vif" 2
ktap_test "data passes" to_guest 4
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
