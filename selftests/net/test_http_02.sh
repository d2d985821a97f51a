#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The same with 1 GiB.
# pairs: rust/rust
# control: c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 900

total=1024
# shellcheck source=selftests/net/test_http_01.sh
. ./test_http_01.sh
