#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The same while data passes: nothing is lost or damaged (cases N04, N07).
# control: rust/rust rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 3
share_guest
attach_new
ethtool -K "$back" gro on >/dev/null 2>&1

# toggle: changes what it can for as long as nobody stops it.
toggle() {
	while :; do
		for feature in tso sg tx gro; do
			guest_run n "ethtool -K $node $feature off"
			ethtool -K "$back" $feature off
		done
		for feature in gro tx sg tso; do
			guest_run n "ethtool -K $node $feature on"
			ethtool -K "$back" $feature on
		done
	done >/dev/null 2>&1
}

toggle &
toggler=$!
ktap_test "to the guest" to_guest 32
ktap_test "from the guest" from_guest 32
kill $toggler
wait $toggler 2>/dev/null
guest_run n "ethtool -K $node tx on sg on tso on gro on" >/dev/null
ktap_test "it works afterwards" from_guest 8
ktap_finished
