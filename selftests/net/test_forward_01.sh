#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N04: a guest forwards packets between two others, as they are and with addresses changed. What comes with
# a checksum that is still to be made gets there as well, whatever the router's interfaces can do. The two ends
# are namespaces of one guest: all goes through two interfaces of that one and two of the router's.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
features="tx rx sg gso"
ktap_set_plan 21
share_guest
guest_create m timeout=240 || ktap_exit_fail_msg "no router"
ip link add xenbr1 type bridge && ip link set xenbr1 up

# The left end is at xenbr0 and the right one at xenbr1; 10.3 and fd03 are VLAN 7 at the left.
if ! left=$(vif_attach n) || ! right=$(vif_attach n bridge=xenbr1) ||
	! inside=$(vif_attach m) || ! outside=$(vif_attach m bridge=xenbr1); then
	ktap_exit_fail_msg "no interfaces"
fi
left=$(vif_node n "$left") right=$(vif_node n "$right")
inside=$(vif_node m "$inside") outside=$(vif_node m "$outside")
connect() {
	at n "modprobe 8021q"
	at m "modprobe 8021q; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1"
	settle m "$inside" 10.1.0.1/24 fd01::1/64 && settle m "$outside" 10.2.0.1/24 fd02::1/64 &&
		settle n/left "$left" 10.1.0.2/24 fd01::2/64 && settle n/right "$right" 10.2.0.2/24 fd02::2/64 &&
		at m "ip link add link $inside name vlan7 type vlan id 7" && settle m vlan7 10.3.0.1/24 fd03::1/64 &&
		at n/left "ip link add link $left name vlan7 type vlan id 7" && settle n/left vlan7 10.3.0.2/24 fd03::2/64 &&
		at n/left "ip route add 10.2.0.0/24 via 10.1.0.1 && ip route add fd02::/64 via fd01::1" &&
		at n/right "ip route add default via 10.2.0.1 && ip -6 route add default via fd02::1"
}
connect || ktap_exit_fail_msg "no addresses"
ktap_test "the router forwards" reaches n/left 10.2.0.2
ktap_test "... and IPv6" reaches n/left fd02::2

# Each way.
tcp() {
	tcp_passes n/left n/right "$1" "${3:-1024}" && tcp_passes n/right n/left "$2" "${3:-1024}"
}

# With and without fragments.
udp() {
	udp_passes n/left n/right "$1" 1400 50 && udp_passes n/left n/right "$1" 8000 20 &&
		udp_passes n/right n/left "$2" 8000 20
}

ktap_test "TCP" tcp 10.2.0.2 10.1.0.2 4096
ktap_test "TCP by IPv6" tcp fd02::2 fd01::2 4096
ktap_test "UDP" udp 10.2.0.2 10.1.0.2
ktap_test "UDP by IPv6" udp fd02::2 fd01::2
at n/left "ip route replace 10.2.0.0/24 via 10.3.0.1 && ip route replace fd02::/64 via fd03::1"
ktap_test "TCP from and to a VLAN" tcp 10.2.0.2 10.3.0.2 2048
ktap_test "TCP from and to a VLAN by IPv6" tcp fd02::2 fd03::2 2048
ktap_test "UDP from and to a VLAN" udp 10.2.0.2 10.3.0.2
at n/left "ip route replace 10.2.0.0/24 via 10.1.0.1 && ip route replace fd02::/64 via fd01::1"
for feature in $features; do
	for state in off on; do
		at m "for dev in $inside $outside; do ethtool -K \$dev $feature $state; done" >/dev/null 2>&1
		ktap_test "the router's $feature is $state" tcp 10.2.0.2 10.1.0.2
	done
done

at m "nft -f - <<'END'
table ip nat {
	chain post {
		type nat hook postrouting priority srcnat
		oifname $outside counter masquerade
	}
}
END"
at n/right "ip route del default"
ktap_test "TCP with another source address" tcp_passes n/left n/right 10.2.0.2 4096
ktap_test "UDP with another source address" udp_passes n/left n/right 10.2.0.2 8000 20
ktap_test "addresses have been changed" test "$(at m "nft list table ip nat" |
	awk '{ for (i = 1; i < NF; i++) if ($i == "packets") print $(i + 1) }')" -gt 1
ktap_equal "wrong checksums" 0 "$(bad_checksums n/left n/right m)"
at m "nft flush ruleset; ip link del vlan7; sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0"
unsettle n/left n/right
for name in n m; do
	for vif in $(vif_list $name); do
		vif_detach $name "$vif"
	done
done
ip link del xenbr1
ktap_finished
