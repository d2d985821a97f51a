#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Backends that change their state, their size or their mind at odd moments.
# pairs: rust/c
# timeout: 900
# tier: long
# allow-console: WARNING: g\.e\. 0x[0-9a-f]+ still in use

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/blk/rogue.sh
. ./rogue.sh
rogue_campaign states teardown
ktap_finished
