#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N37: a guest is saved and restored again and again while data goes both ways. Each time it goes on within two
# seconds of the guest's own time, on all queues, and nothing of the data is lost or changed. What was on the ring
# is dropped and counted, also when it was full, because the backend took nothing any more.
# pairs: rust/rust
# tier: long
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
rounds=${rounds:-2}
ktap_set_plan 8
state=/var/lib/xen/r.save
guest_create r vcpus=2 timeout=240 || ktap_exit_fail_msg "no guest"
if ! vif=$(vif_attach r mac=00:16:3e:00:00:07) || ! vif_up r "$vif" 2; then
	ktap_exit_fail_msg "no interface"
fi
node=$(vif_node r "$vif")

move() {
	guest_save r $state && guest_restore r $state
	set -- $?
	rm -f $state
	return "$1"
}

# Each processor has a queue of its own.
queues_work() {
	guest_run r "for cpu in 0 1; do taskset -c \$cpu ping -q -c 3 -i 0.1 -W 5 10.0.0.1 || exit; done" >/dev/null
}

# number NAME: what `ethtool -S` says of our driver.
number() {
	guest_run r "ethtool -S $node | awk '\$1 == \"$1:\" { print \$2 }'"
}

# The backend may send no more: what the guest sends stays on the ring.
fill_ring() {
	local path stopped
	path=$(vif_back r "$vif")
	stopped=$(number tx_stopped)
	xenstore-write "$path/rate" 1,1000000
	flood=$(guest_start r 300 "for i in {1..6}; do ping -q -f -s 1400 -w 3 10.0.0.1 & done >/dev/null; wait")
	wait_for 20 ring_full "$stopped"
}

ring_full() {
	[ "$(number tx_stopped)" -gt "$1" ]
}

ktap_test "data begins to go" streams_begin r
gaps_begin r 2
done=0
for ((round = 1; round <= rounds; round++)); do
	streams_go r "$vif" && move && streams_go r "$vif" && done=$((done + 1))
done
ktap_equal "data goes on each time" "$rounds" "$done"
read -r longest_in longest_out requests answers < <(gaps_end r)
ktap_print_msg "$requests requests and $answers answers; none for $longest_in ms and $longest_out ms"
ktap_test "... within two seconds" test "$longest_in" -gt 0 -a "$longest_in" -lt "$(stretch 2000)" \
	-a "$longest_out" -lt "$(stretch 2000)"
ktap_test "nothing is lost" streams_end r
ktap_test "all queues work" queues_work

if [ "$XENVM_FRONT_NETFRONT" = rust ]; then
	lost=$(number tx_lost)
	ktap_test "the ring is full" fill_ring
	move
	guest_wait "$flood" 60 >/dev/null
	ktap_test "what was on it is dropped and counted" test "$(number tx_lost)" -gt "$lost"
else
	ktap_test_skip "the ring is full" "C's driver does not say"
	fill_ring
	move
	ktap_test_skip "what was on it is dropped and counted" "C's driver does not count it"
fi
ktap_test "all queues work" queues_work
guest_destroy r
ktap_finished
