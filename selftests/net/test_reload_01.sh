#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N32: drivers go and come under load. dom0's is unloaded and loaded under a running guest, whose connections go
# on; the guest's meets no backend for a while. Then the toolstack's keys are removed by force, in every order: the
# guest, which panics at any warning, says one line at most and can have another interface.
# pairs: rust/rust
# tier: long
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
orders=("front back" "back front" "front" "back")
ktap_set_plan $((10 + 4 * ${#orders[@]}))
share_guest

vif_there() {
	[ -e "/sys/class/net/$back" ]
}

# A device has its driver's module in use (the kernel's xenbus_dev_probe()), so it has to lose it first.
unload_back() {
	echo "vif-$(guest_id n)-$vif" >/sys/bus/xen-backend/drivers/vif/unbind && rmmod xen-netback
}

# What the guest's kernel has said of the interface since the log was cleared, without addresses of pages.
said() {
	guest_run n "dmesg | grep -E 'vif-$vif|xen_netfront|g\.e\.|$node' | grep -v renamed"
}

attach_new
ktap_test "data begins to go" streams_begin n
streams_go n "$vif"
ktap_test "dom0's driver is unloaded" unload_back
ktap_test "... and its interface gone" eval "! vif_there"
modprobe xen-netback
wait_for "$XENVM_QUICK" vif_there
ktap_test "the script sets it up again" vif_script n "$vif"
ktap_test "both ends are connected" wait_for "$XENVM_QUICK" vif_connected n "$vif"
ktap_test "data goes on" streams_go n "$vif"
ktap_test "... and nothing of it is lost" streams_end n

if is_c; then
	ktap_test_skip "the guest's driver is unloaded without a backend" "C's driver waits for its backend for ever"
	guest_run n 60 "echo vif-$vif >/sys/bus/xen/drivers/vif/unbind && rmmod xen-netfront && modprobe xen-netfront"
else
	unload_back
	ktap_test "the guest's driver is unloaded without a backend" guest_run n 60 \
		"echo vif-$vif >/sys/bus/xen/drivers/vif/unbind && rmmod xen-netfront"
	# This waits for its devices.
	loading=$(guest_start n 60 "modprobe xen-netfront")
	modprobe xen-netback
	wait_for "$XENVM_QUICK" vif_there
	vif_script n "$vif"
	guest_wait "$loading" 60
fi
ktap_test "the two find each other" wait_for "$XENVM_QUICK" vif_connected n "$vif"
ktap_test "it works" vif_up n "$vif" 2
vif_detach n "$vif"

guest_run n "sysctl -qw kernel.panic_on_warn=1"
for order in "${orders[@]}"; do
	attach_new
	front=$(hand_front "$vif")
	path=$(vif_back n "$vif")
	record=/libxl/$(guest_id n)/device/vif/$vif
	guest_run n "dmesg -C"
	ping -q -i 0.01 -s 1400 10.0.0.2 >/dev/null 2>&1 &
	pinging=$!
	flood=$(guest_start n 60 "ping -q -i 0.01 -w 30 -s 1400 10.0.0.1 >/dev/null 2>&1; true")
	streams_gone "/sys/class/net/$back/statistics" 0 0 || wait_for 20 streams_gone "/sys/class/net/$back/statistics" 0 0
	for end in $order; do
		case $end in
		front) xenstore-rm "$front" ;;
		back) xenstore-rm "$path" ;;
		esac
	done
	if [[ $order == *back* ]]; then
		ktap_test "removed $order: dom0's interface goes" wait_for 20 eval "! vif_there"
	else
		ktap_test "removed $order: dom0's interface goes" wait_for 20 eval "! vif_there || xs_state_is $path 6"
	fi
	if [[ $order == *front* ]]; then
		ktap_test "... and the guest's" wait_for 20 guest_run n "! ls /sys/class/net/$node"
	elif is_c; then
		ktap_test_skip "... and the guest's is closed" "C's driver takes no notice"
	else
		ktap_test "... and the guest's is closed" wait_for 20 xs_state_is "$front" 6
	fi
	kill -INT $pinging
	guest_run n "pkill -INT ping"
	guest_wait "$flood" 40 >/dev/null
	lines=$(said)
	[ -z "$lines" ] || ktap_print_msg "$lines"
	ktap_test "... with one line at most" test "$(grep -c . <<<"$lines")" -le 1
	xenstore-rm "$front" 2>/dev/null
	xenstore-rm "$path" 2>/dev/null
	xenstore-rm "$record" 2>/dev/null
	ktap_test "... and nothing is left" wait_for 20 eval "! vif_there && guest_run n '! ls /sys/class/net/$node'"
done
guest_run n "sysctl -qw kernel.panic_on_warn=0"
ktap_finished
