#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N18, N36: a guest is restored with a backend that offers something else: fewer queues, one channel for both
# directions, no packets in pieces, for which the MTU falls to 1500 with a line in the log, and comes back with the
# next backend. The neighbours are told where the guest is when the backend has connected, not before.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 400
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 16
state=/var/lib/xen/r.save
mac=00:16:3e:00:00:07
parameters=/sys/module/xen_netback/parameters

# A hotplug script that does not say that it is done, if it is told so.
cat >/etc/xen/scripts/vif-late <<'END'
#!/bin/bash
/etc/xen/scripts/vif-bridge "$@" || exit
if [ -e /run/vif-late ]; then xenstore-rm "$XENBUS_PATH/hotplug-status"; fi
END
chmod +x /etc/xen/scripts/vif-late

guest_create r vcpus=2 timeout=240 || ktap_exit_fail_msg "no guest"
if ! vif=$(vif_attach r mac=$mac script=vif-late) || ! vif_up r "$vif" 2; then
	ktap_exit_fail_msg "no interface"
fi
node=$(vif_node r "$vif")
guest_run r "ip link set $node mtu 9000"

move() {
	guest_save r $state && guest_restore r $state "$@" && wait_for "$XENVM_QUICK" vif_reachable 2
	set -- $?
	rm -f $state
	return "$1"
}

queues() {
	guest_run r "ls -d /sys/class/net/$node/queues/tx-* | wc -l"
}

has_key() {
	xenstore-exists "$(guest_home r)/device/vif/$vif/$1"
}

mtu() {
	guest_run r "cat /sys/class/net/$node/mtu"
}

no_pieces() {
	xenstore-write "$(vif_back r "$vif")/feature-sg" 0
}

frames_pass() {
	guest_run r "ping -q -c 3 -W 5 -s $1 10.0.0.1" >/dev/null
}

ktap_equal "queues at first" 2 "$(queues)"
echo 1 >$parameters/max_queues
echo 0 >$parameters/separate_tx_rx_irq
ktap_test "restored with one queue" move
ktap_equal "... which is all that it uses" 1 "$(queues)"
ktap_test "... and one channel" has_key event-channel
ktap_equal "the MTU stays" 9000 "$(mtu)"
ktap_test "data passes" frames_pass 4000
echo 2 >$parameters/max_queues
echo 1 >$parameters/separate_tx_rx_irq

ktap_test "restored without packets in pieces" move no_pieces
ktap_equal "the MTU falls" 1500 "$(mtu)"
ktap_test "... with a line in the log" guest_run r "dmesg | grep -q 'Reducing MTU because no SG offload'"
ktap_test "data passes" frames_pass 4000
ktap_equal "two queues again" 2 "$(queues)"

# Only what tells the neighbours where an address is.
tcpdump -i xenbr0 -n -l --immediate-mode "arp and ether src $mac and arp[14:4] = arp[24:4]" >/tmp/arp 2>/tmp/arp.log &
capture=$!
wait_for 20 grep -q listening /tmp/arp.log
touch /run/vif-late
ktap_test "restored with a script that takes its time" eval "guest_save r $state && guest_restore r $state"
rm -f $state /run/vif-late
path=$(vif_back r "$vif")
wait_for "$XENVM_QUICK" xs_state_is "$(guest_home r)/device/vif/$vif" 4
# There is nothing to wait for: it is what must not be there.
sleep 2
ktap_equal "until then nobody is told of the guest" "2, 0" "$(xs_state "$path"), $(wc -l </tmp/arp)"
begun=${EPOCHREALTIME/./}
xenstore-write "$path/hotplug-status" connected
wait_for 10 vif_reachable 2
took=$(((${EPOCHREALTIME/./} - begun) / 1000))
ktap_print_msg "reached after $took ms"
ktap_test "then it is reached within a second" test $took -lt "$(stretch 1000)"
ktap_test "... and tells where it is" wait_for 10 test -s /tmp/arp
kill $capture
if [ "$XENVM_FRONT_NETFRONT" = rust ]; then
	ktap_equal "the MTU has come back" 9000 "$(mtu)"
else
	ktap_test_skip "the MTU has come back" "C's driver does not do that"
fi
guest_destroy r
rm -f /etc/xen/scripts/vif-late
ktap_finished
