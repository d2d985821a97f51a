#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N20: the queues of an interface are spread over the processors, at either end; their event channels have
# the names that tools know, and can be given to other processors, where they stay. C's driver leaves all to
# chance, hence no run with it.
# pairs: rust/rust
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 11
share_guest
attach_new

# channels PLACE PREFIX: lines of number, name and processors of the interface's channels.
channels() {
	at "$1" "awk '\$NF ~ /^$2-q[0-9]/ { sub(\":\", \"\", \$1); print \$1, \$NF }' /proc/interrupts |
		while read -r number name; do
			echo \$number \${name#$2-} \$(cat /proc/irq/\$number/smp_affinity_list)
		done" | sort -k 2
}

# given PLACE PREFIX: name and processors of each.
given() {
	channels "$1" "$2" | awk '{ print $2 ":" $3 }' | paste -sd ' '
}

# spread PLACE PREFIX: whether both channels of a queue have the same processor, and the queues different ones.
spread() {
	local all
	all=$(channels "$1" "$2")
	awk '{ split($2, part, "-"); if (seen[part[1]] != "" && seen[part[1]] != $3) exit 1; seen[part[1]] = $3 }
		END { if (seen["q0"] == "" || seen["q0"] == seen["q1"]) exit 1 }' <<<"$all" || {
		ktap_print_msg "$1: $(paste -sd ' ' <<<"$all")"
		return 1
	}
}

# events PLACE PREFIX PROCESSOR: how many events of the interface that one has had.
events() {
	at "$1" "awk 'NR > 1 && \$NF ~ /^$2-q[0-9]/ { sum += \$($3 + 2) } END { print sum + 0 }' /proc/interrupts"
}

ktap_test "spread in the guest" spread n "vif$vif"
ktap_test "spread in dom0" spread dom0 "$back"
ktap_equal "processors of the guest's queues for sending" "1 2" "$(guest_run n "cat /sys/class/net/$node/queues/tx-*/xps_cpus" |
	paste -sd ' ')"

# All to the second processor, with as much traffic as makes it seen.
for number in $(channels n "vif$vif" | cut -d ' ' -f 1); do
	guest_run n "echo 1 >/proc/irq/$number/smp_affinity_list"
done
for number in $(channels dom0 "$back" | cut -d ' ' -f 1); do
	echo 1 >"/proc/irq/$number/smp_affinity_list"
done
moved="q0-rx:1 q0-tx:1 q1-rx:1 q1-tx:1"
ktap_equal "channels can be moved" "$moved" "$(given n "vif$vif")"
ktap_equal "... in dom0, too" "$moved" "$(given dom0 "$back")"
# One that is on its way may still come to the first one.
both_ways 1
first=$(events n "vif$vif" 0)/$(events dom0 "$back" 0)
second=$(events n "vif$vif" 1)
ktap_test "data passes" both_ways 4
ktap_equal "events of the first processors" "$first" "$(events n "vif$vif" 0)/$(events dom0 "$back" 0)"
ktap_test "the second one has had some" test "$(events n "vif$vif" 1)" -gt "$second"
guest_run n "ip link set $node down && ip link set $node up"
ktap_equal "they stay when the interface is down for a while" "$moved" "$(given n "vif$vif")"
guest_run n "cd /sys/bus/xen/drivers/vif && echo vif-$vif >unbind && echo vif-$vif >bind"
wait_for "$XENVM_QUICK" vif_connected n "$vif"
ktap_equal "dom0's stay when the frontend connects anew" "$moved" "$(given dom0 "$back")"
ktap_test "a new interface is spread" spread n "vif$vif"
ktap_finished
