#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# check.sh install|remove SUITE: installs the package in the Debian root that this runs in, or removes it again, and
# sees what becomes of the kernels there. Run by `xenvm package-check`.

# shellcheck disable=SC2317 # functions are called by ktap_test
# shellcheck source=selftests/lib/ktap.sh
. "$XENVM_LIB/ktap.sh"
phase=$1
suite=$2
log=/srv/log
said=/srv/said
deb=/srv/xen-pv-rust-dkms.deb
drivers="xen-blkfront xen-blkback xen-netfront xen-netback"
package=xen-pv-rust-dkms

# quiet COMMAND...: keeps what it prints in the log, and that of the last one in $said.
quiet() {
	local status
	"$@" >"$said" 2>&1 </dev/null
	status=$?
	{
		echo "== $*"
		cat "$said"
	} >>$log
	return $status
}

install() {
	quiet apt-get install -y --no-install-recommends -o APT::Sandbox::User=root "$@"
}

# newest SUITE: the kernel that the suite's metapackage installs.
newest() {
	apt-cache depends "linux-image-amd64/$1" | sed -n 's/.*Depends: linux-image-\([0-9].*-amd64\)$/\1/p' | head -n 1
}

# newest_of SERIES: the last kernel of a series whose source is there in the same version.
newest_of() {
	local version
	version=$(apt-cache policy "linux-source-$1" | sed -n 's/ *Candidate: //p')
	apt-cache dumpavail | awk -v series="linux-image-$1" -v version="$version" '
	/^Package: / { package = $2 }
	/^Version: / && $2 == version && index(package, series) == 1 && package ~ /^linux-image-[0-9.]*\+deb[0-9]*-amd64$/ {
		sub("linux-image-", "", package); print package; exit }'
}

# file_of DRIVER RELEASE: the module that would be loaded.
file_of() {
	modinfo -k "$2" -n "$1" 2>/dev/null
}

# all_are RELEASE PATTERN: whether all drivers are modules whose files are like that.
all_are() {
	local driver
	for driver in $drivers; do
		# shellcheck disable=SC2053 # a pattern
		if [[ $(file_of "$driver" "$1") != $2 ]]; then
			ktap_print_msg "$driver is $(file_of "$driver" "$1")"
			return 1
		fi
	done
}

ours() {
	all_are "$1" "*/updates/dkms/*"
}

# beside RELEASE: whether C's drivers are still where they belong, for those who want them for one boot.
beside() {
	local driver
	for driver in $drivers; do
		[ -n "$(find "/lib/modules/$1/kernel/drivers" -name "$driver.ko*")" ] || return
	done
}

theirs() {
	all_are "$1" "*/kernel/drivers/*" && [ -z "$(find "/lib/modules/$1/updates" -name 'xen-*' 2>/dev/null)" ]
}

# initramfs_has RELEASE PATTERN
initramfs_has() {
	lsinitramfs "/boot/initrd.img-$1" | grep -qE "$2"
}

# Whether all packages are installed as they should be, none of them in the middle of it.
whole() {
	local half
	half=$(dpkg --audit)
	[ -z "$half" ] || ktap_print_msg "$half"
	[ -z "$half" ] && [ "$(dpkg-query -W -f '${db:Status-Status}' "$package")" = installed ]
}

# tells RELEASE PATTERN: whether the last command told, in one sentence, why the kernel is left alone.
tells() {
	local line
	line=$(grep "^xen-pv-rust: $1 goes on with its C drivers: " "$said" | sort -u)
	ktap_print_msg "$line"
	[[ $line =~ $2 && $(wc -l <<<"$line") = 1 ]]
}

# left_alone RELEASE PATTERN COMMAND...: whether the command succeeds, and leaves a kernel alone for that reason.
left_alone() {
	local release=$1 pattern=$2
	shift 2
	"$@" && tells "$release" "$pattern" && theirs "$release" && whole
}

# pretend PROGRAM BODY: puts a program in the place of one that is installed: apt has packages' scripts look in /usr only.
pretend() {
	mv "/usr/bin/$1" "/usr/bin/$1.real"
	printf '#!/bin/sh\n%s\n' "$2" >"/usr/bin/$1"
	chmod +x "/usr/bin/$1"
}

# no_more PROGRAM: the one that is installed is back.
no_more() {
	mv "/usr/bin/$1.real" "/usr/bin/$1"
}

# declines PATTERN RELEASE HEADERS NAME=VALUE... : whether dkms.sh, with these variables, says such a sentence.
declines() {
	local pattern=$1 release=$2 headers=$3 answer
	shift 3
	answer=$(env "$@" /usr/src/xen-pv-rust-*/scripts/dkms.sh check "$release" "$headers" 2>&1) && return 1
	ktap_print_msg "$answer"
	[[ $answer =~ $pattern && $(wc -l <<<"$answer") = 1 ]]
}

rebuild() {
	quiet dkms autoinstall -k "$1" && quiet /usr/lib/xen-pv-rust/report "$1"
}

is_built_for() {
	dkms status -k "$1" | grep -q '^xen-pv-rust/.*: installed' && ours "$1" && beside "$1"
}

