#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Keys in xenstore that make no sense: the device is refused, an error node names the key, and other interfaces
# are not affected; an MTU that makes no sense is ignored (case N19). The C driver takes no notice of most, hence
# no run with it. The devices' backends are keys and nothing else.
# pairs: rust/c
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
long=$(printf 'A%.0s' {1..1500})
refused=(front:mac=junk front:mac=00:16:3e:00:01 "front:mac=$long" front:mac= front:trusted=junk
	multi-queue-max-queues=junk multi-queue-max-queues=-1 multi-queue-max-queues=4294967296
	feature-rx-copy=0 feature-rx-copy=junk feature-split-event-channels=junk feature-sg=-1
	feature-gso-tcpv4=junk feature-gso-tcpv6=junk feature-no-csum-offload=junk
	"feature-ipv6-csum-offload=$long")
taken=(mtu=junk mtu=67 mtu=65536 front:mtu=-1 multi-queue-max-queues=0 multi-queue-max-queues=4000000000)
ktap_set_plan $((${#refused[@]} + ${#taken[@]} + 4))
share_guest
attach_new

# refused ID KEY: whether the error names the key, and the driver has given the device up.
is_refused() {
	wait_for 10 error_says "$1" "$2" && front_reaches "$1" 5 6
}

ids=()
for word in "${refused[@]}" "${taken[@]}"; do
	ids+=($((20 + ${#ids[@]})))
	hand_make "${ids[-1]}" "$word"
done
index=0
for word in "${refused[@]#front:}"; do
	key=${word%%=*}
	[ "$word" != feature-rx-copy=0 ] || key="copying receive path"
	ktap_test "${word:0:50}" is_refused "${ids[index]}" "$key"
	index=$((index + 1))
done
for word in "${taken[@]#front:}"; do
	ktap_test "$word" front_reaches "${ids[index]}" 4
	index=$((index + 1))
done
ktap_equal "interfaces of the others" $((${#taken[@]} + 1)) "$(guest_run n "ls -d /sys/class/net/eth* | wc -l")"
ktap_test "the first one works" both_ways
ktap_test "all are removed" hand_remove "${ids[@]}"
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
