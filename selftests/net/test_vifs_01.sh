#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N41: a guest with 16 interfaces. Data passes on each, at the same time, and they take as many grants as
# is documented (Documentation/netfront.rst).
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 500

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
# shellcheck source=selftests/lib/leaks.sh
. "$XENVM_LIB/leaks.sh"
number=16 queues=2
ktap_set_plan 7
# Another guest's table of grants would have room left.
guest_create v vcpus=$queues timeout=240 fresh || ktap_exit_fail_msg "no guest"

frames() {
	leaks_grants v | cut -d = -f 2
}

before=$(frames)
mapped=$(leaks_mapped v)
vifs=()
for ((i = 0; i < number; i++)); do
	# By itself xl takes the number after 9 again for the eleventh.
	vifs+=("$(vif_attach v devid=$i)") || break
done
ktap_equal "interfaces" "$number" "$(guest_run v "ls -d /sys/class/net/eth* | wc -l")"
# A queue has two rings, 256 pages to receive in, and 40 for what it sends. Those of C's driver have 256 for that.
each=$((2 + 256 + 40))
! is_c || each=$((2 + 256 + 256))
most=$((before * 512 + number * queues * each))
ktap_print_msg "$each a queue; grant frames: $before before, $(frames) afterwards"
# What was free before is not known: less than a frame of it was in use, or all.
ktap_test "not more grants than documented" test "$(frames)" -le $(((most + 511) / 512))
ktap_test "... and not less" test "$(frames)" -ge $(((number * queues * each + 511) / 512))
# Two rings a queue, and where both ends have one, a control ring.
rings=$((number * queues * 2))
! xenstore-exists "$(guest_home v)/device/vif/${vifs[0]}/ctrl-ring-ref" || rings=$((rings + number))
ktap_equal "rings are all that stays mapped" $rings $(($(leaks_mapped v) - mapped))

# Each has a network of its own; the guest answers for each address only there.
guest_run v "sysctl -qw net.ipv4.conf.all.arp_ignore=1"
for ((i = 0; i < number; i++)); do
	ip addr add "10.20.$i.1/24" dev xenbr0
	settle v "$(vif_node v "${vifs[i]}")" "10.20.$i.2/24"
done
# pass FROM TO ADDRESS: data on all interfaces at once; how many of them have failed.
pass() {
	local from=$1 to=$2 last=$3 all=() one failed=0
	for ((i = 0; i < number; i++)); do
		tcp_passes "$from" "$to" "10.20.$i.$last" 512 $((6000 + i)) &
		all+=($!)
	done
	for one in "${all[@]}"; do
		wait "$one" || failed=$((failed + 1))
	done
	echo $failed
}
ktap_equal "data passes out of the guest" 0 "$(pass v dom0 1 2>/dev/null)"
ktap_equal "... and into it" 0 "$(pass dom0 v 2 2>/dev/null)"
for ((i = 0; i < number; i++)); do
	ip addr del "10.20.$i.1/24" dev xenbr0
done
ktap_equal "dom0 has lost nothing of the guest's" 0 "$(cat /sys/class/net/vif"$(guest_id v)".*/statistics/rx_dropped |
	awk '{ sum += $1 } END { print sum }')"
guest_destroy v
ktap_finished
