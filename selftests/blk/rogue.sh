# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Backends that misbehave, see selftests/rogue: what the guest's driver makes of them.

# rogue_attacks PLACE...: names of the attacks that act in one of these places, and what is expected.
rogue_attacks() {
	rogue-blkback --list-attacks | awk -F '\t' -v places=" $* " \
		'index(places, " " $2 " ") { print $1, $3 }'
}

rogue_log_has() {
	grep -q -- "$1" "$rogue_log"
}

# Whether the device has come to where it is going: a disk, or an error.
rogue_settled() {
	has_node "$1" xvdb || [ -n "$(error_node "$1" xvdb)" ] || ! kill -0 "$rogue_pid" 2>/dev/null
}

# rogue_work NAME SIZES: reads and writes through the disk for some seconds, in requests of such
# sizes; prints the handle.
rogue_work() {
	guest_start "$1" 60 "fio --name=rogue --filename=/dev/xvdb --direct=1 --ioengine=libaio \
		--rw=randrw --bsrange=$2 --iodepth=8 --fsync=16 --time_based --runtime=4 \
		--group_reporting"
}

# rogue_gone NAME: whether the guest has no trace of the device.
rogue_gone() {
	guest_run "$1" "! [ -e /dev/xvdb ] && ! [ -e /sys/bus/xen/devices/vbd-51728 ]"
}

# rogue_end NAME: takes the backend and the device away; whether that works in time.
rogue_end() {
	local id ok=0
	id=$(guest_id "$1")
	kill "$rogue_pid" 2>/dev/null
	wait_for 30 eval "! kill -0 $rogue_pid 2>/dev/null" || {
		ktap_print_msg "the backend does not end"
		kill -KILL "$rogue_pid"
		ok=1
	}
	wait "$rogue_pid" 2>/dev/null
	rogue-blkback --domid "$id" --vdev xvdb --cleanup >/dev/null 2>&1
	xenstore-rm "$(guest_home "$1")/error/device/vbd/51728" 2>/dev/null
	wait_for 45 rogue_gone "$1" || {
		ktap_print_msg "the guest still has the device"
		ok=1
	}
	return $ok
}

# rogue_attack NAME ATTACK EXPECTED: whether the guest's driver takes it as it should.
rogue_attack() {
	local name=$1 attack=$2 expected=$3 sizes=4k-16k handle status said ok=0
	local options=(--size 16M --flush 1 --hold 3 --timeout 30)
	case $attack in
	operation-indirect)
		options+=(--indirect 32)
		sizes=64k-128k
		;;
	keep-grants | late-unmap) options+=(--map) ;;
	keep-at-close) options+=(--persistent) ;;
	esac
	rogue_log=/tmp/rogue.$attack
	rogue-blkback --domid "$(guest_id "$name")" --vdev xvdb "${options[@]}" --after 20 \
		--attack "$attack" >"$rogue_log" 2>&1 &
	rogue_pid=$!
	wait_for 20 rogue_settled "$name"

	status=none
	if has_node "$name" xvdb; then
		handle=$(rogue_work "$name" "$sizes")
		guest_wait "$handle" 25 >/dev/null
		status=$?
	fi
	said=$(error_node "$name" xvdb)
	case $expected:$status in
	works:0 | errors:[1-9]* | stops:[1-9]* | either:* | waits:*) ;;
	refuses:none | works:none)
		# A key that makes no sense is named, and the device not used.
		[ -n "$said" ] || [ "$attack" = never-connect ] ||
			[ "$attack" = closing-before-connected ] || ok=1
		;;
	# An empty disk, or one that has become smaller: fio can say so in its own way.
	works:1) [[ $attack == resize-* ]] || ok=1 ;;
	*) ok=1 ;;
	esac
	# Waiting is right only where the backend could still answer.
	[ "$status" != 124 ] || [ "$expected" = waits ] || ok=1

	rogue_end "$name" || ok=1
	if [ "$status" = 124 ]; then
		# What waited for the backend has ended with it.
		guest_wait "$handle" 20 >/dev/null
		[ $? != 124 ] || {
			ktap_print_msg "requests wait for a device that is gone"
			ok=1
		}
	fi
	guest_run "$name" 20 true || ok=1
	[ $ok = 0 ] ||
		ktap_print_msg "$attack: expected $expected, fio $status, error node \"$said\"," \
			"backend: $(tail -n 3 "$rogue_log" | paste -sd ';')"
	return $ok
}

# rogue_campaign PLACE...: all attacks of these places, then a good backend.
rogue_campaign() {
	local attack expected attacks
	mapfile -t attacks < <(rogue_attacks "$@")
	[ ${#attacks[@]} -gt 0 ] || ktap_exit_fail_msg "rogue-blkback knows no attacks"
	ktap_set_plan $((${#attacks[@]} + 2))
	share_guest
	for attack in "${attacks[@]}"; do
		read -r attack expected <<<"$attack"
		ktap_test "$attack: $expected" rogue_attack g "$attack" "$expected"
	done
	ktap_test "nobody in the guest is stuck" nobody_stuck g
	# shellcheck disable=SC2034 # attach_works uses it
	disk=$(make_disk 32)
	ktap_test "a good backend works after all that" attach_works g xvdb
}
