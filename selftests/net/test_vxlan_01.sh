#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N06: a VXLAN between two guests, with checksums of the outer packets. None of them is wrong, nor of those
# inside, whether the tunnel leaves inner checksums to the interface or not; and interfaces do not claim to be
# able to look into tunnels.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 11
share_guest
guest_create m timeout=240 || ktap_exit_fail_msg "no second guest"

# join NAME LAST OTHER: gives a guest an interface and a tunnel by it.
join() {
	local vif
	vif=$(vif_attach "$1") && vif_up "$1" "$vif" "$2" &&
		at "$1" "modprobe vxlan && ip link add vxlan8 type vxlan id 8 local 10.0.0.$2 remote 10.0.0.$3 \
			dstport 4789 udpcsum dev $(vif_node "$1" "$vif")" && settle "$1" vxlan8 "10.8.0.$2/24" "fd08::$2/64"
}

if ! join n 2 3 || ! join m 3 2; then
	ktap_exit_fail_msg "no tunnel"
fi
ktap_equal "what the interface claims of tunnels" "" "$(at n "ethtool -k \$(ls -d /sys/class/net/eth* | xargs -n 1 basename)" |
	awk '/tnl|gre|ipxip|gso-partial|gso-list|remcsum|sctp|esp|udp-segmentation/ && $2 == "on" { print $1 }')"
ktap_test "the tunnel works" reaches n 10.8.0.3

# Each way.
tcp() {
	tcp_passes n m "10.8.0.3" 2048 && tcp_passes m n "10.8.0.2" 2048
}

for state in off on; do
	at n "ethtool -K vxlan8 tx-checksum-ip-generic $state" >/dev/null
	ktap_test "TCP, the tunnel's checksums are $state" tcp
	ktap_test "UDP, the tunnel's checksums are $state" udp_passes n m 10.8.0.3 4000 20
done
ktap_test "TCP by IPv6" tcp_passes m n fd08::2 2048
# A service's address, which is another one in the tunnel.
at n "nft -f - <<'END'
table ip service {
	chain out {
		type nat hook output priority -100
		ip daddr 10.8.0.99 tcp dport 6010 dnat to 10.8.0.3:5010
	}
}
END"
ktap_test "a service's address" tcp_passes n m 10.8.0.3 2048 5010 10.8.0.99 6010
ktap_equal "wrong checksums" 0 "$(bad_checksums n m)"
# shellcheck disable=SC2016 # expanded in the guest
sent='nstat -asz | awk "\$1 == \"UdpInDatagrams\" { print \$2 }"'
ktap_test "packets of the tunnel have been looked at" test "$(at n "$sent")" -gt 100
ktap_test "... at both ends" test "$(at m "$sent")" -gt 100
at n "nft flush ruleset"
for name in n m; do
	at $name "ip link del vxlan8"
	vif_detach $name "$(vif_list $name)"
done
ktap_finished
