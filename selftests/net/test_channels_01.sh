#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The number of queues is changed while data passes: the link comes back by itself, and nothing is lost of what is
# sent again. What cannot be is refused, and changes nothing.
# pairs: rust/rust
# control: rust/c
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 16
share_guest
attach_new

# channels FIELD: what `ethtool -l` says, the most that can be ("max") or what there is ("now").
channels() {
	guest_run n "ethtool -l $node | awk '\$1 == \"Combined:\" { print \$2 }'" | case $1 in
	max) head -n 1 ;;
	now) tail -n 1 ;;
	esac
}

# queues: how many queues the kernel uses, and how many event channels the driver has.
queues() {
	guest_run n "echo \$(ls -d /sys/class/net/$node/queues/tx-* | wc -l) \
		\$(ls -d /sys/class/net/$node/queues/rx-* | wc -l) \$(grep -c vif$vif-q /proc/interrupts)"
}

has_queues() {
	[ "$(queues)" = "$1 $1 $((2 * $1))" ] && [ "$(channels now)" = "$1" ] && vif_connected n "$vif"
}

# change COUNT: as a user does, who may have to wait for the last change.
change() {
	guest_run n "for i in {1..100}; do ethtool -L $node combined $1 && exit; sleep 0.1; done; exit 1"
}

# refused ERROR ARGUMENT...: whether ethtool fails with this error.
refused() {
	local error=$1 said
	shift
	said=$(guest_run n "ethtool $* 2>&1") && return 1
	ktap_print_msg "ethtool $*: $said"
	grep -q "$error" <<<"$said"
}

ktap_equal "two queues of two" "2 2" "$(channels max) $(channels now)"
ktap_test "no queue is refused" refused "Invalid argument" -L "$node" combined 0
ktap_test "more than the backend serves are refused" refused "Invalid argument" -L "$node" combined 3
ktap_test "queues for one direction are refused" refused "Invalid argument" -L "$node" rx 1
ktap_equal "... which changes nothing" "2 2 4" "$(queues)"
ktap_equal "rings have 256 slots" "256 256 256 256" \
	"$(guest_run n "echo \$(ethtool -g $node | awk '\$1 == \"RX:\" || \$1 == \"TX:\" { print \$2 }')")"
ktap_test "... and no other number" refused "not supported" -G "$node" rx 128
ktap_test "there is nothing to pause" refused "not supported" -a "$node"

ktap_test "one queue" change 1
ktap_test "... is what there is then" wait_for 20 has_queues 1
ktap_test "data passes both ways" both_ways 4
ktap_test "two queues again" change 2
ktap_test "... are what there is then" wait_for 20 has_queues 2

# Under a stream in either direction, ten times: each time packets are lost, and TCP waits before it sends them again.
handle=$(guest_start n 200 "count=1
	for i in {1..10}; do
		until ethtool -L $node combined \$count 2>/dev/null; do sleep 0.1; done
		until ethtool -l $node | tail -n 2 | grep -q \"Combined:.*\$count\" &&
			[ \"\$(cat /sys/class/net/$node/carrier)\" = 1 ]; do sleep 0.1; done
		count=\$((3 - count))
		echo changed
		# Data is to pass in between.
		sleep 1
	done")
ktap_test "data passes both ways while queues change" both_ways 12
changes=$(guest_wait "$handle" 200 | grep -c changed)
ktap_print_msg "$changes changes; lost: $(statistic tx_lost), without carrier: $(statistic tx_no_carrier)"
ktap_equal "... ten times" 10 "$changes"
wait_for 20 vif_connected n "$vif"
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
