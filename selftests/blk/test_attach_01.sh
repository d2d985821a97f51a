#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Devices that go before they are connected, at each step on the way there, leave nothing behind and
# do not keep the next one from working.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
disk=$(make_disk 16)

hasty() {
	local round
	for round in 1 2 3 4 5 6 7 8 9 10; do
		disk_attach g "phy:$disk,xvdb,w" nowait || return
		if [ $((round % 3)) = 0 ]; then
			disk_detach g xvdb force || return
		else
			disk_detach g xvdb || return
		fi
	done
	no_trace g xvdb
}
ktap_test "detached as soon as attached, ten times" hasty
ktap_test "then a disk works" attach_works g xvdb
disk_detach g xvdb

# Faster than the toolstack: the folders are removed at once, with the device in each state.
vanishing() {
	local round state
	for round in 1 2; do
		for state in 1 2 4 5 6; do
			hand_make g xvdc && hand_state g xvdc $state && hand_remove g xvdc || return
		done
	done
	no_trace g xvdc
}
ktap_test "removed in each state of the backend" vanishing

# The backend closes before anything was agreed on.
closing() {
	local state
	for state in 5 6; do
		hand_make g xvdc && hand_state g xvdc 2 && front_reaches g xvdc 3 &&
			hand_state g xvdc $state && front_reaches g xvdc 6 && hand_remove g xvdc || return
	done
}
ktap_test "closed before it was connected" closing
ktap_test "then a disk works in its place" attach_works g xvdc
ktap_finished
