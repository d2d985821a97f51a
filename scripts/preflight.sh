#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# preflight.sh [--headers] KDIR: says in one sentence why modules in Rust cannot be
# built for the kernel whose build tree is KDIR, and what to do about it. Silent,
# but for notes, when they can.
#
# With --headers, KDIR need not have Rust metadata yet: whoever calls makes it, and
# means to replace the C drivers, so that one that is built in is a reason, too.
set -eu

headers=
if [ "${1:-}" = --headers ]; then
	headers=yes
	shift
fi
kdir=${1:?usage: preflight.sh [--headers] KDIR}
rustc=${RUSTC:-rustc}
bindgen=${BINDGEN:-bindgen}

fail() {
	echo "preflight: $*" >&2
	exit 1
}

note() {
	echo "preflight: note: $*" >&2
}

# option NAME: the value of a configuration option, without quotes.
option() {
	sed -n "s/^CONFIG_$1=//p" "$config" | sed 's/^"\(.*\)"$/\1/'
}

# hashes FILE: the hashes of the crate `kernel` in the mangled names in a file.
hashes() {
	sed -n 's/.*Cs\([0-9A-Za-z]*\)_6kernel.*/\1/p' "$1" | sort -u
}

# version NUMBER: 1.85.1 from 108501.
version() {
	echo "$(($1 / 100000)).$(($1 / 100 % 1000)).$(($1 % 100))"
}

config=
for file in "$kdir/include/config/auto.conf" "$kdir/.config"; do
	if [ -f "$file" ]; then
		config=$file
		break
	fi
done
if ! [ -f "$kdir/Makefile" ] || [ -z "$config" ]; then
	fail "$kdir is not the build tree of a kernel: install the headers of your kernel" \
		"(Debian: linux-headers-$(uname -r)) or name another tree with KDIR=."
fi

release=unknown
[ ! -f "$kdir/include/config/kernel.release" ] ||
	read -r release <"$kdir/include/config/kernel.release"

[ "$(option RUST)" = y ] ||
	fail "kernel $release was configured without CONFIG_RUST, so no module in Rust can be" \
		"loaded into it: use a kernel that has it (Debian 13: linux-image-amd64 from" \
		"trixie-backports)."
[ -n "$(option XEN_XENBUS_FRONTEND)$(option XEN_BACKEND)" ] ||
	fail "kernel $release was configured without Xen's buses (CONFIG_XEN_XENBUS_FRONTEND," \
		"CONFIG_XEN_BACKEND), so there is nothing that these drivers could bind to: use a" \
		"kernel that has one."
for driver in XEN_BLKDEV_FRONTEND XEN_NETDEV_FRONTEND XEN_BLKDEV_BACKEND XEN_NETDEV_BACKEND; do
	if [ "$(option $driver)" = y ]; then
		why="kernel $release has its C driver built in (CONFIG_$driver=y), which no module can replace"
		[ -z "$headers" ] || fail "$why."
		note "$why."
	fi
done

number=$(option RUSTC_VERSION)
built=$(option RUSTC_VERSION_TEXT)
[ -n "$built" ] || built="rustc $(version "${number:-0}")"

# has_metadata: whether the tree can be built against as it is.
has_metadata() {
	[ -f "$kdir/rust/libkernel.rmeta" ] && [ -f "$kdir/rust/libcore.rmeta" ] &&
		[ -f "$kdir/rust/libmacros.so" ]
}

if [ -z "$headers" ] && ! has_metadata; then
	series=$(echo "$release" | sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p')
	wanted="rustc $(version "${number:-0}"), its rust-src and bindgen"
	if [ -f "$kdir/Kbuild" ] && [ -d "$kdir/rust/kernel" ]; then
		fail "the kernel source in $kdir is not prepared for modules in Rust" \
			"(no rust/libkernel.rmeta): with $wanted installed," \
			"run make prepare modules_prepare there."
	fi
	fail "$kdir has no Rust metadata (rust/libkernel.rmeta), as Debian's linux-headers have" \
		"none: unpack the source of the very same kernel, $release" \
		"(Debian: linux-source-${series:-*}), copy .config and Module.symvers of $kdir" \
		"into it, install $wanted, run make KERNELRELEASE=$release olddefconfig" \
		"prepare modules_prepare there, and build with KDIR= naming that folder."
fi

found=$($rustc --version 2>/dev/null) ||
	fail "there is no $rustc: install the one that kernel $release was built with, $built."
[ "$found" = "$built" ] || [ "${found%% (*}" = "$built" ] ||
	fail "kernel $release was built with $built, but $rustc is $found: install the former" \
		"and name it with RUSTC=."
$bindgen --version >/dev/null 2>&1 ||
	fail "there is no $bindgen: install bindgen (Debian: the package bindgen)" \
		"or name it with BINDGEN=."
[ -z "$headers" ] || has_metadata || exit 0

symvers=$kdir/Module.symvers
[ -f "$symvers" ] ||
	fail "$kdir has no Module.symvers, the list of what kernel $release exports: copy it from" \
		"the kernel's headers (Debian: /usr/src/linux-headers-$release)."
theirs=$(hashes "$symvers")
[ -n "$theirs" ] ||
	fail "$symvers has no symbol of the Rust crate \`kernel\`, so it is not that of" \
		"kernel $release: copy it from the kernel's headers."
exports=$kdir/rust/exports_kernel_generated.h
if [ -f "$exports" ]; then
	ours=$(hashes "$exports")
	[ "$ours" = "$theirs" ] ||
		fail "the Rust crate \`kernel\` in $kdir ($ours) is not the one that kernel $release" \
			"was built with ($theirs), so no module would load: prepare a source tree of the" \
			"same version, .config, KERNELRELEASE and compilers."
else
	note "$exports is missing, so nobody has compared the Rust crate with the kernel's."
fi

[ "$(option MODVERSIONS)" = y ] ||
	note "kernel $release has no CONFIG_MODVERSIONS: it will not notice modules that were" \
		"built for another configuration of it."
