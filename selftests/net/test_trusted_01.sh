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

# try NAME GRANTED: whether data passes, and packets' own memory is granted or not.
try() {
	local granted copied
	attach_new
	ktap_test "$1: data passes both ways" both_ways 8
	granted=$(statistic tx_granted) copied=$(statistic tx_copied)
	ktap_print_msg "$1: $granted pieces granted, $copied copied"
	ktap_test "$1: memory is granted: $2" test "$([ "$granted" -gt 0 ] && echo yes || echo no)" = "$2"
	ktap_test "$1: copies are made" test "$copied" -gt 0
	vif_detach n "$vif"
}

try "trusted" yes
vif_options=(trusted=0)
try "trusted=0 in xenstore" no
vif_options=()
guest_run n "rmmod xen-netfront && modprobe xen-netfront trusted=N"
try "parameter trusted=N" no
ktap_test "the driver loads again" guest_run n "rmmod xen-netfront && modprobe xen-netfront"
ktap_finished
