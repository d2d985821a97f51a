#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk can be attached and detached again and again (case B15): each time it is there soon and works,
# and nothing is leaked: no interrupts, event channels, grants, memory or nodes in xenstore.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 7
share_guest
disk=$(make_disk 16)
rounds=${rounds:-30}

# Grant frames grow when references are not given back: a ring takes hundreds of them.
grants() {
	xen-diag gnttab_query_size "$(guest_id g)" | grep -oE 'nr_frames=[0-9]+'
}

# Pages of the guest that other domains have mapped now.
mapped() {
	xl dmesg -c >/dev/null
	xl debug-keys g
	wait_for 10 eval 'xl dmesg | tee /tmp/grants | grep -q "gnttab_usage_print_all . done"'
	awk -v "id=$(guest_id g)" '/grant-table for remote d/ { ours = $0 ~ "remote d" id " " }
		ours && /^\(XEN\) \[0x/ { n++ } END { print n + 0 }' /tmp/grants
}

nodes() {
	{
		xenstore-ls -f "$(guest_home g)/device"
		xenstore-ls -f /local/domain/0/backend
	} | wc -l
}

interrupts() {
	guest_run g "grep -c xen-dyn /proc/interrupts"
}

# Memory that the guest's kernel holds and cannot give back, in KiB. Free pages alone say too little: each CPU
# keeps free pages of its own that MemFree does not count, up to an eighth of a zone.
memory() {
	guest_run g 'sync; echo 3 >/proc/sys/vm/drop_caches; echo 1 >/proc/sys/vm/compact_memory
		awk "\$1 == \"KernelPageSize:\" { page = \$2; nextfile }
			FILENAME ~ /zoneinfo/ && \$1 == \"count:\" { held -= \$2 * page }
			\$1 == \"MemTotal:\" { held += \$2 }
			/^(MemFree|SReclaimable|Unevictable|Active|Inactive):/ { held -= \$2 }
			END { print held }" /proc/self/smaps /proc/meminfo /proc/zoneinfo'
}

cycle() {
	local begun=$SECONDS
	disk_attach g "phy:$disk,xvdb,w" || return
	[ $((SECONDS - begun)) -le 15 ] || ktap_print_msg "round $round: $((SECONDS - begun)) s"
	guest_run g "head -c 262144 /dev/urandom >/tmp/data &&
		dd if=/tmp/data of=/dev/xvdb bs=128k oflag=direct 2>/dev/null &&
		dd if=/dev/xvdb bs=64k count=4 iflag=direct 2>/dev/null | cmp - /tmp/data" &&
		disk_detach g xvdb && [ $((SECONDS - begun)) -le "$(stretch 30)" ]
}

done=0
for ((round = 1; round <= rounds; round++)); do
	cycle && done=$((done + 1))
	# By then everything that is allocated once has been.
	if [ "$round" = 5 ]; then
		before=("$(grants)" "$(mapped)" "$(nodes)" "$(interrupts)" "$(memory)")
	fi
done
after=("$(grants)" "$(mapped)" "$(nodes)" "$(interrupts)" "$(memory)")
ktap_equal "every time in time, with its data" "$rounds" "$done"
ktap_equal "grant frames" "${before[0]}" "${after[0]}"
ktap_equal "mapped pages" "${before[1]}" "${after[1]}"
ktap_equal "nodes in xenstore" "${before[2]}" "${after[2]}"
ktap_equal "interrupts" "${before[3]}" "${after[3]}"
ktap_print_msg "memory of the kernel: ${before[4]} KiB after 5 rounds, ${after[4]} KiB after $rounds"
ktap_test "memory" test $((after[4] - before[4])) -lt $((64 * (rounds - 5)))
ktap_test "no trace of the disk" no_trace g xvdb
ktap_finished
