#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Frontends that transmit what they must not: packets of too many pieces (case N03), split headers (case N14),
# requests that change while they are read (case N15), lies of all kinds, states in no order. The backend goes on
# with those that can be put up with, and closes the others' interface; it says so; nothing of them is left, and
# other guests are not affected.
# pairs: rust/rust
# tier: long
# timeout: 900

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/rogue.sh
. ./rogue.sh
mapfile -t attacks < <(rogue_attacks works closes gone)
[ ${#attacks[@]} -gt 0 ] || ktap_exit_fail_msg "rogue-netfront knows no attacks"
ktap_set_plan $((${#attacks[@]} + 4))
share_guest

lines_of() {
	dmesg | grep -c -- "$1"
}

complaints=$(lines_of request-multicast-control)
for attack in "${attacks[@]}"; do
	read -r name expected <<<"$attack"
	ktap_test "$name: $expected" rogue_attack "$name"
done
ktap_test "a guest cannot fill the log" test "$(($(lines_of request-multicast-control) - complaints))" -le 2
# Once more, to see whether something is left of each. Some take their time.
before=$(rogue_memory)
again=0
for attack in "${attacks[@]}"; do
	case ${attack% *} in
	events | change | storm | junk) ;;
	*) rogue_attack "${attack% *}" || again=1 ;;
	esac
done
ktap_test "most of them once more" test $again = 0
after=$(rogue_memory)
ktap_test "dom0's memory ($before KiB, then $after KiB)" test $((after - before)) -lt 2048
ktap_test "a good frontend works after all that" a_good_one
ktap_finished
