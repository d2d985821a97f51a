#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Tests dkms.sh on made-up headers and sources, with programs that only note how they were called.
# Prints KTAP.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

release=7.3.4+deb13-amd64
text="rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
count=0
failed=0

# program NAME BODY: makes a program.
program() {
	printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
	chmod +x "$work/bin/$1"
}

# Headers as Debian has them, the source of that kernel, and programs with which everything works.
reset() {
	rm -rf "${work:?}"/*
	mkdir -p "$work/bin" "$work/headers/include/config" "$work/sources/linux-source-7.3" "$work/project/scripts"
	cp "$here/dkms.sh" "$here/preflight.sh" "$here/kernels" "$work/project/scripts/"
	program rustc "echo '$text'"
	program bindgen "echo bindgen 0.71.1"
	program make "echo \"\$*\" >>$work/made"
	program dpkg-query "echo 7.3.4-1"
	: >"$work/headers/Makefile"
	echo $release >"$work/headers/include/config/kernel.release"
	cat >"$work/headers/.config" <<-CONF
		CONFIG_RUST=y
		CONFIG_RUSTC_VERSION=108501
		CONFIG_RUSTC_VERSION_TEXT="$text"
		CONFIG_XEN_XENBUS_FRONTEND=y
		CONFIG_XEN_BLKDEV_FRONTEND=m
	CONF
	: >"$work/headers/Module.symvers"
	tar -C "$work/sources" -cJf "$work/sources/linux-source-7.3.tar.xz" linux-source-7.3
}

# run WORD...: runs dkms.sh; its exit status is in $status, what it printed in $work/output.
run() {
	status=0
	(cd "$work/project" && PATH=$work/bin:$PATH XEN_PV_RUST_TREES=$work/trees XEN_PV_RUST_SOURCES=$work/sources \
		scripts/dkms.sh "$@") >"$work/output" 2>&1 || status=$?
}

result() {
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count dkms: $1"
	else
		echo "not ok $count dkms: $1"
		echo "# $2"
		sed 's/^/# /' "$work/output"
		failed=$((failed + 1))
	fi
}

# declines NAME PATTERN: the build must be declined for such a reason, which is kept, and make nothing but what is made
# to find that out.
declines() {
	local why=
	run build "$release" "$work/headers"
	[ $status = 77 ] || why="exit status $status, not 77"
	grep -qE "$2" "$work/trees/reasons/$release" || why="the reason is not kept"
	[ "$(grep -c '^xen-pv-rust: ' "$work/output")" = 1 ] || why="not one sentence"
	! grep -q " modules$" "$work/made" 2>/dev/null || why="the modules were made"
	result "$1" "$why"
}

# builds NAME KDIR: the modules must be built against this tree.
builds() {
	local why=
	run build "$release" "$work/headers"
	[ $status = 0 ] || why="exit status $status"
	[ ! -e "$work/trees/reasons/$release" ] || why="there is still a reason why not"
	grep -q "KDIR=$2 .*KERNELRELEASE=$release .*modules\$" "$work/made" || why="not built against $2"
	result "$1" "$why"
}

echo "KTAP version 1"

reset
builds "headers without metadata: a tree is prepared" "$work/trees/$release/source"
result "... as the kernel was" "$(grep -q "KERNELRELEASE=$release .*modules_prepare" "$work/made" || echo "not prepared")"
: >"$work/made"
builds "... and kept" "$work/trees/$release/source"
result "... without another preparation" "$(grep prepare "$work/made" || :)"
echo changed >"$work/headers/Module.symvers"
builds "... until the kernel is another one" "$work/trees/$release/source"
result "... when it is prepared again" "$(grep -q modules_prepare "$work/made" || echo "not prepared")"

reset
release=6.12.57+deb13-amd64
declines "another series" "none of those that the drivers are made for: 7.2 7.3"
release=7.3.4+deb13-amd64

reset
sed -i /CONFIG_RUST=/d "$work/headers/.config"
declines "no Rust" "without CONFIG_RUST"

reset
sed -i s/XEN_BLKDEV_FRONTEND=m/XEN_BLKDEV_FRONTEND=y/ "$work/headers/.config"
declines "a built-in driver" "C driver built in"

reset
program rustc "echo rustc 1.97.1"
declines "another compiler" "but rustc is rustc 1.97.1"
program rustc "echo '$text'"
builds "... until it is the right one" "$work/trees/$release/source"

reset
rm "$work/sources/linux-source-7.3.tar.xz"
declines "no source" "install the package linux-source-7.3"

reset
# shellcheck disable=SC2016 # the program's own
program dpkg-query 'case $* in *source*) echo 7.3.5-1 ;; *) echo 7.3.4-1 ;; esac'
declines "the source of another version" "is of version 7.3.4-1, but linux-source-7.3 of 7.3.5-1"

reset
program make "echo \"\$*\" >>$work/made; exit 2"
declines "a tree that cannot be prepared" "the build for kernel .* failed .*make.log"
rm "$work/made"
program make "echo \"\$*\" >>$work/made"
builds "... is no tree the next time" "$work/trees/$release/source"

reset
mkdir -p "$work/dkms/original_module/$release/x86_64" "$work/kernel"
echo C >"$work/dkms/original_module/$release/x86_64/xen-blkfront.ko.xz"
echo "$work/kernel/xen-blkfront.ko.xz" >"$work/dkms/original_module/$release/x86_64/xen-blkfront.ko.xz.origin"
export XEN_PV_RUST_DKMS=$work/dkms
run installed "$release"
why=
[ "$(cat "$work/kernel/xen-blkfront.ko.xz")" = C ] || why="it is not where it was"
[ -e "$work/dkms/original_module/$release/x86_64/xen-blkfront.ko.xz" ] || why="DKMS has no copy of it"
[ $status = 0 ] || why="exit status $status"
result "a C driver that was moved away comes back" "$why"
echo newer >"$work/kernel/xen-blkfront.ko.xz"
run installed "$release"
result "... but not over another one" "$(grep -vx newer "$work/kernel/xen-blkfront.ko.xz" || :)"

echo "1..$count"
[ $failed = 0 ]
