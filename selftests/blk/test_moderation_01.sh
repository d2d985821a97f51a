#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Events are moderated at the end that is Rust's: each setting takes effect while a verified load runs, what
# makes no sense is refused and says why, timers end hold-offs, many requests share an event, and one request
# at a time never waits for others.
# pairs: rust/rust
# control: rust/c c/rust
# tier: long
# timeout: 600

# shellcheck source=selftests/blk/common.sh
. ./common.sh
front=$XENVM_FRONT_BLKFRONT
back=$(backend_loaded blkback)
ends=()
only_front=()
[ "$front" = c ] || ends+=(front) only_front=(front)
[ "$back" = c ] || ends+=(back)
ktap_set_plan $((1 + 20 * ${#ends[@]} + ${#only_front[@]}))
guest_create g vcpus=1 timeout=240 || ktap_exit_fail_msg "no guest"
attach_new g xvdb 64

# Emulated, a request takes some 40 times as long as on a real machine.
long=50000

# knobs END: where the settings are.
knobs() {
	local number
	number=$(vdev_number xvdb)
	case $1 in
	front) echo "/sys/bus/xen/devices/vbd-$number/moderation" ;;
	back) echo "/sys/bus/xen-backend/devices/vbd-$(guest_id g)-$number/moderation" ;;
	esac
}

# at END COMMAND: runs a shell command where the end is.
at() {
	case $1 in
	front) guest_run g 30 "$2" ;;
	back) bash -c "$2" ;;
	esac
}

# setting END NAME [VALUE]: prints a setting, or changes it.
setting() {
	if [ $# -gt 2 ]; then
		at "$1" "echo '$3' >$(knobs "$1")/$2"
	else
		at "$1" "cat $(knobs "$1")/$2"
	fi
}

# counted END NAME: one of the numbers of an end, of all rings.
counted() {
	case $1 in
	front) number g xvdb "$2" ;;
	back) cat "/sys/bus/xen-backend/devices/vbd-$(guest_id g)-$(vdev_number xvdb)/ring-"*"/$2" |
		awk '{ sum += $1 } END { print sum + 0 }' ;;
	esac
}

# The name that each end has for events that it takes.
received() {
	case $1 in
	front) counted front events_received ;;
	back) counted back events ;;
	esac
}

# reads DEPTH COUNT: reads so many blocks.
reads() {
	fio_guest g /dev/xvdb 120 --rw=randread --bs=4k --norandommap --size=32m \
		--io_size=$(($2 * 4))k --iodepth="$1"
}

# refuses END NAME VALUE: whether a value is refused, and the old one stays.
refuses() {
	local old
	old=$(setting "$1" "$2")
	if setting "$1" "$2" "$3" 2>/dev/null; then
		ktap_print_msg "$2 can be \"$3\""
		return 1
	fi
	[ "$(setting "$1" "$2")" = "$old" ]
}

refuses_all() {
	refuses "$1" frames 0 && refuses "$1" frames 513 && refuses "$1" frames -1 &&
		refuses "$1" frames many && refuses "$1" frames '' && refuses "$1" usecs 100001 &&
		refuses "$1" poll_usecs 100001 && refuses "$1" adaptive 2 && refuses "$1" priority 16 &&
		refuses "$1" frames 4294967297
}

# says END TEXT: whether the end's log has a line.
says() {
	at "$1" "dmesg | grep -qF -- 'moderation: $2'"
}

# parameter_refused END NAME VALUE: whether a value of the module's parameter is refused.
parameter_refused() {
	local file=/sys/module/xen_blk$1/parameters/$2
	! at "$1" "echo '$3' 2>/dev/null >$file" 2>/dev/null
}

# under_load END NAME VALUE...: changes a setting again and again while fio verifies.
under_load() {
	local handle output value before
	handle=$(guest_start g 150 "fio --name=load --filename=/dev/xvdb --direct=1 --ioengine=libaio \
		--rw=randrw --bsrange=4k-32k --size=16m --iodepth=32 --verify=crc32c --verify_fatal=1 2>&1")
	wait_for_load g xvdb
	before=$(statistic g xvdb rd_req)
	for _ in {1..4}; do
		for value in "${@:3}"; do
			setting "$1" "$2" "$value" && [ "$(setting "$1" "$2")" = "$value" ] || return
		done
	done
	if ! statistic_above g xvdb rd_req "$before"; then
		ktap_print_msg "nothing was read meanwhile"
		return 1
	fi
	if ! output=$(guest_wait "$handle" 150); then
		grep -E 'verify|error' <<<"$output" | head -n 4 | sed 's/^/# /'
		return 1
	fi
}

