#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Frontends that write what makes no sense: no queue or too many, queues without a directory, the same ring or
# channel twice, references and channels that nobody has (case N42). The backend refuses, says why, and goes on.
# pairs: rust/rust
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/rogue.sh
. ./rogue.sh
mapfile -t attacks < <(rogue_attacks refuses)
[ ${#attacks[@]} -gt 0 ] || ktap_exit_fail_msg "rogue-netfront knows no attacks"
ktap_set_plan $((${#attacks[@]} + 1))
share_guest
for attack in "${attacks[@]}"; do
	name=${attack% *}
	ktap_test "$name" rogue_attack "$name"
done
ktap_test "a good frontend works after all that" a_good_one
ktap_finished
