#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N26: a guest makes a bond of two interfaces, whichever the mode; one of them can be taken away, and comes
# back, while data passes.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
modes="802.3ad balance-xor balance-tlb balance-alb active-backup"
# In this mode addresses change while interfaces are up, which C's driver does not let them.
! is_c || modes=${modes/balance-alb /}
ktap_set_plan $((5 + $(wc -w <<<"$modes")))
share_guest
guest_run n "modprobe bonding max_bonds=0" || ktap_exit_fail_msg "no bonds"
if ! first=$(vif_attach n) || ! second=$(vif_attach n); then
	ktap_exit_fail_msg "no interfaces"
fi

# bond MODE: makes the bond bond0 of the two.
bond() {
	at n "ip link add bond0 type bond mode $1 miimon 100 && for dev in $(vif_node n "$first") $(vif_node n "$second"); do
		ip link set \$dev down && ip link set \$dev master bond0 || exit
	done && ip link set bond0 up"
}

# members NUMBER: whether the bond has so many interfaces that work.
members() {
	[ "$(at n "awk '/^Slave Interface/ { slave = 1 } /^MII Status: up/ && slave { n++; slave = 0 } END { print n + 0 }' \
		/proc/net/bonding/bond0")" = "$1" ]
}

works() {
	bond "$1" && wait_for 20 members 2
}

for mode in $modes; do
	at n "! [ -e /sys/class/net/bond0 ] || ip link del bond0"
	ktap_test "$mode" works "$mode"
done
settle n bond0 10.0.0.2/24
ktap_test "the last one works" wait_for 20 vif_reachable 2

# The one that is in use goes while data passes.
active=$(at n "cat /sys/class/net/bond0/bonding/active_slave")
[ "$active" = "$(vif_node n "$first")" ] || {
	set -- "$first"
	first=$second second=$1
}
tcp_passes n dom0 10.0.0.1 8192 &
passing=$!
ktap_test "one is taken away" vif_detach n "$first"
wait $passing
ktap_equal "what was on its way has arrived" 0 $?
ktap_test "the other one does it alone" members 1
third=$(vif_attach n)
at n "dev=$(vif_node n "$third"); ip link set \$dev down; ip link set \$dev master bond0"
wait_for 20 members 2
vif_detach n "$second"
ktap_test "one that came later takes over" tcp_passes n dom0 10.0.0.1 1024
at n "ip link del bond0; rmmod bonding"
ktap_finished
