#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An interface whose backend is not trusted, by the toolstack or by the driver's parameter: data passes both ways, and
# the backend is granted nothing but copies. Of a trusted one it is granted the packets' own memory.
# pairs: rust/rust
# control: rust/c
# timeout: 200
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 10
share_guest

# distrust: has the interface connect anew, with a node in xenstore that xl has no word for.
distrust() {
	xenstore-write "$(guest_home n)/device/vif/$vif/trusted" 0 &&
		guest_run n "cd /sys/bus/xen/drivers/vif && echo vif-$vif >unbind && echo vif-$vif >bind" &&
		wait_for 30 vif_connected n "$vif" && vif_up n "$vif" 2
}

# try NAME GRANTED [COMMAND]: whether data passes, and packets' own memory is granted or not.
try() {
	local granted copied
	attach_new
	[ $# -lt 3 ] || "$3" || ktap_exit_fail_msg "the interface does not come back"
	ktap_test "$1: data passes both ways" both_ways 8
	granted=$(statistic tx_granted) copied=$(statistic tx_copied)
	ktap_print_msg "$1: $granted pieces granted, $copied copied"
	ktap_test "$1: memory is granted: $2" test "$([ "$granted" -gt 0 ] && echo yes || echo no)" = "$2"
	ktap_test "$1: copies are made" test "$copied" -gt 0
	vif_detach n "$vif"
}

try "trusted" yes
try "trusted=0 in xenstore" no distrust
guest_run n "rmmod xen-netfront && modprobe xen-netfront trusted=N"
try "parameter trusted=N" no
ktap_test "the driver loads again" guest_run n "rmmod xen-netfront && modprobe xen-netfront"
ktap_finished
