#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N37: the same as restore_02, a hundred times.
# pairs: rust/rust
# control: rust/c c/rust
# allow-console: xennet_disconnect_backend
# tier: long
# timeout: 3000

# shellcheck disable=SC2034 # used there
rounds=100
# shellcheck source=selftests/net/test_restore_02.sh
. ./test_restore_02.sh
