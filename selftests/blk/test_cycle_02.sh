#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The same as cycle_01, a hundred times.
# pairs: rust/rust
# control: rust/c c/rust
# tier: long
# timeout: 1200

rounds=100
# shellcheck source=selftests/blk/test_cycle_01.sh
. ./test_cycle_01.sh
