# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Places that packets go from and to, and traffic between any two of them. A place is dom0, or a guest by its
# name, or a network namespace in one of these: n/left.

# at PLACE COMMAND: runs a command of bash at a place, for at most two minutes.
at() {
	local host=${1%%/*} space=()
	[ "$host" = "$1" ] || space=(nsenter "--net=/run/netns/${1#*/}")
	if [ "$host" = dom0 ]; then
		timeout "$(stretch 120)" "${space[@]}" bash -c "$2"
	else
		guest_run "$host" 120 "${space[*]} bash -c $(printf %q "$2")"
	fi
}

# settle PLACE DEVICE ADDRESS/LENGTH...: brings an interface up there with these addresses, if they are not there
# yet. A namespace is made, and the interface is taken to it.
settle() {
	local place=$1 device=$2 address
	shift 2
	if [[ $place == */* ]]; then
		at "${place%%/*}" "[ -e /run/netns/${place#*/} ] || ip netns add ${place#*/} || exit
			ip -n ${place#*/} link show $device >/dev/null 2>&1 || ip link set $device netns ${place#*/}" || return
	fi
	at "$place" "ip link set lo up; for address in $*; do
		case \$address in *:*) flags=nodad ;; *) flags= ;; esac
		ip addr replace \$address dev $device \$flags || exit
	done; ip link set $device up"
}

# unsettle PLACE...: removes namespaces; interfaces of devices go back to where they came from.
unsettle() {
	local place
	for place; do
		at "${place%%/*}" "ip netns del ${place#*/} 2>/dev/null"
	done
}

# reaches PLACE ADDRESS: whether the address answers in time.
reaches() {
	wait_for 20 at "$1" "ping -c 1 -W 1 $2"
}

# --- TCP ----------------------------------------------------------------------------------------

# tcp_passes FROM TO ADDRESS KIB [PORT [ADDRESS PORT]]: sends random data to a port of an address of TO, or to
# another address and port that lead there; whether the same arrives.
tcp_passes() {
	local from=$1 to=$2 kib=$4 port=${5:-5010} target=${6:-$3}/${7:-${5:-5010}} sent receiver
	at "$to" "busybox nc -l -p $port -e sh -c 'sha256sum >/tmp/sum-$port'; cat /tmp/sum-$port; rm /tmp/sum-$port" \
		>"/tmp/received-$port" &
	receiver=$!
	# shellcheck disable=SC2016 # expanded there
	sent=$(at "$from" "head -c ${kib}K /dev/urandom >/tmp/sent-$port && sha256sum </tmp/sent-$port
		for i in {1..100}; do
			! exec 3>/dev/tcp/$target || break
			sleep 0.1
		done 2>/dev/null
		cat /tmp/sent-$port >&3 && rm /tmp/sent-$port") || {
		ktap_print_msg "$from cannot send to $target"
		at "${to%%/*}" "pkill -f 'nc -l -p $port '"
		wait $receiver
		return 1
	}
	wait $receiver
	same "$sent" "$(<"/tmp/received-$port")"
}

# --- UDP ----------------------------------------------------------------------------------------

# udp_passes FROM TO ADDRESS SIZE NUMBER: sends so many datagrams; whether all arrive as they were, and none of them
# twice. All have room in the receiver's buffer, so that none need be lost.
udp_passes() {
	local from=$1 to=$2 address=$3 size=$4 number=$5 port=5020 before receiver
	before=$(at "${to%%/*}" "cat /proc/sys/net/core/rmem_default
		echo $((128 << 20)) >/proc/sys/net/core/rmem_default") || return
	at "$to" "datagrams receive $port $size $number $(stretch 10)" >/tmp/received-$port &
	receiver=$!
	wait_for 20 at "$to" "ss -Hlun sport = :$port | grep -q ."
	at "$from" "taskset -c 0 datagrams send $address $port $size $number"
	wait $receiver
	set -- $?
	at "${to%%/*}" "echo $before >/proc/sys/net/core/rmem_default"
	[ "$1" = 0 ] || ktap_print_msg "$size bytes: $(</tmp/received-$port)"
	return "$1"
}

# --- what is counted ------------------------------------------------------------------------------

# bad_checksums PLACE...: how many packets with a wrong checksum have arrived at these places.
bad_checksums() {
	local place
	for place; do
		at "$place" "nstat -asz" || return
	done | awk '$1 ~ /InCsumErrors$/ { sum += $2; seen++ } END { print seen ? sum : "unknown" }'
}
