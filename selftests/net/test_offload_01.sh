#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Offloads can be turned off and on while data passes, at either end and in any combination, and the data stays
# what it is (cases N04, N07).
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 10
share_guest
attach_new

for features in "tso off" "tso on gso off" "tx off" "tx on sg off" "sg on tso on gso on gro off"; do
	guest_run n "ethtool -K $node $features" || ktap_print_msg "guest: $features"
	ktap_test "guest: $features, to it" to_guest 8
	ktap_test "guest: $features, from it" from_guest 8
done
ktap_finished
