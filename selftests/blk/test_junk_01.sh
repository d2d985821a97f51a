#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Keys in xenstore that make no sense: the device is refused, an error node names the key, and
# other disks are not affected. The C driver takes no notice of most, hence no run with it.
# The devices have no sectors, so that nobody reads them: their backends are keys and nothing else.
# pairs: rust/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What is written over what makes sense; front: the device's own folder. The error has to name the
# key. An empty key is as good as a missing one.
long=$(printf 'A%.0s' {1..1500})
begin=(front:virtual-device=junk front:virtual-device=99999 front:virtual-device=4026531840
	front:virtual-device=-1 multi-queue-max-queues=junk multi-queue-max-queues=-1
	max-ring-page-order=4294967296 "max-ring-page-order=$long")
connect=(sectors=junk sectors=-1 sectors=18446744073709551615 sectors=99999999999999999999999999
	"sectors=$long" sector-size=0 sector-size=513 sector-size=65536 sector-size=4294967808
	physical-sector-size=junk physical-sector-size=256 physical-sector-size=3000
	info=junk info=0x4 feature-flush-cache=junk feature-barrier=-1 feature-discard=junk
	discard-granularity=junk discard-granularity=513 discard-alignment=-1 discard-secure=junk
	feature-max-indirect-segments=junk feature-persistent=2x sectors= sector-size= info=)
ktap_set_plan $((${#begin[@]} + ${#connect[@]} + 3))
share_guest
attach_new g xvdb 16

index=0
for word in "${begin[@]}" "${connect[@]}"; do
	index=$((index + 1))
	vdevs[index]=$((51712 + 16 * (index + 1)))
	[ $index -lt 14 ] || vdevs[index]=$(((1 << 28) + 256 * (index + 2)))
	if [ $index -le ${#begin[@]} ]; then
		hand_make g "${vdevs[index]}" "$word"
		hand_state g "${vdevs[index]}" 2
	else
		hand_make g "${vdevs[index]}"
		hand_connect g "${vdevs[index]}" sectors=0 sector-size=512 info=0 \
			feature-discard=1 "$word"
	fi
done

# refused KEY VDEV: whether the error names the key, and the driver has given the device up.
refused() {
	wait_for 10 error_says g "$2" "$1" && front_reaches g "$2" 5 6
}

index=0
for word in "${begin[@]#front:}" "${connect[@]}"; do
	index=$((index + 1))
	ktap_test "${word:0:50}" refused "${word%%=*}" "${vdevs[index]}"
done
ktap_equal "there is no disk but the other one" xvdb "$(guest_run g "cd /sys/block && echo xvd*")"
ktap_test "it works" disk_works g xvdb
ktap_test "all are removed" hand_remove g "${vdevs[@]}"
ktap_finished
