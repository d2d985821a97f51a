# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Measures pairs of network drivers against each other: a guest with one virtual CPU and one interface, and dom0,
# whose interface is on a bridge. Sourced by "run", which sets $rounds and $wanted; see pairs.sh.
# shellcheck disable=SC2154

# What a run does beside its traffic, starting programs above all, is the same for little traffic and for much:
# the difference of two runs is what the traffic costs.
#	name|what is counted|function and its options|little|much
workloads=(
	"tcp-out|KiB|stream|8192|139264"
	"tcp-in|KiB|stream -R|8192|139264"
	"tcp-out-4|KiB|stream -P 4|8192|139264"
	"tcp-in-4|KiB|stream -P 4 -R|8192|139264"
	"udp-64-out|packets|datagrams 64|500|10500"
	"udp-64-in|packets|datagrams 64 in|500|10500"
	"udp-1400-out|packets|datagrams 1400|500|10500"
	"udp-1400-in|packets|datagrams 1400 in|500|10500"
	"tcp-rr|requests|round_trips|200|3200"
)
there=10.0.0.1
# An address that the other end does not take for its own, so that packets end where the driver has handed them over.
nobody=10.0.0.9
# Words for fio, which sends by the network as it does to disks.
sending=(fio --name=bench --ioengine=net --rw=write --bs=64 --output-format=terse --terse-version=3)

# Events taken for the interface's rings.
events_guest() {
	guest_run bench "awk '/-q[0-9]+/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; i++) n += \$i }
		END { print n + 0 }' /proc/interrupts"
}

events_dom0() {
	awk '/vif[0-9.]+-q[0-9]+/ { for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i }
		END { print n + 0 }' /proc/interrupts
}

# received: packets that have arrived, at both ends together.
received() {
	echo $(($(guest_run bench "cat /sys/class/net/$node/statistics/rx_packets") + \
		$(<"/sys/class/net/$back/statistics/rx_packets")))
}

# stream KIB [OPTION...]: one transfer by TCP. Prints how much it was, and the milliseconds.
stream() {
	local kib=$1
	shift
	guest_run bench 300 "iperf3 -J -c $there -n ${kib}K $*" | python3 -c '
import json, sys
end = json.load(sys.stdin)["end"]["sum_received"]
print(end["bytes"] // 1024, f"milliseconds={end["seconds"] * 1000:.0f}")'
}

# datagrams NUMBER LENGTH [in]: as fast as the sender can send them; counts those that arrive.
datagrams() {
	local before output command
	command="${sending[*]} --protocol=udp --hostname=$nobody --port=9 --bs=$2 --size=$(($1 * $2))"
	before=$(received)
	if [ "$3" = in ]; then
		ip neigh replace $nobody lladdr "$(guest_run bench "cat /sys/class/net/$node/address")" dev xenbr0
		# shellcheck disable=SC2086 # words
		output=$(timeout 300 $command)
	else
		output=$(guest_run bench 300 "ip neigh replace $nobody lladdr $(</sys/class/net/xenbr0/address) dev $node
			$command")
	fi || return
	echo $(($(received) - before)) "milliseconds=$(cut -d ';' -f 50 <<<"$output")"
}

# round_trips NUMBER: messages by TCP of 64 bytes and their answers, one at a time.
round_trips() {
	local size=$((64 * $1)) server
	timeout 300 fio --name=server --ioengine=net --listen --protocol=tcp --port=11111 --rw=read --pingpong=1 \
		--bs=64 --size=$size >/tmp/server 2>&1 &
	server=$!
	wait_for 20 serves || return
	guest_run bench 300 "${sending[*]} --protocol=tcp --hostname=$there --port=11111 --pingpong=1 --size=$size" >/tmp/client
	wait $server || return
	awk -F ';' -v number="$1" '/^3;/ && $5 == 0 { sub(/.*=/, "", $65); sub(/.*=/, "", $71)
		print number, "milliseconds=" $50, "p50_us=" $65, "p99_us=" $71 }' /tmp/client
}

serves() {
	ss -Hlnt 'sport = 11111' | grep -q .
}

# measure COMMAND AMOUNT: one run; prints what was counted and key=value.
measure() {
	local function=$1 options=$2 amount=$3 before mark after output events
	events="$(events_guest) $(events_dom0)"
	before=$(counts)
	mark=$(marks)
	# shellcheck disable=SC2086 # words
	if ! output=$("$function" "$amount" $options) || [[ $output != [0-9]*milliseconds=* ]]; then
		echo "$function $amount $options failed: $output"
		return 1
	fi
	after=$(counts)
	# shellcheck disable=SC2086 # words
	set -- $events
	echo "$output events_guest=$(($(events_guest) - $1)) events_dom0=$(($(events_dom0) - $2))" \
		"mark=$mark $(difference "$before" "$after")"
}

guest_create bench || fail "no guest"
iperf3 -s -D || fail "iperf3 does not serve"
for ((round = 1; round <= rounds; round++)); do
	for pair; do
		backend_swap netback "${pair#*/}"
		frontend_swap netfront "${pair%/*}"
		if ! vif=$(vif_attach bench) || ! vif_up bench "$vif" 2; then
			fail "no interface with $pair"
		fi
		node=$(vif_node bench "$vif")
		back=$(vif_name bench "$vif")
		symbols bench "$pair" || fail "no symbols"
		# The first packets make pools.
		if ! stream 16384 >/dev/null || ! stream 16384 -R >/dev/null; then
			fail "no traffic with $pair"
		fi
		for workload in "${workloads[@]}"; do
			IFS='|' read -r name unit command little much <<<"$workload"
			[[ $name =~ $wanted ]] || continue
			for amount in "$little" "$much"; do
				line=$(measure "${command%% *}" "${command#"${command%% *}"}" "$amount") || fail "$pair: $line"
				echo "result $pair $name/$unit $line"
			done
		done
		vif_detach bench "$vif" || fail "the interface does not detach with $pair"
	done
	echo "# round $round of $rounds done after $SECONDS s"
done
guest_destroy bench
