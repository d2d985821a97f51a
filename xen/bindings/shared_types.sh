#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# shared_types.sh BINDINGS: prints, as one regular expression for bindgen's
# --blocklist-type, the types that the kernel crate's generated bindings define
# in full. A type that is only a stub there (its single field is `_unused` or
# `_address`) is left out: it needs a definition of our own.

set -e
awk '
/^ *pub (struct|union) [A-Za-z_0-9]+/ {
	name = $3
	sub(/[^A-Za-z_0-9].*/, "", name)
	next
}
name != "" {
	if ($0 !~ /_unused|_address/)
		print name
	name = ""
}
/^ *pub type [A-Za-z_0-9]+ *=/ { print $3 }
' "$1" | LC_ALL=C sort -u | paste -sd '|' -
