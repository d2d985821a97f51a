#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Events are moderated at the ends that are Rust's: each setting takes effect while data passes, what cannot be is
# refused and says why, timers end hold-offs, packets of a stream share events, and echoes one at a time do not wait for
# others: for 300 there are at least 90 in a hundred of the events that there are without, and 15 hold-offs at most.
# pairs: rust/rust
# control: rust/c c/rust
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 900

# shellcheck source=selftests/net/common.sh
. ./common.sh
# What is moderated: an end, and a direction as its interface sees it.
sides=()
is_c || sides+=("guest rx" "guest tx")
[ "$(backend_loaded netback)" = c ] || sides+=("dom0 rx")
ktap_set_plan $((1 + 15 * ${#sides[@]}))
share_guest
attach_new
sender=$(</sys/class/net/xenbr0/address)
# An address that nobody takes for its own, so that datagrams end where the driver has handed them over.
nobody=10.0.0.9

# Emulated, a packet takes some 40 times as long as on a real machine.
long=20000

# at END COMMAND: runs a shell command where an end is.
at() {
	case $1 in
	guest) guest_run n 60 "$2" ;;
	dom0) bash -c "$2" ;;
	esac
}

interface() {
	case $1 in
	guest) echo "$node" ;;
	dom0) echo "$back" ;;
	esac
}

# setting END DIRECTION NAME [VALUE]: prints a setting as `ethtool -c` has it, or changes it.
setting() {
	local name=$2-$3 show
	show="$name:"
	if [ "$3" = adaptive ]; then
		name=adaptive-$2
		show="Adaptive ${2^^}:"
	fi
	if [ $# -gt 3 ]; then
		at "$1" "ethtool -C $(interface "$1") $name $4 2>&1"
	else
		at "$1" "ethtool -c $(interface "$1")" | sed '/^Adaptive/s/TX:/\nAdaptive TX:/' | awk -v show="$show" \
			'index($0, show) == 1 { sub(/.*: */, ""); print $1 }'
	fi
}

settings() {
	echo "$(setting "$1" "$2" frames) $(setting "$1" "$2" usecs) $(setting "$1" "$2" adaptive)"
}

# refuses END DIRECTION NAME VALUE [TEXT]: whether a value is refused, with this text, and nothing changes.
refuses() {
	local before said
	before=$(settings "$1" "$2")
	if said=$(setting "${@:1:4}"); then
		ktap_print_msg "$2-$3 can be \"$4\""
		return 1
	fi
	ktap_print_msg "$2-$3 $4: $said"
	grep -q -- "${5:-}" <<<"$said" && [ "$(settings "$1" "$2")" = "$before" ]
}

refuses_all() {
	refuses "$1" "$2" frames 513 "$2-frames must be from 1 to 512" && refuses "$1" "$2" frames 0 &&
		refuses "$1" "$2" usecs 100001 "$2-usecs must be from 0 to 100000" &&
		refuses "$1" "$2" frames 4294967295 && refuses "$1" "$2" usecs-irq 1
}

# Without one that is right, neither is changed.
refuses_both() {
	local before
	before=$(settings "$1" "$2")
	at "$1" "! ethtool -C $(interface "$1") $2-usecs 11 $2-frames 0 2>/dev/null" &&
		[ "$(settings "$1" "$2")" = "$before" ]
}

# parameter END NAME: a file of the module.
parameter() {
	case $1 in
	guest) echo "/sys/module/xen_netfront/parameters/$2" ;;
	dom0) echo "/sys/module/xen_netback/parameters/$2" ;;
	esac
}

parameters_refused() {
	at "$1" "! echo 0 2>/dev/null >$(parameter "$1" "$2_frames")" 2>/dev/null &&
		at "$1" "! echo 100001 2>/dev/null >$(parameter "$1" "$2_usecs")" 2>/dev/null
}

