#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N05: dom0 changes addresses of packets between two interfaces of a guest, and between one of them and
# tunnels (VXLAN, WireGuard) to a place outside, where no sum is wrong, neither of the outer packets nor of the
# inner ones. The place is a namespace in dom0 behind an interface that does not make checksums.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 13
share_guest
ip link add xenbr1 type bridge
if ! left=$(vif_attach n) || ! right=$(vif_attach n bridge=xenbr1); then
	ktap_exit_fail_msg "no interfaces"
fi
connect() {
	settle dom0 xenbr1 10.2.0.1/24 && settle n/left "$(vif_node n "$left")" 10.0.0.2/24 &&
		settle n/right "$(vif_node n "$right")" 10.2.0.2/24 &&
		at n/left "ip route add default via 10.0.0.1" && at n/right "ip route add default via 10.2.0.1"
}
connect || ktap_exit_fail_msg "no addresses"

# Outside is 192.0.2.2; VXLAN leads to 10.4.0.2 there, and WireGuard to 10.5.0.2.
modprobe -a vxlan wireguard nf_tables
ip netns add far
ip link add near0 type veth peer name far0 netns far
settle dom0 near0 192.0.2.1/24 && settle dom0/far far0 192.0.2.2/24
ethtool -K near0 tx off >/dev/null
at dom0/far "ethtool -K far0 tx off" >/dev/null
ip link add vxlan4 type vxlan id 4 local 192.0.2.1 remote 192.0.2.2 dstport 4789 udpcsum dev near0
ip -n far link add vxlan4 type vxlan id 4 local 192.0.2.2 remote 192.0.2.1 dstport 4789 udpcsum dev far0
settle dom0 vxlan4 10.4.0.1/24 && settle dom0/far vxlan4 10.4.0.2/24
ip link add wg5 type wireguard
ip -n far link add wg5 type wireguard
near_key=$(wg genkey) far_key=$(wg genkey)
wg set wg5 private-key <(echo "$near_key") listen-port 51820 peer "$(wg pubkey <<<"$far_key")" \
	allowed-ips 10.5.0.0/24 endpoint 192.0.2.2:51820
at dom0/far "wg set wg5 private-key <(echo $far_key) listen-port 51820 peer $(wg pubkey <<<"$near_key") \
	allowed-ips 10.5.0.0/24 endpoint 192.0.2.1:51820"
settle dom0 wg5 10.5.0.1/24 && settle dom0/far wg5 10.5.0.2/24
# What is looked at there is not to be without sums because it is merged, or still to be sent.
at dom0/far "ethtool -K wg5 tx off gso off gro off" >/dev/null

forwarding=$(</proc/sys/net/ipv4/ip_forward)
echo 1 >/proc/sys/net/ipv4/ip_forward
nft -f - <<'END'
table ip nat_01 {
	chain pre {
		type nat hook prerouting priority dstnat
		ip daddr 10.0.0.1 tcp dport 6010 dnat to 10.2.0.2:5010
		ip daddr 10.0.0.1 udp dport 6020 dnat to 10.2.0.2:5020
		ip daddr { 10.4.0.1, 10.5.0.1, 192.0.2.1 } tcp dport 6010 dnat to 10.0.0.2:5010
	}
	chain post {
		type nat hook postrouting priority srcnat
		oifname { xenbr1, near0, vxlan4, wg5 } counter masquerade
	}
}
END
nsenter --net=/run/netns/far tcpdump -n -l -vvv -i far0 ip >/tmp/outer 2>/tmp/outer.log &
outer=$!
nsenter --net=/run/netns/far tcpdump -n -l -vvv -i wg5 ip >/tmp/inner 2>/tmp/inner.log &
inner=$!
wait_for 20 grep -q "listening on" /tmp/outer.log
wait_for 20 grep -q "listening on" /tmp/inner.log

ktap_test "TCP to another address, from another address" tcp_passes n/left n/right 10.2.0.2 2048 5010 10.0.0.1 6010
ktap_test "the same back" tcp_passes n/right n/left 10.0.0.2 2048
ktap_test "UDP from another address" udp_passes n/left n/right 10.2.0.2 8000 20
ktap_test "to the outside" tcp_passes n/left dom0/far 192.0.2.2 1024
ktap_test "... and from there" tcp_passes dom0/far n/left 10.0.0.2 1024 5010 192.0.2.1 6010
ktap_test "UDP to the outside" udp_passes n/left dom0/far 192.0.2.2 4000 20
for tunnel in 4 5; do
	ktap_test "through tunnel $tunnel" tcp_passes n/left dom0/far 10.$tunnel.0.2 1024
	ktap_test "... and from there" tcp_passes dom0/far n/left 10.0.0.2 1024 5010 10.$tunnel.0.1 6010
done

kill $outer $inner
wait $outer $inner
# sums FILE REGEX: how many lines say this.
sums() {
	grep -cE -- "$2" "/tmp/$1"
}
bad='incorrect|bad (udp|ip)? ?cksum'
grep -hE -- "$bad" /tmp/outer /tmp/inner | head -n 5 | sed 's/^/# /'
ktap_equal "wrong sums outside" "0 0" "$(sums outer "$bad") $(sums inner "$bad")"
ktap_test "... of many packets that were looked at" test "$(sums outer '\(correct\)')" -gt 200 -a \
	"$(sums outer 'udp sum ok')" -gt 200 -a "$(sums inner '\(correct\)')" -gt 100
ktap_equal "wrong checksums" 0 "$(bad_checksums n/left n/right dom0/far)"

nft delete table ip nat_01
echo "$forwarding" >/proc/sys/net/ipv4/ip_forward
for link in vxlan4 wg5 near0; do
	ip link del $link
done
ip netns del far
unsettle n/left n/right
vif_detach n "$left"
vif_detach n "$right"
ip link del xenbr1
ktap_finished
