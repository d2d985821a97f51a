# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the tests of the block drivers have in common.

# share_guest: the guest g that most tests share. Two virtual CPUs make two rings a disk.
share_guest() {
	guest_create g vcpus=2 timeout=240 || ktap_exit_fail_msg "no guest"
}

# attach_new NAME VDEV MIB [SECTOR-SIZE [ATTRIBUTE=VALUE...]]: attaches a new disk, whose path in
# dom0 is in $disk afterwards; ends the test if that does not work.
attach_new() {
	if ! disk=$(make_disk "${@:3}") || ! disk_attach "$1" "phy:$disk,$2,w"; then
		ktap_exit_fail_msg "no disk $2"
	fi
}

# With the C driver this run is the control.
is_c() {
	[ "$XENVM_FRONT_BLKFRONT" = c ]
}

# beyond_c REASON NAME COMMAND...: like ktap_test, for what the C driver is known not to do.
# A failure of it is a skipped test with the reason.
beyond_c() {
	local reason=$1 name=$2
	shift 2
	if "$@"; then
		ktap_test_pass "$name"
	elif is_c; then
		ktap_test_skip "$name" "known of the C driver: $reason"
	else
		ktap_test_fail "$name"
	fi
}

# --- input and output ---------------------------------------------------------------------------

# fio_guest NAME NODE SECONDS OPTION...: runs fio on a disk of the guest; prints why it failed.
fio_guest() {
	local name=$1 node=$2 limit=$3 output status
	shift 3
	output=$(guest_run "$name" "$limit" "fio --name=test --filename=$node --direct=1 \
		--ioengine=libaio --group_reporting $*" 2>&1)
	status=$?
	[ $status = 0 ] || grep -E 'fio:|verify|error' <<<"$output" | head -n 8 | sed 's/^/# /'
	return $status
}

# disk_works NAME NODE: whether what is written to a disk can be read from it, at two depths.
disk_works() {
	fio_guest "$1" "/dev/$2" 60 --rw=randrw --bsrange=4k-64k --size=1m --iodepth=8 \
		--verify=crc32c --verify_fatal=1 --end_fsync=1
}

# fio_start NAME NODE SECONDS: lets fio read and write for so long; prints a handle of it.
fio_start() {
	guest_start "$1" $(($3 + 30)) "fio --name=load --filename=/dev/$2 --direct=1 --ioengine=libaio \
		--rw=randrw --bs=16k --iodepth=16 --numjobs=2 --time_based --runtime=$3 --group_reporting"
}

# attach_works NAME VDEV: whether $disk can be attached, and works.
attach_works() {
	disk_attach "$1" "phy:$disk,$2,w" && disk_works "$1" "$2"
}

# statistic NAME VDEV KEY: a counter of the backend driver in dom0.
statistic() {
	cat "/sys/bus/xen-backend/devices/vbd-$(guest_id "$1")-$(vdev_number "$2")/statistics/$3"
}

statistic_above() {
	[ "$(statistic "$1" "$2" "$3")" -gt "$4" ]
}

# number NAME VDEV KEY: the sum of one of the Rust driver's own numbers over the disk's queues.
number() {
	guest_run "$1" "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
		awk '\$1 ~ /^queue[0-9]+\\.$3\$/ { sum += \$2 } END { print sum + 0 }' \
			/sys/kernel/debug/xen-blkfront/$2"
}

# wait_for_load NAME VDEV: waits until requests flow.
wait_for_load() {
	wait_for 30 statistic_above "$1" "$2" wr_req $(($(statistic "$1" "$2" wr_req) + 100))
}

# ends_with_error HANDLE SECONDS: whether a command in the guest ends in time, and with an error.
ends_with_error() {
	local status
	guest_wait "$1" "$2" >/dev/null
	status=$?
	case $status in
	0 | 124)
		ktap_print_msg "it ended with status $status"
		return 1
		;;
	esac
}

# nobody_stuck NAME: whether no task of the guest waits in the kernel, with some patience.
nobody_stuck() {
	wait_for 15 guest_run "$1" 10 "! ps -eo stat,comm | grep '^D'" && return
	guest_run "$1" 10 "ps -eo stat,wchan:30,comm | grep '^D'" | sed 's/^/# /'
	return 1
}

# sum_guest NAME NODE, sum_dom0 PATH: the SHA-256 sum of a whole disk.
sum_guest() {
	guest_run "$1" 120 "dd if=/dev/$2 bs=256k iflag=direct 2>/dev/null | sha256sum"
}

sum_dom0() {
	dd "if=$1" bs=256k iflag=direct 2>/dev/null | sha256sum
}

# --- devices ------------------------------------------------------------------------------------

# block_keys NAME NODE FILE...: what the guest's sysfs says of a disk, in one line.
block_keys() {
	local name=$1 node=$2
	shift 2
	guest_run "$name" "cd /sys/block/$node && cat $* | paste -sd ' '"
}

has_node() {
	guest_run "$1" "[ -b /dev/$2 ]"
}

