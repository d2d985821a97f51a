# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Whether something is left behind when a guest's devices come and go.

# Grant frames grow when references are not given back: a ring takes hundreds of them.
leaks_grants() {
	xen-diag gnttab_query_size "$(guest_id "$1")" | grep -oE '\bnr_frames=[0-9]+'
}

# Pages of the guest that other domains have mapped now.
leaks_mapped() {
	xl dmesg -c >/dev/null
	xl debug-keys g
	wait_for 10 eval 'xl dmesg | tee /tmp/grants | grep -q "gnttab_usage_print_all . done"'
	awk -v "id=$(guest_id "$1")" '/grant-table for remote d/ { ours = $0 ~ "remote d" id " " }
		ours && /^\(XEN\) \[0x/ { n++ } END { print n + 0 }' /tmp/grants
}

leaks_nodes() {
	{
		xenstore-ls -f "$(guest_home "$1")/device"
		xenstore-ls -f /local/domain/0/backend
	} | wc -l
}

leaks_interrupts() {
	guest_run "$1" "grep -c xen-dyn /proc/interrupts"
}

# Memory that the guest's kernel holds and cannot give back, in KiB. Free pages alone say too little: each CPU
# keeps free pages of its own that MemFree does not count, up to an eighth of a zone.
leaks_memory() {
	# shellcheck disable=SC2016 # expanded in the guest
	guest_run "$1" 'sync; echo 3 >/proc/sys/vm/drop_caches; echo 1 >/proc/sys/vm/compact_memory
		awk "\$1 == \"KernelPageSize:\" { page = \$2; nextfile }
			FILENAME ~ /zoneinfo/ && \$1 == \"count:\" { held -= \$2 * page }
			\$1 == \"MemTotal:\" { held += \$2 }
			/^(MemFree|SReclaimable|Unevictable|Active|Inactive):/ { held -= \$2 }
			END { print held }" /proc/self/smaps /proc/meminfo /proc/zoneinfo'
}

leaks_all() {
	leaks_grants "$1"
	leaks_mapped "$1"
	leaks_nodes "$1"
	leaks_interrupts "$1"
	leaks_memory "$1"
}

# leaks_before NAME, leaks_after NAME: look at the guest now.
leaks_before() {
	mapfile -t leaks_first < <(leaks_all "$1")
}

leaks_after() {
	mapfile -t leaks_last < <(leaks_all "$1")
}

# leaks_test ROUNDS: five results about what has changed in so many rounds between the two looks.
leaks_test() {
	ktap_equal "grant frames" "${leaks_first[0]}" "${leaks_last[0]}"
	ktap_equal "mapped pages" "${leaks_first[1]}" "${leaks_last[1]}"
	ktap_equal "nodes in xenstore" "${leaks_first[2]}" "${leaks_last[2]}"
	ktap_equal "interrupts" "${leaks_first[3]}" "${leaks_last[3]}"
	ktap_print_msg "memory of the kernel: ${leaks_first[4]} KiB, $1 rounds later ${leaks_last[4]} KiB"
	ktap_test "memory" test $((leaks_last[4] - leaks_first[4])) -lt $((64 * $1))
}
