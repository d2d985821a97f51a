#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Users choose by which queue packets come, through the control ring: a key, a table and what is hashed. Each flow
# comes by the queue that the hash of Toeplitz says, also when the backend is another one. A backend that does not
# answer is not waited for without end.
# pairs: rust/rust
# control: rust/c
# tier: long
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 20
share_guest
attach_new

# refused ERROR COMMAND...: whether a command in the guest fails with this error.
refused() {
	local error=$1 said
	shift
	said=$(guest_run n "$* 2>&1") && return 1
	ktap_print_msg "$said"
	grep -qi "$error" <<<"$said"
}

# events QUEUE: how many events of a queue's receiving side there have been.
events() {
	guest_run n "awk '/vif$vif-q$1-rx/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; i++) sum += \$i } END { print sum }' \
		/proc/interrupts"
}

# comes_by QUEUE COMMAND...: whether, while a command sends, events of a queue are many more than the other one's.
comes_by() {
	local queue=$1 own other
	shift
	own=$(events "$queue")
	other=$(events $((1 - queue)))
	"$@" || return
	own=$(($(events "$queue") - own))
	other=$(($(events $((1 - queue))) - other))
	ktap_print_msg "$own events of queue $queue, $other of the other one"
	[ "$own" -gt $((4 * (other + 1))) ]
}

# flow PORT: sends 4 MiB by TCP from this port.
flow() {
	local handle
	handle=$(guest_start n 60 "busybox nc -l -p 5001 >/dev/null") || return
	wait_for 10 guest_listens 5001 || return
	python3 - "$1" <<-'END'
		import socket, sys
		flow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
		flow.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		flow.bind(("10.0.0.1", int(sys.argv[1])))
		flow.connect(("10.0.0.2", 5001))
		flow.sendall(bytes(4 << 20))
	END
	guest_wait "$handle" 60
}

echoes() {
	ping -q -c 100 -i 0.01 -s 1000 10.0.0.2 >/dev/null
}

# ports QUEUE: two source ports whose flows the hash sends to a queue, with the key in $key and a table that
# alternates.
ports() {
	python3 - "$1" "$key" <<-'END'
		import socket, sys
		key = int(sys.argv[2].replace(":", ""), 16)
		def hash(data):
		    value = 0
		    for bit in range(8 * len(data)):
		        if data[bit // 8] >> (7 - bit % 8) & 1:
		            value ^= key >> (320 - 32 - bit) & 0xffffffff
		    return value
		addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
		found = [port for port in range(40000, 40100)
		         if hash(addresses + port.to_bytes(2, "big") + (5001).to_bytes(2, "big")) % 128 % 2 == int(sys.argv[1])]
		print(*found[:2])
	END
}

# spread: whether flows come by the queues that they should.
spread() {
	local queue port
	for queue in 0 1; do
		for port in $(ports $queue); do
			comes_by $queue flow "$port" || return
		done
	done
}

ktap_equal "a table of 128 entries" 128 \
	"$(guest_run n "ethtool -x $node | awk '/^ *[0-9]+:/ { count += NF - 1 } END { print count }'")"
ktap_test "nothing is hashed at first" guest_run n "! ethtool -x $node | grep -q 'toeplitz: on'"
ktap_test "everything by the first queue" guest_run n "ethtool -X $node weight 1 0"
ktap_test "... is hashed" guest_run n "ethtool -x $node | grep -q 'toeplitz: on'"
ktap_test "... and comes by it" comes_by 0 echoes
ktap_test "everything by the second queue" guest_run n "ethtool -X $node start 1 equal 1"
ktap_test "... comes by that" comes_by 1 echoes
key=$(od -An -v -t x1 -N 40 /dev/urandom | tr -d '\n' | sed 's/^ //; s/ /:/g')
ktap_test "another key" guest_run n "ethtool -X $node hkey $key equal 2"
ktap_test "... is what it is" guest_run n "ethtool -x $node | grep -q '$key'"
ktap_test "a key of another length is refused" refused "" "ethtool -X $node hkey 01:02"
ktap_test "TCP comes by its ports" guest_run n "ethtool -n $node rx-flow-hash tcp4 | grep -q 'L4 bytes 2 & 3'"
ktap_test "flows come by the queues that the hash says" spread
ktap_test "fewer queues than the table names are refused" refused "indirection" "ethtool -L $node combined 1"
ktap_test "UDP's ports are not hashed" refused "invalid" "ethtool -N $node rx-flow-hash udp4 sdfn"
ktap_test "TCP by its addresses" guest_run n "ethtool -N $node rx-flow-hash tcp4 sd &&
	! ethtool -n $node rx-flow-hash tcp4 | grep -q 'L4 bytes'"
guest_run n "ethtool -N $node rx-flow-hash tcp4 sdfn"
ktap_test "the guest moves" guest_migrate n
wait_for 20 vif_connected n "$vif"
wait_for 20 vif_reachable 2
ktap_test "... and it is as before" spread
ktap_test "it can be detached" vif_detach n "$vif"

hand_make 77 feature-ctrl-ring=1 multi-queue-max-queues=2
front_reaches 77 4
silent=$(guest_run n "ls /sys/bus/xen/devices/vif-77/net")
ktap_test "a backend that does not answer" refused "timed out" "ethtool -X $silent equal 2"
ktap_test "... is not asked again" refused "Input/output" "timeout 1 ethtool -X $silent equal 2"
hand_remove 77
ktap_finished
