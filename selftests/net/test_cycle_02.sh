#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N31, N44: the same as cycle_01, a hundred times.
# pairs: rust/rust
# control: rust/c c/rust
# allow-console: xennet_disconnect_backend
# tier: long
# timeout: 1500

# shellcheck disable=SC2034 # used there
rounds=100
# shellcheck source=selftests/net/test_cycle_01.sh
. ./test_cycle_01.sh
