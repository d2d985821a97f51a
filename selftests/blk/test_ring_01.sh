#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# As many rings as max_queues says, of as many pages as max_ring_page_order says, are announced as
# the protocol has it, and work with more requests than fit into them.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
pairs=("1 4" "2 1" "4 3")
ktap_set_plan $((${#pairs[@]} * 4))
guest_create q vcpus=4 timeout=240 || ktap_exit_fail_msg "no guest"
disk=$(make_disk 32)
# Dom0 has fewer CPUs than the guest, which would limit the queues.
limit=/sys/module/xen_blkback/parameters/max_queues
saved=$(<$limit)
echo 4 >$limit

# expected_keys QUEUES ORDER: the names of all keys that tell the backend of the rings.
expected_keys() {
	local queue page folder=''
	[ "$2" = 0 ] || echo ring-page-order
	[ "$1" = 1 ] || echo multi-queue-num-queues
	for ((queue = 0; queue < $1; queue++)); do
		[ "$1" = 1 ] || folder=queue-$queue/
		echo "${folder}event-channel"
		[ "$2" != 0 ] || echo "${folder}ring-ref"
		for ((page = 0; $2 > 0 && page < 1 << $2; page++)); do
			echo "${folder}ring-ref$page"
		done
	done
}

keys() {
	xenstore-ls -f "$front" | sed "s|^$front/||" | grep -E '(ring|queues|event-channel)[^/]* = '
}

for pair in "${pairs[@]}"; do
	read -r queues order <<<"$pair"
	name="$queues rings, order $order"
	guest_run q "rmmod xen-blkfront && modprobe xen-blkfront max_queues=$queues \
		max_ring_page_order=$order" || ktap_exit_fail_msg "the driver does not load"
	disk_attach q "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
	front=$(frontend_path q xvdb)
	ktap_equal "$name: names of the keys" "$(expected_keys "$queues" "$order" | sort)" \
		"$(keys | sed 's/ = .*//' | sort)"
	# No page and no event channel serves two purposes.
	ktap_equal "$name: no reference twice" "" \
		"$(keys | sed -n 's/.*ring-ref.* = //p' | sort | uniq -d)"
	ktap_equal "$name: queues of the disk, requests of each" "$queues $((32 << order))" \
		"$(guest_run q "cd /sys/block/xvdb/mq && echo \$(ls | wc -l) \$(cat 0/nr_tags)")"
	ktap_test "$name: 1024 requests at once" fio_guest q /dev/xvdb 60 --rw=randrw --bs=4k \
		--iodepth=256 --numjobs=4 --size=2m --offset_increment=8m --verify=crc32c \
		--verify_fatal=1
	disk_detach q xvdb || break
done
echo "$saved" >$limit
ktap_finished
