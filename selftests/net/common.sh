# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the tests of the network drivers have in common.
#
# Tests of pairs with C's frontend allow it a warning in xennet_disconnect_backend(): it takes references to
# pages of packets that it still has to send, also of slabs, which do not count them.

# share_guest: the guest n that most tests share. Two virtual CPUs make two queues an interface.
share_guest() {
	guest_create n vcpus=2 timeout=240 || ktap_exit_fail_msg "no guest"
}

# What an interface is to be, as `xl network-attach` takes it.
vif_options=()

# attach_new: gives the guest an interface, whose number is in $vif, its name in the guest in
# $node and in dom0 in $back afterwards; ends the test if that does not work.
attach_new() {
	if ! vif=$(vif_attach n "${vif_options[@]}") || ! vif_up n "$vif" 2; then
		ktap_exit_fail_msg "no interface"
	fi
	node=$(vif_node n "$vif")
	back=$(vif_name n "$vif")
}

# With the C driver this run is the control.
is_c() {
	[ "$XENVM_FRONT_NETFRONT" = c ]
}

# --- traffic ------------------------------------------------------------------------------------

# A receiver, by its port. What reads from the connection and what writes to it (bash's /dev/tcp) do so in large
# pieces, which busybox' nc by itself does not.
receiver() {
	echo "rm -f /tmp/sum; busybox nc -l -p $1 -e sh -c 'sha256sum >/tmp/sum.new; mv /tmp/sum.new /tmp/sum'"
}

# to_guest MIB [ADDRESS]: sends random data to the guest by TCP; whether the sums are the same.
to_guest() {
	local address=${2:-10.0.0.2} handle sent
	handle=$(guest_start n 120 "$(receiver 5001)") || return
	wait_for 10 guest_listens 5001 || return
	random "$1" >/tmp/sent
	sent=$(sha256sum </tmp/sent)
	cat /tmp/sent >"/dev/tcp/$address/5001"
	guest_wait "$handle" 120 || return
	same "$sent" "$(guest_run n "cat /tmp/sum")"
}

