#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Programs see the packets that a guest receives (XDP): what they want to become of each is done and counted, in
# one piece and in several, while others are passed on unchanged. Sums are complete when a program sees them. Programs
# come and go under load.
# pairs: rust/rust
# control: rust/c
# timeout: 400

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 29
share_guest
attach_new
guest_put n /run/job/bin/ports.bpf.o

# program SECTION: has the interface run this program.
program() {
	guest_run n "ip link set dev $node xdpdrv obj /tmp/ports.bpf.o sec $1 2>&1"
}

no_program() {
	guest_run n "ip link set dev $node xdpdrv off 2>&1"
}

# refused TEXT COMMAND...: whether a command in the guest fails and says why.
refused() {
	local text=$1 said
	shift
	said=$(guest_run n "$* 2>&1") && return 1
	ktap_print_msg "$said"
	grep -qi -- "$text" <<<"$said"
}

# datagrams PORT COUNT SIZE: sends datagrams of random bytes to a port of the guest's, one after the other if
# they come back, and prints how many did, unchanged.
datagrams() {
	python3 - "$@" <<-'END'
		import os, socket, sys
		port, count, size = map(int, sys.argv[1:])
		echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
		echo.settimeout(5 if port in (7002, 7003) else 0.01)
		good = 0
		for _ in range(count):
		    data = os.urandom(size)
		    # Not connected: errors of the last one would keep the next one from being sent.
		    echo.sendto(data, ("10.0.0.2", port))
		    try:
		        good += echo.recv(65535) == data
		    except TimeoutError:
		        pass
		print(good)
	END
}

# counted NAME COUNT COMMAND...: whether a statistic grows by as much while a command runs. What others send does not
# go where this looks.
counted() {
	local name=$1 count=$2 before after
	shift 2
	before=$(statistic "$name")
	"$@" >/dev/null
	for _ in {1..50}; do
		after=$(statistic "$name")
		[ $((after - before)) = "$count" ] && return
		sleep 0.1
	done
	ktap_print_msg "$name grew by $((after - before)), not $count"
	return 1
}

# udp NAME: a number of the guest's UDP over IPv4.
udp() {
	guest_run n "nstat -az Udp$1 | awk '\$1 == \"Udp$1\" { print \$2 }'"
}

# verdicts SIZE: what the programs do with datagrams of so many bytes, 8 tests.
verdicts() {
	local before errors
	ktap_test "$1: dropped" counted rx_xdp_drop 20 datagrams 7001 20 "$1"
	ktap_equal "$1: sent back" 20 "$(datagrams 7002 20 "$1")"
	ktap_equal "$1: redirected" 20 "$(datagrams 7003 20 "$1")"
	ktap_test "$1: aborted" counted rx_xdp_aborted 20 datagrams 7004 20 "$1"
	ktap_test "$1: an action that there is not" counted rx_xdp_aborted 5 datagrams 7008 5 "$1"
	errors=$(udp InCsumErrors)
	before=$(udp NoPorts)
	datagrams 7005 20 "$1" >/dev/null
	ktap_equal "$1: rewritten, with good sums" "20 0" "$(($(udp NoPorts) - before)) $(($(udp InCsumErrors) - errors))"
	before=$(udp NoPorts)
	datagrams 7007 20 "$1" >/dev/null
	ktap_equal "$1: moved" 20 $(($(udp NoPorts) - before))
	ktap_equal "$1: nothing but that" "0 0" "$(statistic rx_xdp_unfit) $(statistic rx_rejected)"
}

ktap_test "a program" program xdp
ktap_test "... is there" guest_run n "ip -d link show dev $node | grep -q 'prog/xdp '"
ktap_test "... and data passes both ways" both_ways 8
verdicts 1000
ktap_test "a larger MTU takes a program for several pieces" refused "invalid argument" \
	"ip link set dev $node mtu 9000"
ktap_test "a packet has room behind that of the smaller one" guest_run n "ip link set dev $node mtu 3502"
ktap_test "it can go" no_program
ip link set dev "$back" mtu 9000
ip link set dev xenbr0 mtu 9000
guest_run n "ip link set dev $node mtu 9000"
ktap_test "with a larger MTU it is refused" refused "frags" "ip link set dev $node xdpdrv obj /tmp/ports.bpf.o sec xdp"
ktap_test "one for several pieces is not" program xdp.frags
verdicts 8000
ktap_test "data passes both ways" both_ways 8
ktap_test "packets that a program does not see where they are are copied" test "$(statistic rx_xdp_copied)" -gt 0

# Under a stream in either direction, as often as it goes on.
guest_run n "touch /tmp/changing"
handle=$(guest_start n 200 "while [ -e /tmp/changing ]; do
		ip link set dev $node xdpdrv off
		ip link set dev $node xdpdrv obj /tmp/ports.bpf.o sec xdp.frags && echo attached
	done")
ktap_test "data passes both ways while programs come and go" both_ways 24
guest_run n "rm /tmp/changing"
changes=$(guest_wait "$handle" 60 | grep -c attached)
ktap_print_msg "$changes programs have come"
ktap_test "... several times" test "$changes" -ge 4
no_program
ip link set dev xenbr0 mtu 1500
ktap_test "it can be detached" vif_detach n "$vif"
ktap_finished
