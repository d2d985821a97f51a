#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N31, N32: a driver domain. Two guests reach each other through it; it is destroyed under load, which both
# survive, and another one takes its place. Then an interface changes its backend domain again and again, with
# either end closing first, and the network is there each time.
# pairs: rust/rust
# tier: long
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 600

# shellcheck source=selftests/net/common.sh
. ./common.sh
changes=${changes:-10}
ktap_set_plan 11
share_guest
guest_create m timeout=240 || ktap_exit_fail_msg "no second guest"
network_domain a || ktap_exit_fail_msg "no driver domain"

# connect NAME DOMAIN LAST: gives a guest an interface with this backend and address; its number is in $vif.
connect() {
	vif=$(vif_attach "$1" backend="$2" bridge=br0) || return
	guest_run "$1" "dev=\$(ls /sys/bus/xen/devices/vif-$vif/net) && ip addr add 10.0.0.$3/24 dev \$dev &&
		ip link set \$dev up"
}

# reaches NAME LAST: whether a guest reaches another one, within three seconds.
reaches() {
	guest_run "$1" 20 "for i in {1..$(stretch 30)}; do ping -q -c 1 -W 1 10.0.0.$2 && exit; sleep 0.1; done; exit 1" \
		>/dev/null
}

transfer() {
	local handle sent
	handle=$(guest_start m 120 "$(receiver 5001)")
	wait_for 10 guest_listens 5001 m || return
	sent=$(guest_run n 120 "head -c 8M /dev/urandom >/tmp/sent; sha256sum </tmp/sent
		cat /tmp/sent >/dev/tcp/10.0.0.3/5001; rm /tmp/sent")
	guest_wait "$handle" 120 && same "$sent" "$(guest_run m "cat /tmp/sum")"
}

connect_both() {
	connect n "$1" 2 && vif_n=$vif && connect m "$1" 3 && vif_m=$vif && reaches n 3
}

ktap_test "two guests by a driver domain" connect_both a
ktap_test "data passes between them" transfer
loads=("$(guest_start n 120 "ping -q -f -s 1400 10.0.0.3 >/dev/null; true")"
	"$(guest_start m 120 "ping -q -f -s 8000 10.0.0.2 >/dev/null; true")")
guest_busy() {
	[ "$(guest_run m 'cat /sys/class/net/eth*/statistics/rx_packets')" -gt 200 ]
}
wait_for 20 guest_busy
fronts=("$(guest_home n)/device/vif/$vif_n" "$(guest_home m)/device/vif/$vif_m")
guest_destroy a
ktap_test "it is destroyed under load: one end closes" wait_for 20 xs_state_is "${fronts[0]}" 6
ktap_test "... and the other" wait_for 20 xs_state_is "${fronts[1]}" 6
guest_run n "pkill -INT ping"
guest_run m "pkill -INT ping"
guest_wait "${loads[0]}" 30 >/dev/null
guest_wait "${loads[1]}" 30 >/dev/null
ktap_test "both interfaces can be detached" eval "vif_detach n $vif_n && vif_detach m $vif_m"

network_domain b || ktap_exit_fail_msg "no other driver domain"
ktap_test "another driver domain" connect_both b
ktap_test "data passes between the guests" transfer
ktap_test "detached" vif_detach n "$vif_n"

done=0 gone=0
for ((change = 0; change < changes; change++)); do
	if [ $((change % 2)) = 0 ]; then
		vif=$(vif_attach n) && vif_up n "$vif" 2 && reaches n 1 && done=$((done + 1))
	else
		connect n b 2 && reaches n 3 && done=$((done + 1))
	fi
	# Every other time of each kind the guest's end closes first.
	[ $((change / 2 % 2)) = 0 ] || guest_run n "echo vif-$vif >/sys/bus/xen/drivers/vif/unbind"
	begun=$SECONDS
	vif_detach n "$vif" && [ $((SECONDS - begun)) -le "$(stretch 10)" ] && gone=$((gone + 1))
done
ktap_equal "reached each time that the backend is another domain" "$changes" $done
ktap_equal "detached within ten seconds each time" "$changes" $gone
ktap_test "the second guest's interface goes" vif_detach m "$vif_m"
guest_destroy b
ktap_finished
