#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Keys in xenstore that make no sense: the device is refused, an error node names the key, and
# other disks are not affected. The C driver takes no notice of some, and of none to the letter.
# The devices have no sectors, so that nobody reads them: their backends are keys and nothing else.
# drivers: rust c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What is written over what makes sense; front: the device's own folder. The key is what the error
# has to name.
long=$(printf 'A%.0s' {1..1500})
begin=(front:virtual-device=junk front:virtual-device=99999 front:virtual-device=4026531840
	front:virtual-device=-1 multi-queue-max-queues=junk multi-queue-max-queues=-1
	max-ring-page-order=4294967296 "max-ring-page-order=$long")
connect=(sectors=junk sectors=-1 sectors=18446744073709551615 sectors=99999999999999999999999999
	"sectors=$long" sector-size=0 sector-size=513 sector-size=65536 sector-size=4294967808
	physical-sector-size=junk physical-sector-size=256 physical-sector-size=3000
	info=junk info=0x4 feature-flush-cache=junk feature-barrier=-1)
ktap_set_plan $((${#begin[@]} + ${#connect[@]} + 5))
share_guest
attach_new g xvdb 16

# Whether the error names the key, and the driver has given the device up.
refused() {
	wait_for 10 error_says g xvdd "${word%%=*}" && front_reaches g xvdd 5 6 && has_no_node g xvdd
}

# What becomes of the device that has $word among its keys; removes it again.
try() {
	local what=${word#front:}
	word=$what
	beyond_c "it believes much of what it reads" "${what:0:50}" refused
	hand_remove g xvdd || ktap_exit_fail_msg "the device cannot be removed"
}

for word in "${begin[@]}"; do
	hand_make g xvdd multi-queue-max-queues=1 max-ring-page-order=0 "$word"
	hand_state g xvdd 2
	try
done
for word in "${connect[@]}"; do
	hand_make g xvdd
	hand_state g xvdd 2
	front_reaches g xvdd 3
	hand_state g xvdd 4 sectors=0 sector-size=512 info=0 "$word"
	try
done

# Missing keys.
for key in sectors sector-size info; do
	word=$key
	hand_make g xvdd
	hand_state g xvdd 2
	front_reaches g xvdd 3
	keys=(sectors=0 sector-size=512 info=0)
	mapfile -t keys < <(printf '%s\n' "${keys[@]}" | grep -v "^$key=")
	hand_state g xvdd 4 "${keys[@]}"
	try
done

# Many queues and large rings are no junk: as much is used as both sides allow.
hand_make g xvdd multi-queue-max-queues=4294967295 max-ring-page-order=4294967295
hand_state g xvdd 2
ktap_test "more than needed is taken" front_reaches g xvdd 3
hand_remove g xvdd
ktap_test "another disk works" disk_works g xvdb
ktap_finished
