#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N17: a backend's state changes in any order, whatever the guest is doing: connecting, at work, saved, restored.
# Nodes are removed in the middle of it. The guest lives, and a good interface works afterwards. The order is
# random; its seed is printed, and taken from $seed.
# pairs: rust/rust
# control: rust/c
# timeout: 400
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
seed=${seed:-$RANDOM}
rounds=${rounds:-10}
moves=${moves:-3}
ktap_set_plan $((6 + 2 * moves))
ktap_print_msg "seed $seed, $rounds rounds, saved and restored $moves times"
RANDOM=$seed

# Sets $chosen: not by the output of a command, since each subshell would choose the same.
choose() {
	chosen=$((RANDOM % 8 + 1))
}

# disturb PATH COUNT: writes so many states at once, one after the other, and says which.
disturb() {
	local order=
	for ((i = 0; i < $2; i++)); do
		choose
		xenstore-write "$1/state" $chosen
		order=$order$chosen
	done
	ktap_print_msg "${1##*/}: $order"
}

# Devices whose backends are keys only, all at once; of some a folder goes in the middle.
hand_rounds() {
	local ids=(20 21 22 23) id round
	for ((round = 0; round < rounds; round++)); do
		for id in "${ids[@]}"; do
			hand_make "$id" || return
		done
		for id in "${ids[@]}"; do
			disturb "$(hand_path "$id")" 6
			case $((RANDOM % 4)) in
			0) xenstore-rm "$(hand_path "$id")" ;;
			1) xenstore-rm "$(hand_front "$id")" ;;
			2) xenstore-rm "$(hand_path "$id")/state" ;;
			esac
		done
		hand_remove "${ids[@]}" 2>/dev/null || return
	done
}

guest_create n vcpus=2 timeout=240 fresh || ktap_exit_fail_msg "no guest"
ktap_test "states of devices that connect" hand_rounds

# A real backend does not look at its own state.
attach_new
ping -q -i 0.01 10.0.0.2 >/dev/null 2>&1 &
pinging=$!
path=$(vif_back n "$vif")
disturb "$path" 20
kill -INT $pinging
ktap_test "states of a device at work" guest_run n true
front=$(hand_front "$vif")
xenstore-rm "$path"
xenstore-rm "$front"
xenstore-rm "/libxl/$(guest_id n)/device/vif/$vif"
ktap_test "it goes" wait_for 20 guest_run n "! ls /sys/class/net/$node"

before_it_runs() {
	disturb "$(vif_back n "$vif")" 5
	[ "$1" != remove ] || xenstore-rm "$(vif_back n "$vif")/state"
}

for ((move = 0; move < moves; move++)); do
	attach_new
	what=$([ $((move % 2)) = 0 ] && echo keep || echo remove)
	# While it is saved ...
	path=$(vif_back n "$vif")
	while xenstore-exists "$path"; do
		xenstore-write "$path/state" $((RANDOM % 8 + 1))
	done 2>/dev/null &
	disturbing=$!
	guest_save n /var/lib/xen/n.save
	kill $disturbing
	wait $disturbing
	xenstore-rm "$path" 2>/dev/null
	# ... before it goes on, and when it does.
	ktap_test "restored, states: $what" guest_restore n /var/lib/xen/n.save before_it_runs "$what"
	rm -f /var/lib/xen/n.save
	path=$(vif_back n "$vif")
	disturb "$path" 10
	xenstore-rm "$path" 2>/dev/null
	xenstore-rm "$(hand_front "$vif")" 2>/dev/null
	xenstore-rm "/libxl/$(guest_id n)/device/vif/$vif" 2>/dev/null
	ktap_test "... and it goes" wait_for 20 guest_run n "! ls /sys/class/net/$node"
done

attach_new
ktap_test "a good one works" both_ways 2
ktap_test "... and goes" vif_detach n "$vif"
ktap_test "nothing is left in the guest" guest_run n "! ls -d /sys/bus/xen/devices/vif-*"
guest_destroy n
ktap_finished
