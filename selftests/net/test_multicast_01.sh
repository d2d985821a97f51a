#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N28. A guest gets the multicast packets that it listens to and no others; all of them if it wants all, or more than
# the backend can be told. It stays so when the connection is another one, and IPv6, which needs multicast, works.
# pairs: rust/c
# control: rust/rust
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 16
share_guest
attach_new
ip link set dev xenbr0 type bridge mcast_snooping 0

# Another machine on the bridge: of what dom0 itself sends C's backend does not tell that it is multicast.
modprobe veth
ip netns add far
ip link add far0 netns far type veth peer name far1
ip link set dev far1 master xenbr0 up
ip -n far addr add 10.0.0.99/24 dev far0
ip -n far link set dev far0 up

# filtering VALUE: what the backend was told to do.
filtering() {
	[ "$(xenstore-read "$(guest_home n)/device/vif/$vif/request-multicast-control")" = "$1" ]
}

# arrived: how many of 200 multicast packets to 239.1.2.3 the guest's interface has counted.
arrived() {
	local before
	before=$(counter guest rx_packets)
	ip netns exec far python3 - <<-'END'
		import socket
		out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.0.0.99"))
		for _ in range(200):
		    out.sendto(bytes(100), ("239.1.2.3", 7))
	END
	# What comes behind them has come when this has been answered.
	ping -c 1 -W 5 10.0.0.2 >/dev/null
	echo $(($(counter guest rx_packets) - before))
}

# Others send now and then.
all_arrive() {
	local count
	count=$(arrived)
	ktap_print_msg "$count packets"
	[ "$count" -ge 200 ]
}

none_arrives() {
	local count
	count=$(arrived)
	ktap_print_msg "$count packets"
	[ "$count" -le 50 ]
}

# told COUNT: whether the backend has been told of so many changes in all, and has refused none.
told() {
	[ "$(statistic tx_multicast_changes)" -ge "$1" ] && [ "$(statistic tx_multicast_refused)" = 0 ]
}

join() {
	local before
	before=$(statistic tx_multicast_changes)
	guest_run n "ip maddr $1 01:00:5e:01:02:03 dev $node" && wait_for 10 told $((before + 1))
}

ktap_test "the backend sends nothing else in the end" wait_for 20 filtering 1
ktap_test "nobody listens" none_arrives
ktap_test "somebody listens" join add
ktap_test "... and gets them" all_arrive
guest_run n "for i in {1..100}; do ethtool -L $node combined 1 && exit; sleep 0.1; done; exit 1"
wait_for 20 vif_connected n "$vif"
wait_for 20 vif_reachable 2
ktap_test "another connection" wait_for 20 filtering 1
ktap_test "... brings them as well" all_arrive
ktap_test "nobody listens any more" join del
ktap_test "... and none arrives" none_arrives
guest_run n "ip link set dev $node promisc on"
ktap_test "everything is wanted" wait_for 10 filtering 0
ktap_test "... and arrives" all_arrive
guest_run n "ip link set dev $node promisc off"
ktap_test "... and is not wanted any more" wait_for 10 filtering 1
guest_run n "for i in {10..79}; do ip maddr add 01:00:5e:01:03:\$i dev $node || exit; done"
ktap_test "too many addresses" wait_for 10 filtering 0
guest_run n "for i in {10..79}; do ip maddr del 01:00:5e:01:03:\$i dev $node || exit; done"
ktap_test "... are fewer again" wait_for 20 filtering 1
ktap_test "none arrives" none_arrives
ip -6 neigh flush dev xenbr0
ktap_test "IPv6 finds the guest" ping -c 2 -i 0.2 -W 5 fd00::2
ip link set dev xenbr0 type bridge mcast_snooping 1
ip netns del far
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
