#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Backends that lie on the ring lose their disk, or are put up with; the guest
# lives. Some keep the pages that they were lent (case B25).
# pairs: rust/c
# timeout: 900
# tier: long
# allow-console: WARNING: g\.e\. 0x[0-9a-f]+ still in use

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# shellcheck source=selftests/blk/rogue.sh
. ./rogue.sh
rogue_campaign ring
ktap_finished