# What is not set for an interface follows the parameter.
parameter_followed() {
	local file old seen
	file=$(parameter "$1" "$2_usecs")
	old=$(at "$1" "cat $file")
	at "$1" "echo 33 >$file"
	seen=$(setting "$1" "$2" usecs)
	at "$1" "echo $old >$file"
	[ "$seen $(setting "$1" "$2" usecs)" = "33 $old" ]
}

# counted END NAME: one of the numbers of an end.
counted() {
	at "$1" "ethtool -S $(interface "$1")" | awk -v name="$2:" '$1 == name { print $2 }'
}

# events END DIRECTION: events that the end has taken for it.
events() {
	local channel
	case "$1 $2" in
	"guest rx") channel="vif$vif-q[0-9]+-rx" ;;
	"guest tx") channel="vif$vif-q[0-9]+-tx" ;;
	"dom0 rx") channel="$back-q[0-9]+-tx" ;;
	esac
	at "$1" "awk '/$channel/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; i++) sum += \$i } END { print sum + 0 }' \
		/proc/interrupts"
}

# packets END DIRECTION: packets that it was for.
packets() {
	cat "/sys/class/net/$(interface dom0)/statistics/$([ "$1 $2" = "guest rx" ] && echo tx || echo rx)_packets"
}

# stream END DIRECTION MIB: a transfer in the direction.
stream() {
	case "$1 $2" in
	"guest rx") to_guest "$3" ;;
	*) from_guest "$3" ;;
	esac
}

# datagrams END DIRECTION NUMBER: as fast as the sender can send them, of 64 bytes.
datagrams() {
	local command="fio --name=udp --ioengine=net --protocol=udp --rw=write --bs=64 --size=$((64 * $3)) \
		--hostname=$nobody --port=9"
	case "$1 $2" in
	"guest rx")
		ip neigh replace $nobody lladdr "$(guest_run n "cat /sys/class/net/$node/address")" dev xenbr0
		timeout 120 bash -c "$command" >/tmp/udp 2>&1
		;;
	*) guest_run n 120 "ip neigh replace $nobody lladdr $sender dev $node; $command" >/tmp/udp 2>&1 ;;
	esac
}

# echoes END DIRECTION NUMBER: messages by TCP and their answers, of which the next one waits for the last one's answer.
echoes() {
	local words="--ioengine=net --protocol=tcp --port=5011 --pingpong=1 --bs=64 --size=$((64 * $3))" server
	# shellcheck disable=SC2086 # words
	timeout "$(stretch 120)" fio --name=server $words --listen --rw=read >/tmp/server 2>&1 &
	server=$!
	# When all has been done fio 3.39 may free something twice.
	wait_for 20 listens 5011 && guest_run n 120 "fio --name=client $words --hostname=10.0.0.1 --rw=write; true" >/tmp/client
	wait $server
	grep -q 'err= 0' /tmp/client
}

# rate END DIRECTION COMMAND AMOUNT: events for a thousand packets.
rate() {
	local event packet
	event=$(events "$1" "$2") packet=$(packets "$1" "$2")
	"$3" "$1" "$2" "$4" >&2 || return
	event=$(($(events "$1" "$2") - event)) packet=$(($(packets "$1" "$2") - packet))
	[ "$packet" -gt 0 ] && echo $((event * 1000 / packet))
}

# under_load END DIRECTION NAME VALUE...: changes a setting again and again while data passes.
under_load() {
	local worker value count=0 wrong=0
	stream "$1" "$2" 12 &
	worker=$!
	while kill -0 $worker 2>/dev/null; do
		for value in "${@:4}"; do
			setting "$1" "$2" "$3" "$value" >/dev/null
			[ "$(setting "$1" "$2" "$3")" = "$value" ] || wrong=$((wrong + 1))
			count=$((count + 1))
		done
	done
	ktap_print_msg "$2-$3 was changed $count times, $wrong of them in vain"
	wait $worker && [ $count -ge 3 ] && [ $wrong = 0 ]
}

