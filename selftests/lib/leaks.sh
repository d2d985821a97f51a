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

# Memory that a kernel holds and cannot give back, in KiB. Free pages alone say too little: each CPU keeps free pages
# of its own that MemFree does not count, up to an eighth of a zone.
# shellcheck disable=SC2016 # expanded where it runs
leaks_held='sync; echo 3 >/proc/sys/vm/drop_caches; echo 1 >/proc/sys/vm/compact_memory
	awk "\$1 == \"KernelPageSize:\" { page = \$2; nextfile }
		FILENAME ~ /zoneinfo/ && \$1 == \"count:\" { held -= \$2 * page }
		\$1 == \"MemTotal:\" { held += \$2 }
		/^(MemFree|SReclaimable|Unevictable|Active|Inactive):/ { held -= \$2 }
		END { print held }" /proc/self/smaps /proc/meminfo /proc/zoneinfo'

leaks_memory() {
	guest_run "$1" "$leaks_held"
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

# --- dom0's side --------------------------------------------------------------------------------

# Event channels of dom0, as Xen knows them.
leaks_channels() {
	xl dmesg -c >/dev/null
	xl debug-keys e
	wait_for 10 eval 'xl dmesg | tee /tmp/channels | grep -q "Event channel information for domain 0"'
	awk '/Event channel information for domain/ { ours = / domain 0:/ } ours && / s=[1-9]/ { n++ } END { print n + 0 }' \
		/tmp/channels
}

leaks_dom0() {
	grep -c xen-dyn /proc/interrupts
	leaks_channels
	find /sys/class/net -name 'vif*' | wc -l
	xenstore-ls -f /local/domain/0/backend 2>/dev/null | wc -l
	bash -c "$leaks_held"
}

# leaks_dom0_before, leaks_dom0_after: look at dom0 now.
leaks_dom0_before() {
	mapfile -t leaks_dom0_first < <(leaks_dom0)
}

leaks_dom0_after() {
	mapfile -t leaks_dom0_last < <(leaks_dom0)
}

# leaks_dom0_test ROUNDS: three results about what has changed in dom0 in so many rounds.
leaks_dom0_test() {
	ktap_equal "interrupts and channels of dom0" "${leaks_dom0_first[*]:0:2}" "${leaks_dom0_last[*]:0:2}"
	ktap_equal "interfaces and nodes of dom0" "${leaks_dom0_first[*]:2:2}" "${leaks_dom0_last[*]:2:2}"
	ktap_print_msg "memory of dom0's kernel: ${leaks_dom0_first[4]} KiB, $1 rounds later ${leaks_dom0_last[4]} KiB"
	# Each round may leave little; the kernel's own caches come on top.
	ktap_test "memory of dom0" test $((leaks_dom0_last[4] - leaks_dom0_first[4])) -lt $((64 * $1 + 2048))
}
