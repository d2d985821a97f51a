#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# kernel_tree.sh TREE: lays the drivers into a kernel's source tree, as drivers/xen/pv-rust with entries in Kconfig,
# Makefile, MAINTAINERS and Documentation. What an earlier call has laid there is replaced.
set -euo pipefail

here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
tree=${1:?usage: kernel_tree.sh TREE}
place=drivers/xen/pv-rust
pages=Documentation/admin-guide/xen-pv-rust

fail() {
	echo "kernel_tree: $*" >&2
	exit 1
}

for file in Makefile MAINTAINERS drivers/xen/Kconfig drivers/xen/Makefile Documentation/admin-guide/index.rst; do
	[ -f "$tree/$file" ] || fail "$tree is not the source tree of a kernel: it has no $file."
done
[ -f "$tree/rust/kernel/lib.rs" ] || fail "the kernel in $tree has no support for Rust (rust/kernel/lib.rs)."

# change FILE PROGRAM...: has a file be what a program makes of it. It becomes a new one, for the tree may share its
# files with another one.
change() {
	local file=$tree/$1
	shift
	"$@" <"$file" >"$file.new"
	chmod --reference="$file" "$file.new"
	mv "$file.new" "$file"
}

rm -rf "${tree:?}/$place" "${tree:?}/$pages"
mkdir -p "$tree/$place/selftests/kunit" "$tree/$pages"
(cd "$here" && tar -c --exclude='*.o' --exclude='*.ko' --exclude='*.mod' --exclude='*.mod.c' --exclude='.*.cmd' \
	--exclude='*.rmeta' --exclude='.*.d' --exclude='*_generated.rs' --exclude=shared_types \
	Kbuild Kconfig xen blkfront blkback netfront netback selftests/kunit/Kbuild selftests/kunit/xen_kunit.rs) |
	tar -x -C "$tree/$place"
cp "$here"/Documentation/*.rst "$tree/$pages/"
for file in "$here"/Documentation/ABI/*; do
	cp --remove-destination "$file" "$tree/Documentation/ABI/testing/"
done

# The folder's name is in no variable of Kconfig's.
find "$tree/$place" -name Kconfig -exec sed -i "s|\$(src)|$place|" {} +

# Puts the line $2 behind the last one that is like $1, once.
# shellcheck disable=SC2016 # awk's
after='index($0, line) { next }
	{ lines[++count] = $0 }
	$0 ~ pattern { last = count }
	END { for (i = 1; i <= count; i++) { print lines[i]; if (i == last) print line } }'
change drivers/xen/Makefile awk -v pattern='^obj-' -v line='obj-y				+= pv-rust/' "$after"
change drivers/xen/Kconfig awk -v pattern='^endmenu' -v line="source \"$place/Kconfig\"" "$after"
change Documentation/admin-guide/index.rst awk -v pattern='^   video-output$' \
	-v line='   xen-pv-rust/index' "$after"

# Entries are in the order of the alphabet.
entry='XEN PV DRIVERS IN RUST
L:	xen-devel@lists.xenproject.org (moderated for non-subscribers)
L:	rust-for-linux@vger.kernel.org
S:	Maintained
F:	Documentation/ABI/testing/*xen-*
F:	'"$pages"'/
F:	'"$place"'/
'
# shellcheck disable=SC2016 # awk's
change MAINTAINERS awk -v entry="$entry" '
	/^XEN PV DRIVERS IN RUST$/ { skipping = 1 }
	skipping { if ($0 == "") skipping = 0; next }
	!done && /^XEN PVSCSI/ { print entry; done = 1 }
	{ print }
	END { if (!done) exit 1 }'
for word in "drivers/xen/Makefile:pv-rust/" "drivers/xen/Kconfig:$place/Kconfig" \
	"Documentation/admin-guide/index.rst:xen-pv-rust/index"; do
	grep -q "${word#*:}" "$tree/${word%%:*}" || fail "$tree/${word%%:*} is not as expected."
done
echo "kernel_tree: the drivers are in $tree/$place; choose them with XEN_PV_RUST, without the C drivers."