# compare END DIRECTION COMMAND AMOUNT FRAMES: in $without and $with, the rates without and with moderation.
compare() {
	setting "$1" "$2" frames 1
	without=$(rate "${@:1:4}")
	setting "$1" "$2" frames "$5"
	"$3" "$1" "$2" "$4" >&2
	with=$(rate "${@:1:4}")
	ktap_print_msg "$1 $2, $3, frames $5, usecs $(setting "$1" "$2" usecs): $without events for a thousand packets, then $with;" \
		"held $(counted "$1" "$2_events_held"), expired $(counted "$1" "$2_events_expired")"
}

for name in "${sides[@]}"; do
	read -r end direction <<<"$name"
	side=("$end" "$direction")
	ktap_equal "$end $direction: defaults" "16 50 on" "$(settings "${side[@]}")"
	ktap_test "$end $direction: what cannot be is refused" refuses_all "${side[@]}"
	ktap_test "$end $direction: ... with what could be" refuses_both "${side[@]}"
	ktap_test "$end $direction: likewise parameters" parameters_refused "${side[@]}"
	ktap_test "$end $direction: ... whose value is followed" parameter_followed "${side[@]}"

	setting "${side[@]}" usecs $long
	ktap_test "$end $direction: frames while data passes" under_load "${side[@]}" frames 1 512 16
	ktap_test "$end $direction: usecs while data passes" under_load "${side[@]}" usecs 0 20 $long
	ktap_test "$end $direction: adaptive while data passes" under_load "${side[@]}" adaptive off on

	held=$(counted "$end" "${direction}_events_held")
	# 50 us, slowed down like everything else. How many events a stream by TCP has depends on who is waiting for whom.
	setting "${side[@]}" usecs "$(stretch 3000)"
	compare "${side[@]}" stream 8 16
	# A fixed number of what does not wait for anything.
	setting "${side[@]}" adaptive off
	setting "${side[@]}" usecs 100000
	compare "${side[@]}" datagrams 4000 16
	ktap_test "$end $direction: small datagrams need fewer events" \
		test "${with:-1000}" -lt $((${without:-0} * 3 / 4))
	ktap_test "$end $direction: for they are held off" \
		test "$(counted "$end" "${direction}_events_held")" -gt "$held"
	setting "${side[@]}" adaptive on
	setting "${side[@]}" usecs $long

	# One at a time, just after a stream.
	compare "${side[@]}" echoes 300 64
	ktap_test "$end $direction: echoes have their events" test "${with:-0}" -ge $((without * 90 / 100))
	held=$(counted "$end" "${direction}_events_held")
	echoes "${side[@]}" 300
	held=$(($(counted "$end" "${direction}_events_held") - held))
	ktap_print_msg "$held held off"
	ktap_test "$end $direction: ... of which hardly any is held off" test "$held" -le 15

	# A fixed number that never comes: the timer ends that.
	expired=$(counted "$end" "${direction}_events_expired")
	setting "${side[@]}" adaptive off
	setting "${side[@]}" frames 512
	setting "${side[@]}" usecs 1000
	ktap_test "$end $direction: data that waits for the timer" stream "${side[@]}" 2
	ktap_test "$end $direction: timers have expired" \
		test $(($(counted "$end" "${direction}_events_expired") - expired)) -gt 0
	setting "${side[@]}" frames 1
	setting "${side[@]}" adaptive on
done

# What the toolstack has written holds when the interface connects, for each end in its own folder.
xenstore-write "$(hand_front "$vif")/moderation-rx_usecs" 77 "$(hand_front "$vif")/moderation-tx_usecs" 78 \
	"$(vif_back n "$vif")/moderation-rx_usecs" 79
guest_run n "cd /sys/bus/xen/drivers/vif && echo vif-$vif >unbind && echo vif-$vif >bind"
wait_for "$XENVM_QUICK" vif_connected n "$vif"
node=$(vif_node n "$vif")
for name in "${sides[@]}"; do
	read -r end direction <<<"$name"
	case $name in
	"guest rx") expected=77 ;;
	"guest tx") expected=78 ;;
	"dom0 rx") expected=79 ;;
	esac
	ktap_equal "$name: keys in xenstore" "$expected" "$(setting "$end" "$direction" usecs)"
done
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
