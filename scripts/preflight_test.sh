#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tests preflight.sh on made-up build trees that lack one thing each.
# Prints KTAP.
set -eu
unset RUSTC BINDGEN

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

text="rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
hash=b5MLIFMWygY
count=0
failed=0
# What preflight.sh is given before the tree.
mode=

# program NAME TEXT: makes a program that prints a text.
program() {
	printf '#!/bin/sh\necho "%s"\n' "$2" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}

# A build tree and tools with which everything is in order.
reset() {
	rm -rf "${work:?}/kdir" "${work:?}/bin"
	mkdir -p "$work/bin" "$work/kdir/include/config" "$work/kdir/rust"
	program rustc "$text"
	program bindgen "bindgen 0.71.1"
	: >"$work/kdir/Makefile"
	echo 7.3.4+deb13-amd64 >"$work/kdir/include/config/kernel.release"
	cat >"$work/kdir/include/config/auto.conf" <<-CONF
		CONFIG_RUST=y
		CONFIG_RUSTC_VERSION=108501
		CONFIG_RUSTC_VERSION_TEXT="$text"
		CONFIG_XEN=y
		CONFIG_XEN_XENBUS_FRONTEND=y
		CONFIG_MODVERSIONS=y
	CONF
	for file in libkernel.rmeta libcore.rmeta libmacros.so; do
		: >"$work/kdir/rust/$file"
	done
	printf '0x0\t_RNvNtCs%s_6kernel5print\tvmlinux\tEXPORT_SYMBOL_GPL\t\n' "$hash" \
		>"$work/kdir/Module.symvers"
	echo "EXPORT_SYMBOL_RUST_GPL(_RNvNtCs${hash}_6kernel5print);" \
		>"$work/kdir/rust/exports_kernel_generated.h"
}

# drop OPTION: takes an option out of the configuration.
drop() {
	sed -i "/^CONFIG_$1=/d" "$work/kdir/include/config/auto.conf"
}

# expect NAME STATUS WORDS...: runs preflight.sh, which must end with a status
# and print all of the words in a single line, or nothing if there are none.
expect() {
	name=$1
	wanted=$2
	shift 2
	status=0
	# shellcheck disable=SC2086 # a word, or none
	PATH="$work/bin:$PATH" "$here/preflight.sh" $mode "$work/kdir" >"$work/output" 2>&1 ||
		status=$?
	why=
	[ "$status" = "$wanted" ] || why="exit status $status, not $wanted"
	lines=$(wc -l <"$work/output")
	if [ $# = 0 ]; then
		[ "$lines" = 0 ] || why="something was printed"
	else
		[ "$lines" = 1 ] || why="$lines lines were printed"
	fi
	for words; do
		grep -qF -- "$words" "$work/output" || why="no word of \"$words\""
	done
	count=$((count + 1))
	if [ -z "$why" ]; then
		echo "ok $count preflight: $name"
	else
		echo "not ok $count preflight: $name"
		echo "# $why"
		sed 's/^/# /' "$work/output"
		failed=$((failed + 1))
	fi
}

echo "KTAP version 1"

reset
expect "everything in order" 0

reset
program rustc "rustc 1.85.1"
sed -i 's/^CONFIG_RUSTC_VERSION_TEXT=.*/CONFIG_RUSTC_VERSION_TEXT="rustc 1.85.1"/' \
	"$work/kdir/include/config/auto.conf"
expect "a short version text" 0

reset
mv "$work/kdir/include/config/auto.conf" "$work/kdir/.config"
expect "only a .config" 0

reset
rm -r "$work/kdir"
expect "no build tree" 1 "$work/kdir is not the build tree" "linux-headers-$(uname -r)"

reset
drop RUST
expect "a kernel without Rust" 1 "7.3.4+deb13-amd64 was configured without CONFIG_RUST,"

reset
drop XEN_XENBUS_FRONTEND
expect "a kernel without Xen" 1 "without Xen's buses"

for lost in libkernel.rmeta libcore.rmeta libmacros.so; do
	reset
	rm "$work/kdir/rust/$lost"
	expect "no $lost, as in Debian's headers" 1 "has no Rust metadata" linux-source-7.3 \
		"the very same kernel, 7.3.4+deb13-amd64" "rustc 1.85.1, its rust-src and bindgen" \
		"prepare modules_prepare"
done

reset
rm "$work/kdir/rust/libkernel.rmeta"
mkdir "$work/kdir/rust/kernel"
: >"$work/kdir/Kbuild"
expect "a source that is not prepared" 1 "is not prepared for modules in Rust" \
	"rustc 1.85.1, its rust-src and bindgen" "make prepare modules_prepare"

reset
program rustc "rustc 1.95.0 (f2d3ce0bd 2026-03-21)"
expect "a newer rustc" 1 "was built with $text, but rustc is rustc 1.95.0 (f2d3ce0bd 2026-03-21)"

reset
program rustc "rustc 1.85.1 (4eb161250 2025-03-15)"
expect "another build of the same rustc" 1 "was built with $text, but rustc is rustc 1.85.1 (4e"

reset
printf '#!/bin/sh\nexit 127\n' >"$work/bin/rustc"
expect "no rustc" 1 "there is no rustc" "$text"

reset
printf '#!/bin/sh\nexit 127\n' >"$work/bin/bindgen"
expect "no bindgen" 1 "there is no bindgen" "the package bindgen"

reset
rm "$work/kdir/Module.symvers"
expect "no Module.symvers" 1 "has no Module.symvers" /usr/src/linux-headers-7.3.4+deb13-amd64

reset
printf '0x0\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n' >"$work/kdir/Module.symvers"
expect "a Module.symvers without Rust" 1 "no symbol of the Rust crate"

reset
sed -i "s/$hash/aAaAaAaAaA/" "$work/kdir/rust/exports_kernel_generated.h"
expect "another crate" 1 "(aAaAaAaAaA) is not the one" "($hash)"

reset
rm "$work/kdir/rust/exports_kernel_generated.h"
expect "a crate that cannot be compared" 0 "note:" "exports_kernel_generated.h is missing"

reset
drop MODVERSIONS
expect "no versions of symbols" 0 "note:" "CONFIG_MODVERSIONS"

for driver in XEN_BLKDEV_FRONTEND XEN_NETDEV_FRONTEND XEN_BLKDEV_BACKEND XEN_NETDEV_BACKEND; do
	reset
	echo "CONFIG_$driver=y" >>"$work/kdir/include/config/auto.conf"
	expect "a built-in driver may stay, $driver" 0 "note:" "(CONFIG_$driver=y)"
	mode=--headers
	expect "a built-in driver leaves no room, $driver" 1 "(CONFIG_$driver=y), which no module can replace"
	mode=
done

mode=--headers
reset
rm -r "$work/kdir/rust" "$work/kdir/Module.symvers"
expect "headers only, from which a tree can be made" 0
program rustc "rustc 1.95.0 (f2d3ce0bd 2026-03-21)"
expect "headers only, and another rustc" 1 "was built with $text, but rustc is rustc 1.95.0"
reset
rm -r "$work/kdir/rust"
drop RUST
expect "headers only, without Rust" 1 "was configured without CONFIG_RUST,"
reset
rm "$work/kdir/Module.symvers"
expect "headers with metadata must be whole" 1 "has no Module.symvers"

echo "1..$count"
[ $failed = 0 ]
