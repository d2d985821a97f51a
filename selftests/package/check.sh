#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Installs the package in the Debian root that this runs in, beside a kernel with Rust and one without, and removes
# it again. Run by `xenvm package-check`.

# shellcheck disable=SC2317 # functions are called by ktap_test
# shellcheck source=selftests/lib/ktap.sh
. "$XENVM_LIB/ktap.sh"
log=/srv/log
deb=/srv/xen-pv-rust-dkms.deb
drivers="xen-blkfront xen-blkback xen-netfront xen-netback"

# quiet COMMAND...: keeps what it prints in the log.
quiet() {
	echo "== $*" >>$log
	"$@" >>$log 2>&1 </dev/null
}

install() {
	quiet apt-get install -y --no-install-recommends -o APT::Sandbox::User=root "$@"
}

# release SUITE: the kernel that the suite's metapackage installs.
release() {
	apt-cache depends "linux-image-amd64/$1" | sed -n 's/.*Depends: linux-image-\([0-9].*-amd64\)$/\1/p' | head -n 1
}

# file_of DRIVER [RELEASE]: the module that would be loaded.
file_of() {
	modinfo -k "${2:-$new}" -n "$1" 2>/dev/null
}

# all_are PATTERN: whether all drivers are modules whose files are like that.
all_are() {
	local driver
	for driver in $drivers; do
		# shellcheck disable=SC2053 # a pattern
		if [[ $(file_of "$driver") != $1 ]]; then
			ktap_print_msg "$driver is $(file_of "$driver")"
			return 1
		fi
	done
}

# initramfs_has PATTERN
initramfs_has() {
	lsinitramfs "/boot/initrd.img-$new" | grep -qE "$1"
}

# declines PATTERN NAME=VALUE... : whether dkms.sh, with these variables, says such a sentence and nothing else.
declines() {
	local pattern=$1 answer
	shift
	answer=$(env "$@" /usr/src/xen-pv-rust-*/scripts/dkms.sh check "$release" "$headers" 2>&1) && return 1
	ktap_print_msg "$answer"
	[[ $answer =~ $pattern && $(wc -l <<<"$answer") = 1 ]]
}

ktap_print_header
ktap_set_plan 17
quiet apt-get update || ktap_exit_fail_msg "no package lists"
new=$(release trixie-backports)
old=$(release trixie)
if [ -z "$new" ] || [ -z "$old" ]; then
	ktap_exit_fail_msg "no kernels"
fi
ktap_print_msg "kernels $new and $old"
install "linux-image-$new/trixie-backports" "linux-headers-$new/trixie-backports" linux-source/trixie-backports \
	"linux-headers-$old" "linux-image-$old" || ktap_exit_fail_msg "the kernels cannot be installed: $(tail -n 1 $log)"
before=$(cd /lib/modules && find "$new" "$old" -name 'xen-*.ko*' | sort)
ktap_test "C's drivers are there" all_are "*/kernel/drivers/*"

# Whatever a build needs comes along. The compiler is that of the stable suite, as for the kernel.
ktap_test "the package can be installed" install $deb
ktap_test "DKMS has installed the modules" bash -c "dkms status -k $new | grep -q ': installed'"
ktap_test "all of them are preferred" all_are "*/updates/dkms/*"
ktap_equal "they are for this kernel" 4 "$(for driver in $drivers; do
	modinfo -k "$new" -F vermagic "$driver"
done | grep -c "^$new ")"
ktap_equal "aliases" "xen:vbd" "$(modinfo -k "$new" -F alias xen-blkfront | grep '^xen:')"
ktap_test "the initramfs has the driver of the root disk" initramfs_has 'updates/dkms/xen-blkfront\.ko'
ktap_test "... and C's" initramfs_has 'kernel/drivers/block/xen-blkfront\.ko'
ktap_test "... and what chooses between them" initramfs_has 'usr/lib/xen-pv-rust/load'
ktap_equal "the kernel without Rust has none" "" "$(find "/lib/modules/$old/updates" -name 'xen-*' 2>/dev/null)"

release=$old headers=/usr/src/linux-headers-$old
ktap_test "a kernel without Rust is declined" declines "without CONFIG_RUST"
release=$new headers=/usr/src/linux-headers-$new
mkdir -p /srv/other
printf '#!/bin/sh\necho "rustc 1.70.0 (90c541806 2023-05-31)"\n' >/srv/other/rustc
chmod +x /srv/other/rustc
ktap_test "another compiler is declined" declines "was built with rustc .* but there is rustc 1.70.0" \
	"PATH=/srv/other:$PATH"
ktap_test "no source is declined" declines "install the package linux-source-" \
	XEN_PV_RUST_SOURCES=/srv/nothing XEN_PV_RUST_TREES=/srv/nothing
cp -r "$headers" /srv/headers
sed -i 's/^CONFIG_XEN_BLKDEV_FRONTEND=m/CONFIG_XEN_BLKDEV_FRONTEND=y/' /srv/headers/.config
headers=/srv/headers
ktap_test "a built-in driver is declined" declines "C driver built in"

ktap_test "it can be removed" quiet apt-get remove -y xen-pv-rust-dkms
ktap_equal "the modules are as they were" "$before" "$(cd /lib/modules && find "$new" "$old" -name 'xen-*.ko*' | sort)"
ktap_test "the initramfs has C's driver only" bash -c "! lsinitramfs /boot/initrd.img-$new | grep -q updates/dkms/xen- &&
	lsinitramfs /boot/initrd.img-$new | grep -q 'kernel/drivers/block/xen-blkfront'"
ktap_finished
