#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Makes the documentation of the crate `xen` in rustdoc/, private items too.
# The modules must have been built here: the compiler's flags are taken from
# what Kbuild has saved.
set -eu

cd "$(dirname -- "$0")/.."
saved=xen/.xen.o.cmd
if ! [ -f $saved ]; then
	echo "rustdoc: the crate xen has not been built here: run make first." >&2
	exit 1
fi

# The words after the compiler's name, less those that say what to write.
words=$(sed -n '1s/^savedcmd_[^=]*:= .*[^ ]*rustc //p' $saved | sed 's/ ;.*//')
[ -n "$words" ] || {
	echo "rustdoc: $saved has no call of rustc." >&2
	exit 1
}
eval "set -- $words"
count=$#
while [ "$count" -gt 0 ]; do
	count=$((count - 1))
	word=$1
	shift
	case $word in
	--emit=* | -Zbinary_dep_depinfo=* | -?clippy::* | -Cdebuginfo=*) ;;
	--out-dir)
		shift
		count=$((count - 1))
		;;
	*) set -- "$@" "$word" ;;
	esac
done

RUSTC_BOOTSTRAP=1 XEN_GENERATED=$PWD/xen/bindings OBJTREE=$(sed -n '1s/.* OBJTREE=\([^ ]*\).*/\1/p' $saved) \
	"${RUSTDOC:-rustdoc}" "$@" --crate-name xen --document-private-items --output rustdoc \
	-Zunstable-options --generate-link-to-definition
echo "rustdoc: see rustdoc/xen/index.html"
