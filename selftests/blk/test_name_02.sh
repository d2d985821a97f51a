#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Eight disks at once: none is mistaken for another, and they work side by side. A ninth whose
# minor numbers another one has is refused, and harms none.
# pairs: rust/c
# control: c/c
# tier: long
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
vdevs=(xvda xvdb xvdc xvdd xvde xvdp xvdq xvdz)
for index in "${!vdevs[@]}"; do
	disk=$(make_disk $((16 + index)))
	echo "this is ${vdevs[index]}" | dd "of=$disk" conv=sync oflag=direct 2>/dev/null
	disk_attach g "phy:$disk,${vdevs[index]},w" nowait
	sizes="$sizes ${vdevs[index]}=$(((16 + index) * 2048))"
done
for vdev in "${vdevs[@]}"; do
	disk_wait g "$vdev"
done
ktap_equal "each has its size" "$sizes" "$(guest_run g \
	"for d in ${vdevs[*]}; do echo -n \" \$d=\$(cat /sys/block/\$d/size)\"; done")"
ktap_test "each is itself" guest_run g \
	"for d in ${vdevs[*]}; do head -c 12 /dev/\$d | grep -qx \"this is \$d\" || exit 1; done"
ktap_test "all work at once" guest_run g 100 "for d in ${vdevs[*]}; do
		fio --name=\$d --filename=/dev/\$d --direct=1 --ioengine=libaio --iodepth=8 --rw=randrw \
			--bs=4k --size=1m --verify=crc32c --verify_pattern=0x\$RANDOM >/tmp/\$d 2>&1 &
		jobs+=(\$!)
	done
	for job in \${jobs[@]}; do wait \$job || exit 1; done"

hand_make g xvdb1
hand_state g xvdb1 2
front_reaches g xvdb1 3
hand_state g xvdb1 4 sectors=0 sector-size=512 info=0
wait_for 10 error_says g xvdb1 .
ktap_equal "one in another's place is refused" 16 "$(error_node g xvdb1 | grep -oE '^[0-9]+')"
hand_remove g xvdb1
ktap_test "and that other works" disk_works g xvdb
ktap_finished
