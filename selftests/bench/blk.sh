# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Measures pairs of block drivers against each other, with a disk in dom0's memory. Sourced by "run", which sets $rounds
# and $wanted; see pairs.sh.
# shellcheck disable=SC2154

node=/dev/xvdb
# What a run does beside its requests, starting fio above all, is the same for a few requests and for
# many: the difference of two runs is what the requests cost.
#	name|options of fio|few|many requests
workloads=(
	"randread-4k-qd1|--rw=randread --bs=4k --iodepth=1|300|1800"
	"randwrite-4k-qd1|--rw=randwrite --bs=4k --iodepth=1|300|1800"
	"randread-4k-qd32|--rw=randread --bs=4k --iodepth=32|500|4500"
	"read-128k-qd4|--rw=read --bs=128k --iodepth=4|100|600"
	"read-1m-qd4|--rw=read --bs=1m --iodepth=4|20|120"
	"write-1m-qd4|--rw=write --bs=1m --iodepth=4|20|120"
)

# Events taken for the disk's rings.
events_guest() {
	guest_run bench "awk '/blkif/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; i++) n += \$i }
		END { print n + 0 }' /proc/interrupts"
}

events_dom0() {
	awk '/blkif-backend/ { for (i = 2; i <= NF && $i ~ /^[0-9]+$/; i++) n += $i }
		END { print n + 0 }' /proc/interrupts
}

# measure NAME OPTIONS REQUESTS: one run of fio; prints key=value.
measure() {
	local name=$1 options=$2 requests=$3 size output before mark after events field
	size=${options##*--bs=}
	size=${size%% *}
	events="$(events_guest) $(events_dom0)"
	before=$(counts)
	mark=$(marks)
	# shellcheck disable=SC2086 # words
	output=$(guest_run bench 300 "fio --name=bench --filename=$node --direct=1 --ioengine=libaio \
		--randrepeat=1 --norandommap --io_size=$((requests * 1024 * $(kibibytes "$size"))) --size=100% \
		$options --output-format=terse --terse-version=3 2>&1") || {
		echo "fio failed with $name: $output"
		return 1
	}
	after=$(counts)
	# Of fio's terse format: 5 error, 8 read IOPS, 9 time of reading in ms, 49 and 50 the same for writing.
	IFS=';' read -r -a field <<<"$(grep '^3;' <<<"$output" | tail -n 1)"
	if [ "${field[4]:-1}" != 0 ]; then
		echo "fio met an error with $name: $output"
		return 1
	fi
	# shellcheck disable=SC2086 # words
	set -- $events
	echo "milliseconds=$((field[8] + field[49])) events_guest=$(($(events_guest) - $1))" \
		"events_dom0=$(($(events_dom0) - $2)) mark=$mark $(difference "$before" "$after")"
}

kibibytes() {
	case $1 in
	*m) echo $((${1%m} * 1024)) ;;
	*) echo "${1%k}" ;;
	esac
}

disk=$(make_disk 256 512 memory_backed=0) || fail "no disk"
guest_create bench || fail "no guest"
for ((round = 1; round <= rounds; round++)); do
	for pair; do
		backend_swap blkback "${pair#*/}"
		frontend_swap blkfront "${pair%/*}"
		disk_attach bench "phy:$disk,xvdb,w" || fail "the disk does not attach with $pair"
		symbols bench "$pair" || fail "no symbols"
		# The first requests make the pools of persistent grants.
		measure warm "--rw=read --bs=1m --iodepth=4" 64 >/dev/null || exit 1
		for workload in "${workloads[@]}"; do
			IFS='|' read -r name options few many <<<"$workload"
			[[ $name =~ $wanted ]] || continue
			for requests in "$few" "$many"; do
				line=$(measure "$name" "$options" "$requests") || fail "$line"
				echo "result $pair $name/requests $requests $line"
			done
		done
		disk_detach bench xvdb || fail "the disk does not detach with $pair"
	done
	echo "# round $round of $rounds done after $SECONDS s"
done
guest_destroy bench
