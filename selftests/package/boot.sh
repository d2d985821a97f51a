#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in dom0: boots guests from the disk on which the package was installed, and from the one from which it was
# removed again, by those disks' own kernel and initramfs, and sees which drivers they have.

# shellcheck disable=SC2317 # functions are called by ktap_test
# shellcheck source=selftests/lib/ktap.sh
. "$XENVM_LIB/ktap.sh"
# shellcheck source=selftests/lib/xen.sh
. "$XENVM_LIB/xen.sh"

console() {
	cat "/var/log/xen/console/guest-$1.log" 2>/dev/null
}

# said NAME: what guest.sh said of the guest.
said() {
	console "$1" | tr -d '\r' | sed -n 's/^boot: //p'
}

ended_or_dead() {
	said "$1" | grep -qx "the end" || ! guest_alive "$1"
}

# boots NAME TYPE DISK PHASE [WORD...]: whether a guest comes up and reports.
boots() {
	local name=$1 type=$2 disk=$3 phase=$4
	shift 4
	cat >"/run/$name.cfg" <<-CONFIG
		name = '$name'
		type = '$type'
		kernel = '$PWD/$phase/vmlinuz'
		ramdisk = '$PWD/$phase/initrd.img'
		extra = 'console=hvc0 root=/dev/xvda rw mitigations=off init=/srv/package/guest.sh $*'
		memory = 1024
		vcpus = 1
		disk = ['phy:$disk,xvda,w']
		vif = ['bridge=xenbr0']
		on_poweroff = 'destroy'
		on_reboot = 'destroy'
		on_crash = 'destroy'
		tsc_mode = 'native'
	CONFIG
	if ! xl create "/run/$name.cfg" >"/run/$name.log" 2>&1; then
		ktap_print_msg "$(xl_error <"/run/$name.log")"
		return 1
	fi
	wait_for 600 ended_or_dead "$name"
	said "$name" | sed "s/^/# $name: /"
	if ! said "$name" | grep -qx "the end"; then
		console "$name" | tail -n 5 | sed 's/^/# /'
		return 1
	fi
}

# reports NAME LINE: whether the guest has said exactly this.
reports() {
	said "$1" | grep -qxF "$2"
}

# guest NAME TYPE DISK PHASE DRIVERS [WORD...]: boots a guest, which must have these drivers (rust, c).
guest() {
	local name=$1 drivers=$5
	ktap_test "$name: the guest boots from its disk" boots "$1" "$2" "$3" "$4" "${@:6}"
	ktap_test "$name: the disk's driver is $drivers" reports "$name" "xen_blkfront $drivers"
	ktap_test "$name: the interface's driver is $drivers" reports "$name" "xen_netfront $drivers"
	ktap_test "$name: the root is on that disk" reports "$name" "root /dev/xvda"
	ktap_test "$name: the network works" reports "$name" "network works"
	xl destroy "$name" >/dev/null 2>&1
}

ktap_print_header
ktap_set_plan 20
guest pv pv /dev/vdc install rust
guest pvh pvh /dev/vdc install rust
guest off pv /dev/vdc install c xen_pv_rust=off
guest removed pv /dev/vdd remove c
ktap_finished
