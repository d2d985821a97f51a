#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N23: what there is too little of. A guest whose grant references or event channels run out: interfaces work with
# fewer or are refused, with an error that names what is missing; the others are not affected, and there can be
# another one when some have gone. A guest whose memory runs out goes on receiving as soon as there is some.
# pairs: rust/rust
# control: rust/c
# timeout: 800
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 24

# fill REGEX [KEY=VALUE...]: attaches interfaces until one is refused, in $refused; the others are in $ids. Whether an
# error says so, of either end.
fill() {
	local said=$1
	shift
	ids=() refused=''
	while [ ${#ids[@]} -lt 20 ]; do
		if vif=$(XENVM_QUICK=8 vif_attach n "$@" 2>/tmp/why); then
			ids+=("$vif")
			guest_run n "ip link set \$(ls /sys/bus/xen/devices/vif-$vif/net) up"
			continue
		fi
		refused=$(vif_list n | sort -n | tail -n 1)
		ktap_print_msg "$(cat /tmp/why)"
		[ "$refused" != "${ids[-1]}" ] && { error_says "$refused" "$said" || backend_says "$refused" "$said"; }
		return
	done
	return 1
}

backend_says() {
	local back
	back=$(vif_back n "$1")
	xenstore-read "${back%%/backend/*}/error/backend/${back#*/backend/}/error" 2>/dev/null | grep -qE -- "$2"
}

# only_through ID LAST: whether data passes by this interface while the others are down.
only_through() {
	guest_run n "for dev in /sys/class/net/eth*; do ip link set \${dev##*/} down; done" && vif_up n "$1" "$2" &&
		to_guest 4 "10.0.0.$2" && from_guest 4
}

# run_out NAME REGEX
run_out() {
	ktap_test "$1: an interface is refused, and why" fill "$2"
	ktap_test "$1: ... after some" test ${#ids[@]} -ge 1
	ktap_test "$1: it is closed" front_reaches "$refused" 5 6
	ktap_test "$1: the first one works" only_through "${ids[0]}" 2
	ktap_test "$1: ... and the last" only_through "${ids[-1]}" 3
	ktap_test "$1: the refused one can be detached" vif_detach n "$refused"
	ktap_test "$1: so can another" vif_detach n "${ids[0]}"
	ktap_test "$1: then there can be one more" vif_attach n
}

guest_create n vcpus=2 timeout=240 set=max_grant_frames=4 fresh || ktap_exit_fail_msg "no guest"
run_out "grants" "grant"
guest_create n vcpus=2 timeout=240 set=max_event_channels=28 fresh || ktap_exit_fail_msg "no guest"
run_out "channels" "event channel"

# The backend's domain has too few. (There is no such limit for dom0 but that of its kernel.)
guest_create n vcpus=2 timeout=240 fresh || ktap_exit_fail_msg "no guest"
network_domain b set=max_event_channels=28 || ktap_exit_fail_msg "no driver domain"
guest_run b "ip addr add 10.0.0.9/24 dev br0"
ktap_test "backend's channels: an interface is refused, and why" fill "error -28|event channel" backend=b bridge=br0
ktap_test "backend's channels: the first one works" guest_run n "dev=\$(ls /sys/bus/xen/devices/vif-${ids[0]}/net) &&
	ip addr add 10.0.0.2/24 dev \$dev && ping -q -c 3 -W 5 10.0.0.9 >/dev/null"
ktap_test "backend's channels: the refused one can be detached" vif_detach n "$refused"
ktap_test "backend's channels: so can another" vif_detach n "${ids[-1]}"
ktap_test "backend's channels: then there can be one more" vif_attach n backend=b bridge=br0
guest_destroy b

# --- memory -----------------------------------------------------------------------------------------
guest_create n vcpus=2 timeout=240 fresh || ktap_exit_fail_msg "no guest"
attach_new
no_page=$(statistic rx_no_page)
# Pages come back as soon as somebody has read what is in them: this program takes a connection and reads nothing.
guest_run n "sysctl -qw net.ipv4.tcp_rmem='4096 25165824 25165824' net.ipv4.tcp_mem='100000 100000 100000'"
reader=$(guest_start n 100 "busybox nc -l -p 5003 -e sleep 90")
wait_for 10 guest_listens 5003 || ktap_exit_fail_msg "nobody listens"
cat /dev/zero 2>/dev/null >/dev/tcp/10.0.0.2/5003 &
flood=$!
# The kernel keeps more than there is free for emergencies, so that nobody gets a page: not what polling asks for
# either. Should it want to end a program, there is one for it.
# shellcheck disable=SC2016 # expanded in the guest
guest_run n 30 'sleep 1000 & echo 1000 >/proc/$!/oom_score_adj
	mkfifo /tmp/never; exec 9<>/tmp/never
	while read -r key value _; do [ $key != MemFree: ] || break; done </proc/meminfo
	old=$(</proc/sys/vm/min_free_kbytes)
	echo $((6 * value)) >/proc/sys/vm/min_free_kbytes
	read -t 3 -u 9
	echo $old >/proc/sys/vm/min_free_kbytes
	kill %1'
ktap_test "memory: it answers again" wait_for 5 vif_reachable 2
kill $flood
wait $flood
guest_run n "pkill sleep"
guest_wait "$reader" 20 >/dev/null
missed=$(($(statistic rx_no_page) - no_page))
ktap_print_msg "memory: no page $missed times"
ktap_test "memory: there were no pages" test $missed -gt 0
# And with little of it all the time.
# shellcheck disable=SC2016 # expanded in the guest
guest_run n 60 'mount -o remount,size=100% /tmp
	while read -r key value _; do [ $key != MemAvailable: ] || break; done </proc/meminfo
	[ $value -lt 30000 ] || head -c $(((value - 30000) * 1024)) /dev/zero >/tmp/fill'
ktap_test "memory: data passes with little of it" both_ways 4
guest_destroy n
ktap_finished
