#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# dkms.sh check|build RELEASE HEADERS: what DKMS has done for a kernel, before it makes anything of its own.
# dkms.sh installed|removed RELEASE: what is left to do after DKMS has installed the drivers for a kernel, or removed
# them.
# dkms.sh clean: removes what was built.
#
# A kernel for which nothing can be built goes on with its C drivers. That is no error, which would leave the package,
# or the kernel's, half installed: exit status 77 has DKMS skip the kernel, and why is kept for `report`.
#
# Where the kernel's headers have its Rust metadata, modules are built against them. Debian's have none: there a
# source tree of the very same version, out of the package linux-source-*, is configured alike and prepared, which
# yields the same metadata. That takes a few minutes, and is kept in /var/cache/xen-pv-rust for the next build.
set -euo pipefail
# Otherwise a tree whose preparation has failed would pass for a good one.
shopt -s inherit_errexit

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
cache=${XEN_PV_RUST_TREES:-/var/cache/xen-pv-rust}
# Of DKMS.
SKIP=77
sources=${XEN_PV_RUST_SOURCES:-/usr/src}
dkms=${XEN_PV_RUST_DKMS:-/var/lib/dkms/xen-pv-rust}
# What a build of modules does not look at: most of the source.
useless="Documentation arch/[!x]* arch/xtensa block certs crypto drivers fs init io_uring ipc lib mm net samples security
sound tools/testing tools/perf usr virt"

# decline REASON...: ends, and leaves the kernel alone.
decline() {
	echo "xen-pv-rust: $*" >&2
	if [ "$command" = build ]; then
		mkdir -p "$cache/reasons"
		echo "$*" >"$cache/reasons/$release"
	fi
	exit $SKIP
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
	[ -f "$archive" ] || decline "the headers of kernel $release have no Rust metadata, and there is no $archive to make it" \
		"from: install the package linux-source-$series."
	wanted=$(version_of "linux-headers-$release") || wanted=
	found=$(version_of "linux-source-$series") || found=
	[ -z "$wanted" ] || [ "$wanted" = "$found" ] || decline "kernel $release is of version $wanted, but linux-source-$series" \
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
	local said series
	series=$(sed -n 's/^\([0-9]*\.[0-9]*\).*/\1/p' <<<"$release")
	grep -qxF "$series" "$here/scripts/kernels" || decline "kernel $release is none of those that the drivers are made" \
		"for: $(grep -v '^#' "$here/scripts/kernels" | paste -sd ' ')."
	said=$("$here/scripts/preflight.sh" --headers "$headers" 2>&1) || decline "${said#preflight: }"
	[ -f "$headers/rust/libkernel.rmeta" ] || [ -f "$cache/$release/ready" ] || source_archive >/dev/null
}

build() {
	local kdir
	rm -f "$cache/reasons/$release"
	check
	# shellcheck disable=SC2154 # assigned when it runs
	trap 'status=$?; [ $status = 0 ] || [ $status = $SKIP ] ||
		decline "the build for kernel $release failed (exit status $status), see ${PWD%/}/make.log."' EXIT
	kdir=$(tree)
	make -C "$here" "KDIR=$kdir" "CC=$(compiler)" "KERNELRELEASE=$release" "-j$(nproc)" modules
}

# DKMS moves modules away that have the same names, wherever they are: the C drivers, which are wanted where they were
# when the kernel is booted with xen_pv_rust=off. It has its copies to put them back when the package is removed.
installed() {
	local origin place
	for origin in "$dkms/original_module/$release"/*/*.origin; do
		[ -f "$origin" ] || continue
		read -r place <"$origin"
		[ -e "$place" ] || cp -p "${origin%.origin}" "$place"
	done
	removed
}

# Has the initramfs made anew, which otherwise only the newest kernel's would be. DKMS itself runs depmod after this; with
# what depmod found out before, an initramfs could be left without any driver of the root disk.
removed() {
	if [ -e "/boot/initrd.img-$release" ] && command -v update-initramfs >/dev/null; then
		depmod "$release"
		update-initramfs -u -k "$release"
	fi
}

command=${1:?usage: dkms.sh check|build|installed|removed|clean [RELEASE [HEADERS]]}
release=${2:-}
headers=${3:-}
case $command in
check | build | installed | removed) "$command" ;;
clean)
	# The tree that it was built against may not be there any more.
	find "$here" \( -name '*.ko' -o -name '*.o' -o -name '*.mod' -o -name '*.mod.c' -o -name '.*.cmd' -o \
		-name '*.rmeta' \) -delete
	;;
*)
	echo "dkms.sh: $command is none of check, build, installed, removed and clean" >&2
	exit 1
	;;
esac
