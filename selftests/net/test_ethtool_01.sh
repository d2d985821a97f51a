#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N26: whatever ethtool asks of an interface, at either end, it gets an answer, or hears that this is not
# supported, which tools can bear; and the log is not told of it.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 200

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 15
share_guest
attach_new

# What tools ask when they bring an interface up, or show it.
questions="- -i -k -a -c -g -l -S -T -P -n -x -u -m -e -d -t --show-fec --show-eee --show-priv-flags --show-module \
--show-tunnels --get-plca-cfg"

# unbearable PLACE DEVICE: the questions to which the answer is something else.
unbearable() {
	# shellcheck disable=SC2016 # expanded there
	at "$1" 'for option in '"$questions"'; do
		[ $option != - ] || option=
		answer=$(timeout 20 ethtool $option '"$2"' 2>&1) && continue
		case $answer in
		*"not supported"* | *"o private flags"* | *"No data available"* | *"no stats available"*) ;;
		*) echo "$option: $(head -n 1 <<<"$answer")" ;;
		esac
	done'
}

# refused PLACE OPTION DEVICE WORDS: whether this cannot be set, and why.
refused() {
	local answer
	answer=$(at "$1" "ethtool $2 $3 $4 2>&1") && return 1
	[[ $answer == *"not supported"* ]] || {
		ktap_print_msg "ethtool $2 $3 $4: $answer"
		return 1
	}
}

# lines PLACE DEVICE: how many lines of the log name the interface or its device.
lines() {
	at "$1" "dmesg | grep -cE '(^|[^a-z0-9])(vif|$2)'"
}

guest_lines=$(lines n "$node")
dom0_lines=$(lines dom0 "$back")
ktap_equal "questions in the guest" "" "$(unbearable n "$node")"
ktap_equal "questions in dom0" "" "$(unbearable dom0 "$back")"
ktap_equal "the guest's driver" "vif vif-$vif" "$(at n "ethtool -i $node" |
	awk '/^driver|^bus-info/ { printf s $2; s = " " }')"
ktap_equal "dom0's driver" "vif vif-$(guest_id n)-$vif" "$(ethtool -i "$back" |
	awk '/^driver|^bus-info/ { printf s $2; s = " " }')"
ktap_test "pauses in the guest" refused n -A "$node" "rx on"
ktap_test "pauses in dom0" refused dom0 -A "$back" "rx on"
ktap_test "its rings stay as they are" refused n -G "$node" "rx 128"
if is_c; then
	ktap_test "coalescing" refused n -C "$node" "rx-usecs 50"
else
	ktap_test "coalescing" at n "ethtool -C $node rx-usecs 70 && ethtool -c $node | grep -q '^rx-usecs:[[:space:]]*70$'"
fi
ktap_test "the speed is not known, which is no error of ethtool's" at n "ethtool $node | grep -q 'Link detected: yes'"
ktap_equal "nor is a duplex" "" "$(at n "ethtool $node | grep -E 'Speed: [0-9]|Duplex: (Full|Half)'")"
ktap_test "wrong names of features" at n "! ethtool -K $node no-such-feature on 2>/dev/null"
for feature in tso sg tx gro; do
	at n "ethtool -K $node $feature off && ethtool -K $node $feature on"
done >/dev/null
ktap_equal "features are on again" "4" "$(at n "ethtool -k $node" | grep -cE \
	'^(tx-checksumming|scatter-gather|tcp-segmentation-offload|generic-receive-offload): on')"
ktap_equal "lines in the guest's log" "$guest_lines" "$(lines n "$node")"
ktap_equal "lines in dom0's log" "$dom0_lines" "$(lines dom0 "$back")"
ktap_test "data passes both ways" both_ways 2
ktap_finished
