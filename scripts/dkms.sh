#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms.sh check|build RELEASE HEADERS: what DKMS has done for a kernel.
# dkms.sh clean: removes what was built.
#
# Where the kernel's headers have its Rust metadata, modules are built against them. Debian's have none: there a
# source tree of the very same version, out of the package linux-source-*, is configured alike and prepared, which
# yields the same metadata. That takes a few minutes, and is kept in /var/cache/xen-pv-rust for the next build.
set -euo pipefail
# Otherwise a tree whose preparation has failed would pass for a good one.
shopt -s inherit_errexit

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cache=${XEN_PV_RUST_TREES:-/var/cache/xen-pv-rust}
sources=${XEN_PV_RUST_SOURCES:-/usr/src}
# What a build of modules does not look at: most of the source.
useless="Documentation arch/[!x]* arch/xtensa block certs crypto drivers fs init io_uring ipc lib mm net samples security
sound tools/testing tools/perf usr virt"

fail() {
	echo "xen-pv-rust: $*" >&2
	exit 1
}

# option NAME: an option of the kernel's configuration, without quotes.
option() {
	local file=$headers/.config
	[ -f "$file" ] || file=$headers/include/config/auto.conf
	sed -n "s/^CONFIG_$1=//p" "$file" | sed 's/^"\(.*\)"$/\1/'
}

# The compiler that the kernel was built with, or the nearest that there is.
compiler() {
	local word
	word=$(option CC_VERSION_TEXT)
	word=${word%% *}
	for word in "$word" "${word#x86_64-linux-gnu-}" gcc; do
		if command -v "$word" >/dev/null; then
			echo "$word"
			return
		fi
	done
}

# version_of PACKAGE: the version of a Debian package that is installed.
version_of() {
	dpkg-query -W -f '${Version}' "$1" 2>/dev/null
}

# source_archive: the source of this very kernel; says what to install if it is not there.
source_archive() {
	local series wanted found archive
	series=$(sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p' <<<"$release")
	archive=$sources/linux-source-$series.tar.xz
	[ -f "$archive" ] || fail "the headers of kernel $release have no Rust metadata, and there is no $archive to make it" \
		"from: install the package linux-source-$series."
	wanted=$(version_of "linux-headers-$release") || wanted=
	found=$(version_of "linux-source-$series") || found=
	[ -z "$wanted" ] || [ "$wanted" = "$found" ] || fail "kernel $release is of version $wanted, but linux-source-$series" \
		"of ${found:-no known one}: install linux-source-$series=$wanted."
	echo "$archive"
}

# tree: the folder to build against, which is prepared if need be.
tree() {
	if [ -f "$headers/rust/libkernel.rmeta" ]; then
		echo "$headers"
		return
	fi
	local place=$cache/$release
	if ! [ -f "$place/ready" ] || ! cmp -s "$headers/Module.symvers" "$place/source/Module.symvers"; then
		prepare "$place" >&2
	fi
	echo "$place/source"
}

prepare() {
	local archive make jobs
	archive=$(source_archive)
	jobs=$(nproc)
	rm -rf "$1"
	mkdir -p "$1/source"
	echo "preparing the source of kernel $release"
	tar -xf "$archive" -C "$1/source" --strip-components=1 --no-same-owner
	cp "$headers/.config" "$1/source/.config"
	make=(make -C "$1/source" "CC=$(compiler)" "KERNELRELEASE=$release")
	"${make[@]}" olddefconfig
	"${make[@]}" "-j$jobs" prepare modules_prepare
	cp "$headers/Module.symvers" "$1/source/"
	# shellcheck disable=SC2086 # patterns
	(cd "$1/source" && rm -rf $useless)
	touch "$1/ready"
}

# Everything that can be seen before a tree is prepared.
check() {
	local driver built found
	[ -f "$headers/.config" ] || [ -f "$headers/include/config/auto.conf" ] ||
		fail "there are no headers of kernel $release in $headers: install them (Debian: linux-headers-$release)."
	[ "$(option RUST)" = y ] || fail "kernel $release was configured without CONFIG_RUST, so that it goes on with the C" \
		"drivers: nothing was changed."
	for driver in XEN_BLKDEV_FRONTEND XEN_NETDEV_FRONTEND XEN_BLKDEV_BACKEND XEN_NETDEV_BACKEND; do
		[ "$(option $driver)" != y ] || fail "kernel $release has its C driver built in (CONFIG_$driver=y), which no" \
			"module can replace: nothing was changed."
	done
	built=$(option RUSTC_VERSION_TEXT)
	found=$(rustc --version 2>/dev/null) ||
		fail "there is no rustc: install ${built:-the one that kernel $release was built with}."
	[ -z "$built" ] || [ "$found" = "$built" ] || [ "${found%% (*}" = "${built%% (*}" ] ||
		fail "kernel $release was built with $built, but there is $found: nothing was changed." \
			"Install the former, with its rust-src."
	command -v bindgen >/dev/null || fail "there is no bindgen: install it (Debian: the package bindgen)."
	[ -f "$headers/rust/libkernel.rmeta" ] || [ -f "$cache/$release/ready" ] || source_archive >/dev/null
}

build() {
	local kdir
	check
	kdir=$(tree)
	make -C "$here" "KDIR=$kdir" "CC=$(compiler)" "KERNELRELEASE=$release" "-j$(nproc)" modules
}

command=${1:?usage: dkms.sh check|build RELEASE HEADERS}
release=${2:-}
headers=${3:-}
case $command in
check | build) "$command" ;;
clean)
	# The tree that it was built against may not be there any more.
	find "$here" \( -name '*.ko' -o -name '*.o' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' -o \
		-name '*.rmeta' \) -delete
	;;
*) fail "$command is none of check, build and clean" ;;
esac