# The package comes first, then kernels, one after the other, with something missing at first.
install_beside_others() {
	local old first
	old=$(newest trixie)
	first=$(newest_of 7.2)
	new=$(newest trixie-backports)
	if [ -z "$old" ] || [ -z "$first" ] || [ -z "$new" ]; then
		ktap_exit_fail_msg "no kernels"
	fi
	ktap_print_msg "kernels $old, $first and $new"
	install "linux-image-$old" "linux-headers-$old" || ktap_exit_fail_msg "no kernel: $(tail -n 1 $log)"
	ktap_test "an older kernel, without Rust, is left alone" left_alone "$old" "none of those that the drivers are made for" install $deb
	ktap_test "one whose source is missing, too" left_alone "$first" "install the package linux-source-7.2" \
		install "linux-image-$first/trixie-backports" "linux-headers-$first/trixie-backports"
	pretend rustc 'echo "rustc 1.70.0 (90c541806 2023-05-31)"'
	ktap_test "another compiler does not do, when the source has come" left_alone "$first" \
		"was built with rustc .* but rustc is rustc 1.70.0" install linux-source-7.2/trixie-backports
	no_more rustc
	# shellcheck disable=SC2016 # the program's own
	pretend bindgen '[ "$1" = --version ] && exec /usr/bin/bindgen.real --version; exit 1'
	ktap_test "a build that fails leaves everything as it is" left_alone "$first" "the build .* failed .*make.log" \
		rebuild "$first"
	no_more bindgen
	ktap_test "what is whole is built" rebuild "$first"
	ktap_test "for this kernel" is_built_for "$first"
	ktap_test "a newer kernel gets its drivers as it is installed" install linux-image-amd64/trixie-backports \
		linux-headers-amd64/trixie-backports linux-source/trixie-backports
	ktap_test "... its own" is_built_for "$new"
	ktap_test "the other one keeps them" is_built_for "$first"
	ktap_test "the one without Rust has none" theirs "$old"
}

# One kernel, and the package with all that it needs beside it.
install_at_once() {
	new=$(newest "$suite")
	[ -n "$new" ] || ktap_exit_fail_msg "no kernel"
	ktap_print_msg "kernel $new"
	install linux-image-amd64 linux-headers-amd64 linux-source || ktap_exit_fail_msg "no kernel: $(tail -n 1 $log)"
	ktap_test "C's drivers are there" theirs "$new"
	ktap_test "the package can be installed" install $deb
	ktap_test "the kernel has its drivers" is_built_for "$new"
	ktap_test "the kernel can be installed again" install --reinstall "linux-image-$new" "linux-binary-$new" \
		"linux-modules-$new"
	ktap_test "... and has them again" is_built_for "$new"
}

installing() {
	local headers
	quiet apt-get update || ktap_exit_fail_msg "no package lists"
	if [ "$suite" = trixie ]; then
		ktap_set_plan 20
		install_beside_others
	else
		ktap_set_plan 15
		install_at_once
	fi
	headers=/usr/src/linux-headers-$new
	ktap_test "no package is in the middle of something" whole
	ktap_equal "the modules are for this kernel" 4 "$(for driver in $drivers; do
		modinfo -k "$new" -F vermagic "$driver"
	done | grep -c "^$new ")"
	ktap_equal "aliases" "xen:vbd" "$(modinfo -k "$new" -F alias xen-blkfront | grep '^xen:')"
	ktap_test "the initramfs has the driver of the root disk" initramfs_has "$new" 'updates/dkms/xen-blkfront\.ko'
	ktap_test "... and C's" initramfs_has "$new" 'kernel/drivers/block/xen-blkfront\.ko'
	ktap_test "... and what chooses between them" initramfs_has "$new" 'usr/lib/xen-pv-rust/load'
	ktap_test "... and modprobe is told of it" initramfs_has "$new" 'lib/modprobe.d/xen-pv-rust\.conf'
	ktap_test "no source is declined" declines "install the package linux-source-" "$new" "$headers" \
		XEN_PV_RUST_SOURCES=/srv/nothing XEN_PV_RUST_TREES=/srv/nothing
	cp -r "$headers" /srv/headers
	sed -i 's/^CONFIG_XEN_BLKDEV_FRONTEND=m/CONFIG_XEN_BLKDEV_FRONTEND=y/' /srv/headers/.config \
		/srv/headers/include/config/auto.conf
	ktap_test "a built-in driver is declined" declines "C driver built in" "$new" /srv/headers
	sed -i '/^CONFIG_RUST=/d' /srv/headers/.config /srv/headers/include/config/auto.conf
	ktap_test "a kernel without Rust is declined" declines "without CONFIG_RUST" "$new" /srv/headers
}

removing() {
	local kernels
	ktap_set_plan 5
	kernels=$(ls /lib/modules)
	ktap_test "the package can be removed" quiet apt-get remove -y $package
	ktap_equal "no module of it is left" "" "$(find /lib/modules -path '*/updates/*' -name 'xen-*.ko*')"
	ktap_equal "C's drivers are there" "" "$(for release in $kernels; do
		theirs "$release" || echo "$release"
	done)"
	ktap_equal "every initramfs has C's drivers only" "" "$(for release in $kernels; do
		if initramfs_has "$release" updates/dkms/xen- ||
			! initramfs_has "$release" kernel/drivers/block/xen-blkfront; then
			echo "$release"
		fi
	done)"
	ktap_test "it can be purged" quiet apt-get purge -y $package
}

ktap_print_header
case $phase in
install) installing ;;
remove) removing ;;
esac
ktap_finished
