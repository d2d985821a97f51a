#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Frontends that offer one, two or four frames, as boot loaders do (case N12), and those that send no events when
# they offer some: packets arrive with as many frames as one of them takes.
# pairs: rust/rust
# timeout: 200

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/rogue.sh
. ./rogue.sh
attacks=(few-1 few-2 few-4 large silent)
ktap_set_plan ${#attacks[@]}
for name in "${attacks[@]}"; do
	ktap_test "$name" rogue_attack "$name"
done
ktap_finished
