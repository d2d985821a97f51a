#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N33: guests with load are destroyed, all at once, again and again. dom0 does not warn, whatever is hooked to
# their interfaces there, and nothing of them is left.
# pairs: rust/rust
# control: c/rust c/c
# timeout: 900
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/lib/leaks.sh
. "$XENVM_LIB/leaks.sh"
rounds=${rounds:-6}
guests=(d1 d2 d3)
ktap_set_plan 7
state=/var/lib/xen/d0.save
guest_create d0 vcpus=2 timeout=240 vif=mac=00:16:3e:00:02:00,bridge=xenbr0 fresh ||
	ktap_exit_fail_msg "no guest"
guest_save d0 $state || ktap_exit_fail_msg "no saved guest"

# What others have hooked in: on the bridge, and on the interface itself.
hook() {
	nft -f - <<-END
		table bridge hooks {
			chain forward { type filter hook forward priority 0; meta iifname "vif*" counter; }
			chain input { type filter hook input priority 0; meta iifname "vif*" counter; }
			chain output { type filter hook output priority 0; meta oifname "vif*" counter; }
		}
	END
}

hook_vif() {
	nft -f - <<-END
		table netdev hooks {
			chain $1 { type filter hook ingress device "$1" priority 0; counter; }
		}
	END
}

# begin NAME NUMBER: another guest, which sends and is sent to.
begin() {
	guest_clone d0 $state "$1" "00:16:3e:00:02:0$2" && wait_for "$XENVM_QUICK" vif_connected "$1" 0 &&
		vif_up "$1" 0 "$2" || return
	hook_vif "$(vif_name "$1" 0)" || return
	guest_start "$1" 600 "ping -q -f -s 1400 10.0.0.1 & ping -q -f -s 8000 10.0.0.1" >/dev/null
	ping -q -i 0.002 -s 1400 "10.0.0.$2" >/dev/null 2>&1 &
	ping -q -i 0.005 -s 8000 "10.0.0.$2" >/dev/null 2>&1 &
}

has_load() {
	local name
	for name; do
		streams_gone "/sys/class/net/$(vif_name "$name" 0)/statistics" 0 0 || return
	done
}

end_all() {
	local name pids=()
	for name; do
		xl destroy "$name" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

nothing_left() {
	! compgen -G '/sys/class/net/vif*' && ! xenstore-list /local/domain/0/backend/vif | grep -q .
}

hook || ktap_exit_fail_msg "no hooks"
begun=0 ended=0
for ((round = 0; round < rounds; round++)); do
	number=2
	for name in "${guests[@]}"; do
		begin "$name" $number || break
		number=$((number + 1))
	done
	wait_for 30 has_load "${guests[@]}" && begun=$((begun + 1))
	end_all "${guests[@]}" && wait_for "$XENVM_QUICK" nothing_left && ended=$((ended + 1))
	pkill -INT -x ping
	nft delete table netdev hooks
	# By then everything that is allocated once has been.
	[ $round != 1 ] || leaks_dom0_before
done
ktap_equal "guests have load" "$rounds" $begun
ktap_equal "they end, and nothing is left" "$rounds" $ended
leaks_dom0_after
leaks_dom0_test $((rounds - 2))
ktap_test "hooks have seen packets" sh -c "nft list table bridge hooks | grep -q 'packets [1-9]'"
nft delete table bridge hooks
rm -f $state
ktap_test "another guest can begin" eval "share_guest && attach_new && both_ways 2"
ktap_finished