# from_guest MIB [ADDRESS]: the other way.
from_guest() {
	local address=${2:-10.0.0.1} sent
	timeout "$(stretch 120)" bash -c "$(receiver 5002)" &
	wait_for 10 listens 5002 || return
	sent=$(guest_run n 120 "head -c $(($1 << 20)) /dev/urandom >/tmp/sent && sha256sum </tmp/sent
		cat /tmp/sent >/dev/tcp/$address/5002; rm /tmp/sent") || return
	wait $!
	same "$sent" "$(cat /tmp/sum)"
}

# both_ways [MIB]: the one and then the other.
both_ways() {
	to_guest "${1:-4}" && from_guest "${1:-4}"
}

same() {
	if [ -z "$1" ] || [ "$1" != "$2" ]; then
		ktap_print_msg "sent $1, received $2"
		return 1
	fi
}

random() {
	head -c "$(($1 << 20))" /dev/urandom
}

listens() {
	grep -q ":$(printf %04X "$1") .* 0A " /proc/net/tcp /proc/net/tcp6
}

guest_listens() {
	guest_run "${2:-n}" "grep -q ':$(printf %04X "$1") .* 0A ' /proc/net/tcp /proc/net/tcp6"
}

# --- streams that outlive a connection ------------------------------------------------------------
#
# Data goes both ways from streams_begin to streams_end by one TCP connection each. The network is away for many
# seconds in between: for the tests, TCP tries again each second instead of waiting twice as long each time, and
# does not give up after fifteen of them.

# streams_begin NAME [ADDRESS OF THE GUEST]
streams_begin() {
	local name=$1 address=${2:-10.0.0.2}
	sysctl -qw net.ipv4.tcp_rto_max_ms=1000 net.ipv4.tcp_retries2=255
	rm -f /tmp/sent /tmp/sum
	touch /tmp/streaming
	random 1 >/tmp/block
	streams_in=$(guest_start "$name" 1500 "$(receiver 5001)") || return
	bash -c "$(receiver 5002)" &
	streams_out=$!
	guest_listens 5001 "$name" || wait_for 20 guest_listens 5001 "$name" || return
	wait_for 20 listens 5002 || return
	streams_up=$(guest_start "$name" 1500 "sysctl -qw net.ipv4.tcp_rto_max_ms=1000 net.ipv4.tcp_retries2=255
		rm -f /tmp/sent; head -c 1M /dev/urandom >/tmp/block; touch /tmp/streaming
		while [ -e /tmp/streaming ]; do cat /tmp/block; done | tee >(sha256sum >/tmp/sent) >/dev/tcp/10.0.0.1/5002
		until [ -s /tmp/sent ]; do sleep 0.1; done; cat /tmp/sent") || return
	while [ -e /tmp/streaming ]; do cat /tmp/block; done | tee >(sha256sum >/tmp/sent) >"/dev/tcp/$address/5001" &
	streams_down=$!
}

# streams_end NAME: whether all that was sent has been received, both ways.
streams_end() {
	local sent good=0
	rm -f /tmp/streaming
	guest_run "$1" "rm -f /tmp/streaming" || return
	wait "$streams_down"
	sent=$(guest_wait "$streams_up" 120) && wait "$streams_out" && same "$sent" "$(cat /tmp/sum)" || good=1
	wait_for 20 test -s /tmp/sent
	guest_wait "$streams_in" 120 && same "$(cat /tmp/sent)" "$(guest_run "$1" "cat /tmp/sum")" || good=1
	sysctl -qw net.ipv4.tcp_rto_max_ms=120000 net.ipv4.tcp_retries2=15
	return "$good"
}

# streams_go NAME ID: waits until another MiB has gone each way.
streams_go() {
	local folder totals
	folder=/sys/class/net/$(vif_name "$1" "$2")/statistics
	totals=("$(<"$folder/rx_bytes")" "$(<"$folder/tx_bytes")")
	wait_for "$XENVM_QUICK" streams_gone "$folder" "${totals[@]}"
}

streams_gone() {
	[ $(($(<"$1/rx_bytes") - $2)) -gt 1048576 ] && [ $(($(<"$1/tx_bytes") - $3)) -gt 1048576 ]
}

# gaps_begin NAME LAST, gaps_end NAME: ten echo requests a second each way; prints the longest time, in milliseconds of
# the guest's own clock, in which none from outside came in, and that in which no answer did. That clock stands
# still while the guest is saved.
gaps_begin() {
	ping -q -i 0.1 "10.0.0.$2" >/dev/null 2>&1 &
	gaps_ping=$!
	gaps_answers=$(guest_start "$1" 1500 "ping -q -i 0.1 10.0.0.1 >/dev/null; true") || return
	# shellcheck disable=SC2016 # expanded in the guest
	gaps_watch=$(guest_start "$1" 1500 'touch /tmp/watching; mkfifo /tmp/never; exec 9<>/tmp/never
		now() {
			local word
			{ read -r; read -r; read -r _ _ word _; } </proc/timer_list
			time=$((word / 1000000))
		}
		now; begun=("$time" "$time"); longest=(0 0); counts=(0 0)
		while [ -e /tmp/watching ]; do
			while read -r -a words; do
				[[ ${words[0]} == Icmp: && ${words[1]} != InMsgs ]] && break
			done </proc/net/snmp
			now
			for side in 0 1; do
				gap=$((time - begun[side]))
				[ $gap -le ${longest[side]} ] || longest[side]=$gap
				[ "${words[side + 9]}" != "${counts[side]}" ] || continue
				counts[side]=${words[side + 9]} begun[side]=$time
			done
			read -t 0.03 -u 9
		done
		echo "${longest[@]} ${counts[@]}"')
}

gaps_end() {
	kill -INT "$gaps_ping"
	guest_run "$1" "pkill -INT ping; rm -f /tmp/watching /tmp/never"
	guest_wait "$gaps_answers" 20 >/dev/null
	guest_wait "$gaps_watch" 20
}

# --- what else there is ---------------------------------------------------------------------------

# statistic NAME: what `ethtool -S` says in the guest.
statistic() {
	guest_run n "ethtool -S $node | awk '\$1 == \"$1:\" { print \$2 }'"
}

# counter WHERE NAME: a number of the interface's, in dom0 or in the guest.
counter() {
	case $1 in
	dom0) cat "/sys/class/net/$back/statistics/$2" ;;
	guest) guest_run n "cat /sys/class/net/$node/statistics/$2" ;;
	esac
}

# --- driver domains ---------------------------------------------------------------------------------

# network_domain NAME [KEY=VALUE...]: a guest whose xen-netback serves others, by its bridge br0. It does by itself
# what `xl devd` does in such a domain: puts interfaces on the bridge, says so, and removes what has been closed.
network_domain() {
	local name=$1
	shift
	guest_create "$name" timeout=240 fresh "$@" || return
	guest_run "$name" "# ram-root
guest-driver netback $XENVM_BACK_NETBACK && modprobe xen-netback && modprobe bridge &&
	ip link add br0 type bridge && ip link set br0 up" || return
	# shellcheck disable=SC2016 # expanded in the guest
	guest_start "$name" 3000 'home=/local/domain/$(xenstore-read domid)/backend
		xenstore-watch $home | while read -r path; do
			# The first is told of when the watch is there.
			[ $path != $home ] || xenstore-write data/watching 1
			[[ $path =~ ^$home/vif/([0-9]+)/([0-9]+) ]] || continue
			folder=$home/vif/${BASH_REMATCH[1]}/${BASH_REMATCH[2]}
			device=vif${BASH_REMATCH[1]}.${BASH_REMATCH[2]}
			case $path in
			*/state | */online) ;;
			*) continue ;;
			esac
			case $(xenstore-read $folder/state $folder/online | tr "\n" " ") in
			"2 1 " | "4 1 ")
				# libxl has made it, with nothing in it.
				if [ "$(xenstore-read $folder/hotplug-status)" != connected ]; then
					ip link set $device master br0 up && xenstore-write $folder/hotplug-status connected
				fi
				;;
			"6 0 ") xenstore-rm $folder ;;
			esac
		done' >/dev/null
	wait_for 30 xenstore-exists "$(guest_home "$name")/data/watching"
}

