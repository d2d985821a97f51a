#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N31: the same as domain_01, with fifty changes of the backend domain.
# pairs: rust/rust
# control: rust/c c/rust
# allow-console: xennet_disconnect_backend
# tier: long
# timeout: 1500

# shellcheck disable=SC2034 # used there
changes=50
# shellcheck source=selftests/net/test_domain_01.sh
. ./test_domain_01.sh
