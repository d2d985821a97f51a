#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Cases N08, N09: under load, few events come for nothing, by what either driver says when it has dealt with one,
# so that no channel is slowed down for it; and there are fewer events than packets. Xen's bus counts this for
# dom0's end only; in the guest the kernel's tracing does.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
ktap_set_plan 8
share_guest
attach_new
bus=/sys/bus/xen-backend/devices/vif-$(guest_id n)-$vif/xenbus
tracing=/sys/kernel/debug/tracing

# A driver ends an event by xen_irq_lateeoi(irq, flags); flags are 1 if it was for nothing.
at n "cd $tracing && echo 'p:late_end xen_irq_lateeoi flags=%si:u32' >kprobe_events" ||
	ktap_exit_fail_msg "the guest's kernel cannot be traced"

# counts: events in dom0, those of them for nothing, jiffies that they were put off.
counts() {
	cat "$bus"/{events,spurious_events,jiffies_eoi_delayed}
}

# packets: how many have gone either way.
packets() {
	echo $(($(counter dom0 rx_packets) + $(counter dom0 tx_packets)))
}

# load ARGUMENT...: has iperf3 send for some seconds; prints how many events the guest has had meanwhile, and how
# many of them for nothing.
load() {
	at n "cd $tracing/events/kprobes/late_end && echo 'hist:keys=flags' >trigger
		iperf3 -c 10.0.0.1 -t 4 -P 4 $* >/tmp/iperf3 || { sed 's/^/# /' /tmp/iperf3 >&2; exit 1; }
		awk '/hitcount/ { sub(\"}\", \"\"); n[\$3] = \$NF } END { print n[0] + n[1], n[1] + 0 }' hist
		echo '!hist:keys=flags' >trigger"
}

# check WHAT ARGUMENT...: four results of such a load.
check() {
	local what=$1 before after number guest
	shift
	mapfile -t before < <(counts)
	number=$(packets)
	guest=$(load "$@") || guest="0 0"
	ktap_test "$what" test "${guest% *}" -gt 0
	number=$(($(packets) - number))
	mapfile -t after < <(counts)
	for i in 0 1 2; do
		after[i]=$((after[i] - before[i]))
	done
	ktap_print_msg "$number packets; dom0: ${after[0]} events, ${after[1]} for nothing, ${after[2]} jiffies' delay;" \
		"guest: ${guest% *} events, ${guest#* } for nothing"
	ktap_test "... few events in dom0 for nothing" test $((after[1] * 20)) -le "${after[0]}"
	ktap_test "... and in the guest" test $((${guest#* } * 20)) -le "${guest% *}"
	ktap_test "... and fewer events than packets" test $((after[0] + ${guest% *})) -lt "$number"
}

timeout "$(stretch 100)" iperf3 -s >/dev/null &
server=$!
wait_for 10 listens 5201
check "out of the guest"
check "into the guest" -R
kill $server
wait $server
at n "echo >$tracing/kprobe_events"
ktap_finished