# --- devices made by hand -----------------------------------------------------------------------

# hand_path ID: the backend's folder of an interface of the guest's that hand_make has made. No driver sees it.
hand_path() {
	echo "/local/domain/0/backend/hand-vif/$(guest_id n)/$1"
}

hand_front() {
	echo "$(guest_home n)/device/vif/$1"
}

# hand_make ID [KEY=VALUE|front:KEY=VALUE]...: makes an interface whose backend is nothing but keys in xenstore
# and waits to be connected. The guest sees it when its state is written, which is last.
hand_make() {
	local id front back pairs word
	id=$(guest_id n)
	front=$(hand_front "$1")
	back=$(hand_path "$1")
	pairs=("$back/frontend" "$front" "$back/frontend-id" "$id" "$back/online" 1 "$back/feature-rx-copy" 1
		"$front/backend" "$back" "$front/backend-id" 0 "$front/handle" "$1"
		"$front/mac" "00:16:3e:00:01:$(printf %02x "$1")")
	shift
	for word; do
		case $word in
		front:*) pairs+=("$front/$(cut -d: -f2- <<<"${word%%=*}")" "${word#*=}") ;;
		*) pairs+=("$back/${word%%=*}" "${word#*=}") ;;
		esac
	done
	xenstore-write "$front" '' "$back" '' &&
		xenstore-chmod "$front" "n$id" r0 && xenstore-chmod "$back" n0 "r$id" &&
		xenstore-write -- "${pairs[@]}" "$back/state" 2 "$front/state" 1
}

# hand_remove ID...: removes interfaces; whether the guest then has none of them.
hand_remove() {
	local id devices=''
	for id; do
		xenstore-rm "$(hand_front "$id")"
		xenstore-rm "$(hand_path "$id")"
		xenstore-rm "$(guest_home n)/error/device/vif/$id" 2>/dev/null
		devices="$devices vif-$id"
	done
	guest_run n "cd /sys/bus/xen/devices
		for i in {1..200}; do ls -d $devices 2>/dev/null | grep -q . || exit 0; sleep 0.1; done
		ls -d $devices; exit 1"
}

# front_reaches ID STATE...: whether the guest's driver gets to one of the states in time.
front_reaches() {
	local front
	front=$(hand_front "$1")
	shift
	if ! wait_for 20 state_in "$front" "$*"; then
		ktap_print_msg "$front is in state $(xs_state "$front"), not in $*"
		return 1
	fi
}

state_in() {
	[[ " $2 " == *" $(xs_state "$1") "* ]]
}

# error_says ID REGEX: whether the guest's driver has complained of this.
error_says() {
	xenstore-read "$(guest_home n)/error/device/vif/$1/error" 2>/dev/null | grep -qE -- "$2"
}
