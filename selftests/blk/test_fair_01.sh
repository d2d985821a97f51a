#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A guest that floods a disk does not starve another guest's requests to the same one (case B29).
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 4
share_guest
guest_create h timeout=240 || ktap_exit_fail_msg "no second guest"
disk=$(make_disk 64) || ktap_exit_fail_msg "no disk"
half=$(($(blockdev --getsz "$disk") / 2))
# part GUEST START: gives a guest half of the disk.
part() {
	dmsetup create --noudevsync "part-$1" --table "0 $half linear $disk $2" &&
		disk_attach "$1" "phy:/dev/dm-$(dmsetup info -c --noheadings -o minor "part-$1"),xvdb,w"
}
if ! part g 0 || ! part h $half; then
	ktap_exit_fail_msg "no disk in a guest"
fi

# slowest: reads one block after the other for some seconds; prints how many, and the longest time of
# one in milliseconds.
slowest() {
	guest_run h 60 "fio --name=one --filename=/dev/xvdb --direct=1 --rw=randread --bs=4k --iodepth=1 \
		--time_based --runtime=8 --output-format=terse --terse-version=3" |
		awk -F ';' '/^3;/ { print $6 / 4, int($15 / 1000) }'
}

read -r alone _ < <(slowest)
ktap_test "alone: it reads" test "${alone:-0}" -gt 0
handle=$(fio_start g xvdb 60)
wait_for_load g xvdb
read -r beside longest < <(slowest)
ktap_print_msg "$alone blocks in 8 s alone, $beside beside a guest with 32 requests in flight; one took" \
	"$longest ms at most"
# With nothing but its place in the line, one of 33 would be left.
ktap_test "beside a flood: it gets a share" test "${beside:-0}" -gt $((${alone:-0} / 33))
ktap_test "beside a flood: no block takes long" test "${longest:-99999}" -lt "$(stretch 5000)"
guest_run g "pkill fio"
guest_wait "$handle" 30 >/dev/null
ktap_test "the flood ends" test $? != 124
guest_destroy h
disk_detach g xvdb
dmsetup remove --noudevsync part-g part-h
ktap_finished
