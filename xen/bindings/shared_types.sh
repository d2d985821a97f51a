#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# shared_types.sh BINDINGS: prints, as one regular expression for bindgen's
# --blocklist-type, the types that the kernel crate's generated bindings have.
# Types that are only declared there and whose content this crate needs are
# named below: they get a definition of our own. A kernel that was prepared without rustfmt has all of its bindings
# in one line.

set -e
own="hd_geometry|net_device|napi_struct|page_pool|ethtool_ops"
grep -oE '\bpub (struct|union|type) [A-Za-z_0-9]+' "$1" | sed 's/.* //' |
	grep -vxE "$own" | LC_ALL=C sort -u | paste -sd '|' -