has_no_node() {
	guest_run "$1" "! [ -e /dev/$2 ]"
}

# no_trace NAME VDEV: whether nothing of a detached device is left in the guest and in xenstore.
no_trace() {
	local id number
	id=$(guest_id "$1")
	number=$(vdev_number "$2")
	wait_for 10 has_no_node "$1" "$2" &&
		guest_run "$1" "! [ -e /sys/bus/xen/devices/vbd-$number ]" &&
		! xenstore-exists "/local/domain/$id/device/vbd/$number" &&
		! xenstore-exists "/local/domain/0/backend/vbd/$id/$number" &&
		! [ -e "/sys/bus/xen-backend/devices/vbd-$id-$number" ]
}

# error_node NAME VDEV: what the guest's driver has complained of.
error_node() {
	xenstore-read "$(guest_home "$1")/error/device/vbd/$(vdev_number "$2")/error" 2>/dev/null
}

error_says() {
	error_node "$1" "$2" | grep -qE -- "$3"
}

# forget_device NAME VDEV: removes what xenstore has of a device, when the toolstack cannot.
forget_device() {
	local id number
	id=$(guest_id "$1")
	number=$(vdev_number "$2")
	xenstore-rm "/local/domain/$id/device/vbd/$number" 2>/dev/null
	xenstore-rm "/local/domain/0/backend/vbd/$id/$number" 2>/dev/null
	xenstore-rm "/libxl/$id/device/vbd/$number" 2>/dev/null
	xenstore-rm "/local/domain/$id/error/device/vbd/$number" 2>/dev/null
	return 0
}

# --- devices made by hand -----------------------------------------------------------------------

# hand_path NAME VDEV: the backend's folder of a device that hand_make has made. No driver sees it.
hand_path() {
	echo "/local/domain/0/backend/${hand_type:-hand}/$(guest_id "$1")/$(vdev_number "$2")"
}

# hand_make NAME VDEV [KEY=VALUE|front:KEY=VALUE]...: makes a device whose backend is nothing but
# keys in xenstore. The guest sees it when its state is written, which is last. With $hand_type=vbd
# the backend driver of dom0 sees it, too.
hand_make() {
	local name=$1 vdev=$2 id front back pairs=() word
	shift 2
	id=$(guest_id "$name")
	front=$(frontend_path "$name" "$vdev")
	back=$(hand_path "$name" "$vdev")
	pairs=("$back/frontend" "$front" "$back/frontend-id" "$id" "$back/online" 1
		"$front/backend" "$back" "$front/backend-id" 0 "$front/device-type" disk
		"$front/virtual-device" "$(vdev_number "$vdev")")
	for word; do
		case $word in
		front:*) pairs+=("$front/$(cut -d: -f2- <<<"${word%%=*}")" "${word#*=}") ;;
		*) pairs+=("$back/${word%%=*}" "${word#*=}") ;;
		esac
	done
	xenstore-write "$front" '' "$back" '' &&
		xenstore-chmod "$front" "n$id" r0 && xenstore-chmod "$back" n0 "r$id" &&
		xenstore-write -- "${pairs[@]}" "$back/state" 1 "$front/state" 1
}

# hand_state NAME VDEV STATE [KEY=VALUE...]: writes keys and then the backend's state.
hand_state() {
	local back state=$3 pairs=() word
	back=$(hand_path "$1" "$2")
	shift 3
	for word; do
		pairs+=("$back/${word%%=*}" "${word#*=}")
	done
	xenstore-write -- "${pairs[@]}" "$back/state" "$state"
}

# hand_remove NAME VDEV...: removes devices; whether the guest then has none of them.
hand_remove() {
	local name=$1 vdev devices=''
	shift
	for vdev; do
		xenstore-rm "$(frontend_path "$name" "$vdev")"
		xenstore-rm "$(hand_path "$name" "$vdev")"
		xenstore-rm "$(guest_home "$name")/error/device/vbd/$(vdev_number "$vdev")" 2>/dev/null
		devices="$devices vbd-$(vdev_number "$vdev")"
	done
	guest_run "$name" "cd /sys/bus/xen/devices
		for i in {1..200}; do ls -d $devices 2>/dev/null | grep -q . || exit 0; sleep 0.1; done
		ls -d $devices; exit 1"
}

xs_state_in() {
	[[ " $2 " == *" $(xs_state "$1") "* ]]
}

# hand_connect NAME VDEV KEY=VALUE...: walks a device's backend from its first state to connected,
# with these keys written last.
hand_connect() {
	hand_state "$1" "$2" 2 && front_reaches "$1" "$2" 3 && hand_state "$1" "$2" 4 "${@:3}"
}

# front_reaches NAME VDEV STATE...: whether the guest's driver gets to one of the states in time.
front_reaches() {
	local front
	front=$(frontend_path "$1" "$2")
	if ! wait_for 20 xs_state_in "$front" "${*:3}"; then
		ktap_print_msg "$2 is in state $(xs_state "$front"), not in ${*:3}"
		return 1
	fi
}
