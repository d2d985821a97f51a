#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N01, N02: packets in awkward memory. Pages sent from files, many streams at once, small writes, packets in
# as many fragments as there can be, of which each lies across a page's end, and headers that were put before
# what was there already. None is dropped, no stream stands still, and what arrives is what was sent.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 12
share_guest
attach_new

# --- many streams from files -----------------------------------------------------------------------

# still: the longest that nothing was sent, in whole seconds, by what iperf3 says each second.
still() {
	awk '/^\[SUM\]/ && /sec/ && !/sender|receiver/ { if ($4 + 0 == 0) now++; else now = 0; if (now > most) most = now; seen++ }
		END { print seen ? most + 0 : "unknown" }' /tmp/iperf3
}

# streams ARGUMENT...: has iperf3 send eight streams.
streams() {
	guest_run n 60 "iperf3 -c 10.0.0.1 -P 8 -i 1 -f k $*" >/tmp/iperf3
}

guest_run n "head -c 8M /dev/urandom >/tmp/file"
timeout "$(stretch 100)" iperf3 -s >/dev/null &
server=$!
wait_for 10 listens 5201
ktap_test "eight streams without a copy" streams -Z -t 5 -F /tmp/file
ktap_test "they do not stand still" test "$(still)" -le 1
ktap_test "eight streams of small writes" streams -l 100 -N -t 4
ktap_test "they do not stand still" test "$(still)" -le 1
kill $server
wait $server

# --- fragments across pages ------------------------------------------------------------------------

# What a process writes to its sockets comes from the same memory, in pieces of 32 KiB. By turns to two of them,
# and in pieces of nearly a page, so that hardly a fragment joins the one before or lies in one page. The
# receiver takes 200 kB, and reads when all has been written: then there are packets with as many fragments as
# there can be. They are sent like that, however slow the machine is (tcp_min_tso_segs).
straddle() {
	local port receivers=() sent one rmem
	rm -f /tmp/go
	rmem=$(</proc/sys/net/ipv4/tcp_rmem)
	echo 4096 400000 6291456 >/proc/sys/net/ipv4/tcp_rmem
	for port in 5031 5032; do
		timeout "$(stretch 100)" busybox nc -l -p $port -e bash -c \
			"while ! [ -e /tmp/go ]; do sleep 0.1; done; sha256sum >/tmp/sum-$port" &
		receivers+=($!)
		wait_for 10 listens $port || return
	done
	# shellcheck disable=SC2016 # expanded in the guest
	sent=$(at n 'cd /proc/sys/net/ipv4 && wmem=$(cat tcp_wmem) && segments=$(cat tcp_min_tso_segs) &&
		echo 4096 4194304 4194304 >tcp_wmem && echo 44 >tcp_min_tso_segs
		exec 3>/dev/tcp/10.0.0.1/5031 4>/dev/tcp/10.0.0.1/5032 && echo $wmem >tcp_wmem || exit
		head -c 60000 /dev/urandom | base64 -w 3800 >/tmp/lines
		for round in {1..8}; do
			while read -r line; do
				printf %s "$line" >&3; printf %s "$line" >&4
			done </tmp/lines
		done
		for round in {1..8}; do cat /tmp/lines; done | tr -d "\n" | sha256sum
		echo $segments >/tmp/segments') || return
	echo "$rmem" >/proc/sys/net/ipv4/tcp_rmem
	touch /tmp/go
	for one in "${receivers[@]}"; do
		wait "$one" || return
	done
	at n "cat /tmp/segments >/proc/sys/net/ipv4/tcp_min_tso_segs"
	same "$sent" "$(<"/tmp/sum-5031")" && same "$sent" "$(<"/tmp/sum-5032")"
}

before=$(statistic tx_linearized)
ktap_test "fragments across pages" straddle
if is_c; then
	ktap_test_skip "packets were copied that have too many pieces" "the C driver does not count them"
else
	ktap_print_msg "packets in too many pieces: $(($(statistic tx_linearized) - before))"
	ktap_test "packets were copied that have too many pieces" test "$(statistic tx_linearized)" -gt "$before"
fi

# --- headers in front ----------------------------------------------------------------------------------

# What comes from a namespace of the guest gets another source address and a VXLAN's headers on its way.
prepare() {
	modprobe vxlan
	ip link add vxlan9 type vxlan id 9 local 10.0.0.1 remote 10.0.0.2 dstport 4789 udpcsum dev xenbr0 &&
		settle dom0 vxlan9 10.9.0.1/24 &&
		at n "modprobe vxlan && ip link add vxlan9 type vxlan id 9 local 10.0.0.2 remote 10.0.0.1 dstport 4789 \
			udpcsum dev $node && ip netns add inner && ip link add outer0 type veth peer name inner0 netns inner &&
			sysctl -qw net.ipv4.ip_forward=1 && nft -f - <<'END'
table ip slots {
	chain post {
		type nat hook postrouting priority srcnat
		oifname vxlan9 masquerade
	}
}
END" && settle n vxlan9 10.9.0.2/24 && settle n outer0 10.10.0.1/24 && settle n/inner inner0 10.10.0.2/24 &&
		at n/inner "ip route add default via 10.10.0.1"
}

ktap_test "a namespace behind a tunnel" prepare
ktap_test "TCP with headers in front" tcp_passes n/inner dom0 10.9.0.1 4096
ktap_test "UDP with headers in front" udp_passes n/inner dom0 10.9.0.1 5000 50
ktap_test "it has a way out" reaches n/inner 10.9.0.1
ktap_equal "wrong checksums" 0 "$(bad_checksums dom0)"
ktap_equal "dropped" "0 0" "$(counter guest tx_dropped) $(counter dom0 rx_errors)"
at n "nft flush ruleset; ip link del vxlan9; ip link del outer0; ip netns del inner; sysctl -qw net.ipv4.ip_forward=0"
ip link del vxlan9
ktap_finished
