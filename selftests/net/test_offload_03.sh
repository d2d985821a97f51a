#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N07: whatever is turned off at either end, and whatever the backend does not offer from the beginning,
# data passes both ways; what was not offered cannot be turned on.
# control: rust/rust rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 500

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
features="none sg tx gso tso"
# C's frontend does not begin anew, so that nothing can be taken from what it has been offered.
if is_c; then
	ktap_set_plan 7
else
	ktap_set_plan 20
fi
share_guest
attach_new

# turn PLACE DEVICE FEATURE on|off
turn() {
	[ "$3" = none ] || at "$1" "ethtool -K $2 $3 $4" >/dev/null
}

# Turning one of them off turns off what needs it, which is not on again with it.
reset() {
	at "$1" "for feature in tx sg gso tso; do ethtool -K $2 \$feature on; done" >/dev/null
}

pass() {
	tcp_passes n dom0 10.0.0.1 768 && tcp_passes dom0 n 10.0.0.2 768
}

# row FEATURE: without it in the guest, and each of them in dom0.
row() {
	local theirs bad=''
	turn n "$node" "$1" off
	for theirs in $features; do
		turn dom0 "$back" "$theirs" off
		pass || bad="$bad $theirs"
		reset dom0 "$back"
	done
	reset n "$node"
	[ -z "$bad" ] || ktap_print_msg "dom0 without:$bad"
	[ -z "$bad" ]
}

for mine in $features; do
	ktap_test "the guest without $mine, dom0 without each" row "$mine"
done

# offer KEY=VALUE: has the frontend find this in the backend's directory when it connects.
offer() {
	guest_run n "echo vif-$vif >/sys/bus/xen/drivers/vif/unbind" && wait_for "$XENVM_QUICK" disconnected || return
	xenstore-write "$(vif_back n "$vif")/${1%%=*}" "${1#*=}"
	guest_run n "echo vif-$vif >/sys/bus/xen/drivers/vif/bind" && wait_for "$XENVM_QUICK" vif_connected n "$vif" &&
		vif_up n "$vif" 2
	node=$(vif_node n "$vif")
}

disconnected() {
	[ "$(xenstore-read "$(vif_back n "$vif")/state")" != 4 ]
}

# is FEATURE: on or off, as ethtool says.
is() {
	at n "ethtool -k $node" | awk -v "name=$1:" '$1 == name { print $2 }'
}

# without KEY=VALUE FEATURE USUAL: with an offer of less, three results; then as it was.
without() {
	ktap_test "$1: connects" offer "$1"
	ktap_equal "$1: $2" off "$(is "$2")"
	at n "ethtool -K $node $2 on" >/dev/null 2>&1
	ktap_equal "$1: $2 cannot be turned on" off "$(is "$2")"
	ktap_test "$1: data passes" pass
	offer "${1%%=*}=$3" || ktap_print_msg "${1%%=*} could not be offered again"
}

if ! is_c; then
	without feature-sg=0 tx-scatter-gather 1
	without feature-gso-tcpv4=0 tx-tcp-segmentation 1
	without feature-no-csum-offload=1 tx-checksum-ipv4 0
	ktap_equal "all is on in the end" "on on on" \
		"$(is tx-scatter-gather) $(is tx-tcp-segmentation) $(is tx-checksum-ipv4)"
fi
ktap_test "data passes" pass
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
