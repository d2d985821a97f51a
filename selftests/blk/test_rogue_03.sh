#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Backends that offer what makes no sense.
# pairs: rust/c
# timeout: 900
# tier: long
# allow-console: WARNING: g\.e\. 0x[0-9a-f]+ still in use

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/blk/rogue.sh
. ./rogue.sh
rogue_campaign keys
ktap_finished
