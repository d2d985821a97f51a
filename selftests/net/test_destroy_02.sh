#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N33: the same as destroy_01, fifty times.
# pairs: rust/rust
# control: c/rust
# tier: long
# timeout: 3000

# shellcheck disable=SC2034 # used there
rounds=50
# shellcheck source=selftests/net/test_destroy_01.sh
. ./test_destroy_01.sh
