#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What a frontend writes that makes no sense is refused, with a reason in the error node, and the device
# can be removed. The frontends are keys in xenstore and nothing else, in a guest that does not look at
# them.
# pairs: rust/rust
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What the frontend says | what the backend complains of
cases=("protocol=x86_16-abi ring-ref=8 event-channel=1|unknown fe protocol x86_16-abi"
	"protocol=x86_64-abi event-channel=1|ring-ref is missing"
	"protocol=x86_64-abi ring-ref=8|event-channel is missing"
	"protocol=x86_64-abi ring-ref=abc event-channel=1|ring-ref is \"abc\", not a decimal number"
	"protocol=x86_64-abi ring-ref=4294967295 event-channel=1|mapping"
	"protocol=x86_64-abi ring-ref=-1 event-channel=1|ring-ref is \"-1\", not"
	"protocol=x86_64-abi multi-queue-num-queues=0|guest requested 0 queues"
	"protocol=x86_64-abi multi-queue-num-queues=3|guest requested 3 queues, exceeding the maximum"
	"protocol=x86_64-abi multi-queue-num-queues=4294967296|multi-queue-num-queues is"
	"protocol=x86_64-abi ring-page-order=5|requested ring page order 5 exceed max:4"
	"protocol=x86_64-abi ring-page-order=0 ring-ref=8 event-channel=1|ring-ref is missing"
	"protocol=x86_64-abi feature-persistent=maybe|feature-persistent is \"maybe\"")
ktap_set_plan $((${#cases[@]} + 2))
share_guest
disk=$(make_disk 16)
id=$(guest_id g)
number=$(printf '%x:%x' "0x$(stat -c %t "$disk")" "0x$(stat -c %T "$disk")")

# A device type of its own keeps the guest's driver away.
front=/local/domain/$id/device/pretence
back=/local/domain/0/backend/vbd/$id

complains() {
	xenstore-read "/local/domain/0/error/backend/vbd/$id/$1/error" 2>/dev/null | grep -qF -- "$2"
}

for index in "${!cases[@]}"; do
	pairs=()
	for word in ${cases[index]%|*}; do
		pairs+=("$front/$index/${word%%=*}" "${word#*=}")
	done
	xenstore-write -- "$front/$index/state" 1 "${pairs[@]}" "$back/$index/frontend" "$front/$index" \
		"$back/$index/frontend-id" "$id" "$back/$index/online" 1 "$back/$index/mode" w \
		"$back/$index/dev" "xvd$index" "$back/$index/physical-device" "$number" \
		"$back/$index/state" 1
done
for index in "${!cases[@]}"; do
	wait_for 10 xs_state_is "$back/$index" 2
	xenstore-write "$front/$index/state" 3
done
for index in "${!cases[@]}"; do
	ktap_test "${cases[index]%|*}" wait_for 10 complains "$index" "${cases[index]#*|}"
done
for index in "${!cases[@]}"; do
	xenstore-rm "$back/$index"
	xenstore-rm "$front/$index"
	xenstore-rm "/local/domain/0/error/backend/vbd/$id/$index" 2>/dev/null
done
none_left() {
	! compgen -G "/sys/bus/xen-backend/devices/vbd-$id-*" >/dev/null
}
ktap_test "all are removed" wait_for 10 none_left
disk_attach g "phy:$disk,xvdb,w"
ktap_test "a disk works" disk_works g xvdb
ktap_finished
