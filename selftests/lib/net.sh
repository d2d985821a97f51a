# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Interfaces of guests, for jobs and tests that run in dom0. They are on the bridge xenbr0, where dom0 is
# 10.0.0.1 and fd00::1.

# vif_attach NAME [KEY=VALUE...]: gives a guest another interface, as `xl network-attach` takes it, and
# prints its number. Waits until both ends are connected.
vif_attach() {
	local name=$1 before after id log
	shift
	log=$XENVM_GUESTS/$name/network-attach.log
	before=$(vif_list "$name")
	if ! xl network-attach "$name" bridge=xenbr0 "$@" >"$log" 2>&1; then
		complain "xl network-attach of guest $name failed: $(xl_error <"$log")"
		return 1
	fi
	after=$(vif_list "$name")
	id=$(comm -13 <(sort <<<"$before") <(sort <<<"$after"))
	if ! wait_for "$XENVM_QUICK" vif_connected "$name" "$id"; then
		complain "vif $id of guest $name does not connect: $(vif_states "$name" "$id")"
		return 1
	fi
	echo "$id"
}

# vif_list NAME: the numbers of a guest's interfaces.
vif_list() {
	xenstore-list "$(guest_home "$1")/device/vif" 2>/dev/null
}

# vif_back NAME ID: the folder of an interface's backend in xenstore.
vif_back() {
	xenstore-read "$(guest_home "$1")/device/vif/$2/backend" 2>/dev/null
}

vif_states() {
	local front back
	front=$(guest_home "$1")/device/vif/$2 back=$(vif_back "$1" "$2")
	echo "frontend $(xenstore-read "$front/state" 2>/dev/null), backend $(xenstore-read "$back/state" 2>/dev/null)," \
		"$(xenstore-read "$(guest_home "$1")/error/device/vif/$2/error" "/local/domain/0/error/${back#/*/*/*/}/error" 2>/dev/null)"
}

vif_connected() {
	[ "$(xenstore-read "$(guest_home "$1")/device/vif/$2/state" "$(vif_back "$1" "$2")/state" | sort -u)" = 4 ]
}

# vif_name NAME ID: what an interface is called in dom0.
vif_name() {
	echo "vif$(guest_id "$1").$2"
}

# vif_node NAME ID: what it is called in the guest.
vif_node() {
	guest_run "$1" "ls /sys/bus/xen/devices/vif-$2/net"
}

# vif_up NAME ID LAST: brings an interface up in the guest as 10.0.0.LAST and fd00::LAST.
vif_up() {
	guest_run "$1" "dev=\$(ls /sys/bus/xen/devices/vif-$2/net) && ip addr add 10.0.0.$3/24 dev \$dev &&
		ip addr add fd00::$3/64 dev \$dev nodad && ip link set \$dev up" || return
	ip addr show dev xenbr0 | grep -q fd00::1 || ip addr add fd00::1/64 dev xenbr0 nodad
	wait_for "$XENVM_QUICK" vif_reachable "$3" || {
		complain "guest $1 does not answer at 10.0.0.$3"
		return 1
	}
}

# vif_script NAME ID: has the hotplug script set up an interface of dom0's that has lost its driver and got it again,
# which xl does not do.
vif_script() {
	local back
	back=$(vif_back "$1" "$2")
	XENBUS_TYPE=vif XENBUS_BASE_PATH=backend XENBUS_PATH=${back#/local/domain/0/} vif=$(vif_name "$1" "$2") \
		"$(xenstore-read "$back/script")" online type_if=vif >"$XENVM_GUESTS/$1/script.log" 2>&1
}

# vif_reachable LAST: whether a guest answers at 10.0.0.LAST.
vif_reachable() {
	ping -c 1 -W 1 "10.0.0.$1"
}

# vif_detach NAME ID: takes an interface away, and waits until both ends are gone.
vif_detach() {
	local back log=$XENVM_GUESTS/$1/network-detach.log
	back=$(vif_back "$1" "$2")
	if ! xl network-detach "$1" "$2" >"$log" 2>&1; then
		complain "xl network-detach of guest $1 failed: $(xl_error <"$log")"
		return 1
	fi
	wait_for "$XENVM_QUICK" vif_gone "$1" "$2" "$back" || {
		complain "vif $2 of guest $1 does not go"
		return 1
	}
}

vif_gone() {
	! xenstore-exists "$(guest_home "$1")/device/vif/$2" && ! xenstore-exists "$3" &&
		! [ -e "/sys/class/net/$(vif_name "$1" "$2")" ]
}
