#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N21: datagrams of all sizes both ways, of which the receiver loses none and finds each as it was sent; and
# packets as fast as the guest's kernel makes them, of which dom0 counts every one.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
sizes="64 1472 1473 9000 60000"
ktap_set_plan 16
share_guest
attach_new

for size in $sizes; do
	number=$((600000 / size))
	[ $number -le 500 ] || number=500
	ktap_test "$number datagrams of $size bytes from the guest" udp_passes n dom0 10.0.0.1 "$size" $number
	ktap_test "... and to it" udp_passes dom0 n 10.0.0.2 "$size" $number
done

# pktgen SIZE NUMBER FRAGMENTS: has the guest's kernel send; how many it says it has sent.
pktgen() {
	at n "modprobe pktgen && cd /proc/net/pktgen && echo rem_device_all >kpktgend_0 &&
		echo 'add_device $node' >kpktgend_0 && {
			echo 'count $2'
			echo 'pkt_size $1'
			echo 'frags $3'
			echo 'delay 0'
			echo 'clone_skb 0'
			echo 'dst 10.0.0.1'
			echo 'dst_mac $(cat /sys/class/net/xenbr0/address)'
			echo 'udp_dst_min 9'
			echo 'udp_dst_max 9'
		} | while read -r line; do echo \"\$line\" >$node || echo \"\$line\"; done
		echo start >pgctrl
		awk '/pkts-sofar/ { print \$2 }' $node
		echo rem_device_all >kpktgend_0"
}

# Those of pktgen's that come to dom0, and to its network.
nft -f - <<END
table netdev udp_01 {
	chain in {
		type filter hook ingress device "$back" priority 0
		udp dport 9 counter drop
	}
}
END
have_arrived() {
	[ "$(arrived)" -ge "$1" ]
}

arrived() {
	nft list table netdev udp_01 | awk '{ for (i = 1; i < NF; i++) if ($i == "packets") print $(i + 1) }'
}

counters() {
	echo "$(counter dom0 rx_dropped) $(counter dom0 rx_errors) $(counter guest tx_dropped) $(counter guest tx_errors)"
}

lost=$(counters)
before=$(counter dom0 rx_packets)
ktap_equal "packets of 60 bytes that the guest sends" 20000 "$(pktgen 60 20000 0)"
# pktgen is ready when the driver has taken the last one.
wait_for 10 have_arrived 20000
ktap_equal "... that come to dom0" 20000 "$(arrived)"
ktap_test "... that its interface has counted" test $(($(counter dom0 rx_packets) - before)) -ge 20000
ktap_equal "packets of 9000 bytes in 17 pieces that the guest sends" 3000 "$(pktgen 9000 3000 17)"
wait_for 10 have_arrived 23000
ktap_equal "... that come to dom0" 23000 "$(arrived)"
ktap_equal "lost" "$lost" "$(counters)"
nft delete table netdev udp_01
ktap_finished