# rate END DEPTH COUNT: events that the end takes for a thousand reads.
rate() {
	local before
	before=$(received "$1")
	reads "$2" "$3" || return
	echo $((($(received "$1") - before) * 1000 / $3))
}

for end in "${ends[@]}"; do
	ktap_equal "$end: defaults" "16 100 0 1 7" "$(for name in frames usecs poll_usecs adaptive priority; do
		setting "$end" $name
	done | paste -sd ' ')"
	ktap_test "$end: values out of range are refused" refuses_all "$end"
	ktap_test "$end: ... and the log says which" says "$end" "frames cannot be 513, only 1 to 512"
	ktap_test "$end: ... or what it should be" says "$end" \
		"frames must be a decimal number from 1 to 512"
	ktap_test "$end: likewise parameters" parameter_refused "$end" frames 0
	ktap_test "$end: ... and those that are no numbers" parameter_refused "$end" usecs 100001

	setting "$end" usecs $long
	ktap_test "$end: frames under load" under_load "$end" frames 1 64 16
	ktap_test "$end: usecs under load" under_load "$end" usecs 0 20 $long
	ktap_test "$end: poll_usecs under load" under_load "$end" poll_usecs 500 0
	ktap_test "$end: adaptive under load" under_load "$end" adaptive 0 1
	ktap_test "$end: priority under load" under_load "$end" priority 0 15 7

	# One at a time, before and after.
	setting "$end" frames 1
	reads 1 500
	one=$(rate "$end" 1 500)
	setting "$end" frames 16
	held=$(counted "$end" events_held)
	many=$(rate "$end" 1 500)
	ktap_print_msg "$end: with depth 1 $one events for a thousand reads, then $many"
	# The kernel's own reads, when a disk is opened, are several at a time.
	ktap_test "$end: depth 1 is not held off" test $(($(counted "$end" events_held) - held)) -le 20
	ktap_test "$end: depth 1 has its events" test "$many" -ge $((one * 9 / 10))

	# How many events 32 at a time take: each with its own, as many held off as has been good, and always 16.
	# How much is good depends on the machine, so that the numbers are only told.
	setting "$end" frames 1
	without=$(rate "$end" 32 2000)
	setting "$end" frames 16
	reads 32 2000
	with=$(rate "$end" 32 4000)
	setting "$end" adaptive 0
	always=$(rate "$end" 32 4000)
	setting "$end" adaptive 1
	ktap_print_msg "$end: with depth 32 $without events for a thousand reads, then $with; $always if always 16 wait"
	ktap_test "$end: depth 32 needs fewer events" test "${with:-1000}" -lt $((${without:-0} * 3 / 4))
	ktap_test "$end: ... also if always as many wait" test "${always:-1000}" -lt $((${without:-0} * 3 / 4))
	ktap_test "$end: ... for they are held off" test "$(counted "$end" events_held)" -gt 50
	ktap_test "$end: batches are counted" test "$(($(counted "$end" batch_8_15) +
		$(counted "$end" batch_16_31)))" -gt 50

	# A fixed number that never comes: the timer ends that.
	expired=$(counted "$end" events_expired)
	setting "$end" adaptive 0
	setting "$end" frames 512
	setting "$end" usecs 1000
	ktap_test "$end: reads that wait for the timer" reads 8 300
	ktap_test "$end: timers have expired" test $(($(counted "$end" events_expired) - expired)) -gt 0
	setting "$end" usecs $long
	setting "$end" frames 16
	setting "$end" adaptive 1
done

# What the toolstack has written holds when the disk connects, for each end in its own folder.
xenstore-write "$(frontend_path g xvdb)/moderation-usecs" 77 "$(backend_path g xvdb)/moderation-usecs" 78
node=vbd-$(vdev_number xvdb)
guest_run g "cd /sys/bus/xen/drivers/vbd && echo $node >unbind && echo $node >bind"
wait_for 20 guest_run g "[ -b /dev/xvdb ]"
for end in "${ends[@]}"; do
	case $end in
	front) ktap_equal "front: keys in xenstore" 77 "$(setting front usecs)" ;;
	back) ktap_equal "back: keys in xenstore" 78 "$(setting back usecs)" ;;
	esac
done
disk_detach g xvdb
ktap_test "no trace of the disk" no_trace g xvdb
for end in "${only_front[@]}"; do
	hand_make g xvdc front:moderation-frames=900
	hand_state g xvdc 2
	ktap_test "$end: a key out of range is an error" wait_for 10 error_says g xvdc \
		'moderation-frames is "900", not a decimal number from 1 to 512'
	hand_remove g xvdc
done
ktap_finished
