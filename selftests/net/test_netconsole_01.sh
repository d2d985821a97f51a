#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest's kernel log goes out by its interface (netconsole): that is sent with interrupts off, from wherever the
# kernel prints, also in the middle of receiving. It does not block, whatever else goes over the interface, and the
# lines arrive.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 200
# tier: long

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 8
share_guest
attach_new

# The guest's module tree does not have it.
python3 - "$(modinfo -n netconsole)" >/tmp/netconsole.ko <<'END' || ktap_exit_fail_msg "no netconsole"
import lzma, sys
data = open(sys.argv[1], "rb").read()
sys.stdout.buffer.write(lzma.decompress(data) if sys.argv[1].endswith(".xz") else data)
END
guest_put n /tmp/netconsole.ko || ktap_exit_fail_msg "no netconsole"
tcpdump -i "$back" -n -l -A --immediate-mode udp port 6666 >/tmp/lines 2>/tmp/lines.log &
capture=$!
wait_for 20 grep -q listening /tmp/lines.log
ktap_test "netconsole starts" guest_run n "sysctl -qw kernel.printk_devkmsg=on; modprobe configfs; insmod /tmp/netconsole.ko \
	netconsole=6665@10.0.0.2/$node,6666@10.0.0.1/$(cat /sys/class/net/xenbr0/address)"

# print NAME COUNT: whether so many lines arrive.
print() {
	guest_run n 60 "for ((i = 0; i < $2; i++)); do echo \"<1>$1 \$i end\"; done >/dev/kmsg" &&
		wait_for 20 arrived "$1" "$2"
	ktap_print_msg "$1: $(grep -c "$1 [0-9]* end" /tmp/lines) of $2"
}

arrived() {
	[ "$(grep -cE "$1 [0-9]+ end" /tmp/lines)" -ge "$2" ]
}

# The kernel gives up on a line when it finds no memory or the queue in use for too long. What it hands over arrives.
settled() {
	[ "$(counter guest tx_packets)" = "$(counter dom0 rx_packets)" ]
}

print idle 50
ktap_test "lines arrive" arrived idle 40
ktap_print_msg "sent $(counter guest tx_packets), received $(counter dom0 rx_packets)"
ktap_test "nothing that was sent is lost" wait_for 10 settled
ktap_test "data begins to go" streams_begin n
streams_go n "$vif"
print busy 200
ktap_test "lines arrive under load" arrived busy 50
guest_run n "echo m >/proc/sysrq-trigger"
ktap_test "data goes on" streams_go n "$vif"
ktap_test "nothing of it is lost" streams_end n
kill $capture
guest_run n "rmmod netconsole"
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
