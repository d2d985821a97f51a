#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N29: the two ends of an interface have different addresses, so that it can be bridged in the guest, too:
# dom0's is fe:ff:ff:ff:ff:ff, and the guest's is the one that the toolstack says; another one can be set.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 200

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 11
share_guest
vif_options=(mac=00:16:3e:12:34:56)
attach_new

# bridge_knows ADDRESS: whether dom0's bridge has seen the address at this interface.
bridge_knows() {
	bridge fdb show br xenbr0 | grep -q "^$1 dev $back "
}

# address_of_neighbour: what dom0 has learnt of the guest.
neighbour() {
	ip neigh show 10.0.0.2 dev xenbr0 | awk '{ print $3 }'
}

ktap_equal "dom0's address" fe:ff:ff:ff:ff:ff "$(cat "/sys/class/net/$back/address")"
ktap_equal "the toolstack's" 00:16:3e:12:34:56 "$(xenstore-read "$(guest_home n)/device/vif/$vif/mac")"
ktap_equal "the guest's" 00:16:3e:12:34:56 "$(guest_run n "cat /sys/class/net/$node/address")"
ktap_equal "it is a permanent one" 0 "$(guest_run n "cat /sys/class/net/$node/addr_assign_type")"
ktap_equal "what dom0 has learnt" 00:16:3e:12:34:56 "$(neighbour)"
ktap_test "... and its bridge" bridge_knows 00:16:3e:12:34:56

# C's driver wants the interface down for that.
! is_c || guest_run n "ip link set $node down"
ktap_test "another one can be set" guest_run n "ip link set $node address 00:16:3e:65:43:21 && ip link set $node up"
ip neigh flush dev xenbr0
ktap_test "... with which data passes" both_ways 2
ktap_equal "... as dom0 learns" 00:16:3e:65:43:21 "$(neighbour)"

# A bridge in the guest forwards what comes for others, and takes on the address of its interface.
guest_run n "ip addr flush dev $node && ip link add br0 type bridge && ip link set $node master br0 &&
	ip addr add 10.0.0.2/24 dev br0 && ip link set br0 up"
ip neigh flush dev xenbr0
ktap_test "the guest can bridge it" wait_for "$XENVM_QUICK" vif_reachable 2
ktap_test "... and data passes" both_ways 2
guest_run n "ip link del br0"
ktap_finished
