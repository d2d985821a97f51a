#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest is saved and restored in the middle of a transfer: the connection goes on where it was, with nothing
# lost (cases N17, N37), and channels are handled by the processors that the user has chosen (case N20).
# pairs: rust/c c/rust rust/rust
# control: c/c
# allow-console: xennet_disconnect_backend
# timeout: 500
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 6
guest_create r vcpus=2 timeout=240 || ktap_exit_fail_msg "no guest"
if ! vif=$(vif_attach r mac=00:16:3e:00:00:07) || ! vif_up r "$vif" 2; then
	ktap_exit_fail_msg "no interface"
fi

# places: which processors have the channels of queues. That of the control ring is used when users change something.
places() {
	guest_run r "awk '\$NF ~ /^vif.*-q[0-9]/ { sub(\":\", \"\", \$1); print \$1 }' /proc/interrupts |
		while read -r number; do cat /proc/irq/\$number/smp_affinity_list; done" | paste -sd ' '
}

guest_run r "for number in \$(awk '\$NF ~ /^vif.*-q[0-9]/ { sub(\":\", \"\", \$1); print \$1 }' /proc/interrupts); do
	echo 1 >/proc/irq/\$number/smp_affinity_list
done"
moved=$(places)
head -c 64M /dev/urandom >/tmp/data
sum=$(sha256sum </tmp/data)
up=$(guest_start r 300 "busybox nc -l -p 5001 -e sh -c 'sha256sum >/tmp/sum.new; mv /tmp/sum.new /tmp/sum'")
wait_for 10 guest_run r "grep -q ':1389 .* 0A ' /proc/net/tcp /proc/net/tcp6"
{
	head -c 16M /tmp/data
	touch /tmp/half
	while [ -e /tmp/half ]; do sleep 0.1; done
	tail -c +$(((16 << 20) + 1)) /tmp/data
} >/dev/tcp/10.0.0.2/5001 &
sender=$!
wait_for 60 test -e /tmp/half
ktap_test "saved" guest_save r /var/lib/xen/r.save
rm -f /tmp/half
ktap_test "restored" guest_restore r /var/lib/xen/r.save
rm -f /var/lib/xen/r.save
ktap_test "it answers" wait_for 30 vif_reachable 2
wait $sender
guest_wait "$up" 120
ktap_equal "the connection went on, with its data" "$sum" "$(guest_run r "cat /tmp/sum")"
if [ "$XENVM_FRONT_NETFRONT" = c ]; then
	ktap_test_skip "processors of the channels" "C's driver does not remember them"
else
	ktap_equal "processors of the channels" "$moved" "$(places)"
fi
ktap_test "new connections work" guest_run r "ping -c 3 -W 5 10.0.0.1"
guest_destroy r
ktap_finished
