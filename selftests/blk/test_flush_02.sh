#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Whatever a backend says of its disk is what the guest sees (case B23): how it flushes, also with
# neither key there as of old backends, sector sizes, read-only and removable. The disks have no sectors, so
# that nobody reads them: their backends are keys in xenstore and nothing else.
# pairs: rust/c
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What the backend says | write cache, FUA, read-only, removable, logical, physical sector size
cases=("info=0|write through 0 0 0 512 512"
	"info=0 feature-barrier=0 feature-flush-cache=0|write through 0 0 0 512 512"
	"info=0 feature-barrier=1|write back 1 0 0 512 512"
	"info=0 feature-barrier=0 feature-flush-cache=1|write back 0 0 0 512 512"
	"info=0 feature-barrier=1 feature-flush-cache=1|write back 0 0 0 512 512"
	"info=4|write through 0 1 0 512 512"
	"info=2|write through 0 0 1 512 512"
	"info=7|write through 0 1 1 512 512"
	"info=0 sector-size=4096|write through 0 0 0 4096 4096"
	"info=0 physical-sector-size=4096|write through 0 0 0 512 4096"
	"info=0 sector-size=1024 physical-sector-size=2048|write through 0 0 0 1024 2048")
vdevs=(xvda xvdb xvdc xvdd xvde xvdf xvdg xvdh xvdi xvdj xvdk)
ktap_set_plan $((${#cases[@]} + 1))
share_guest
for index in "${!cases[@]}"; do
	hand_make g "${vdevs[index]}"
	# shellcheck disable=SC2086 # several words
	hand_connect g "${vdevs[index]}" sectors=0 sector-size=512 ${cases[index]%|*}
done
for vdev in "${vdevs[@]}"; do
	front_reaches g "$vdev" 4
done
mapfile -t seen < <(guest_run g "for d in ${vdevs[*]}; do
		cd /sys/block/\$d/queue
		echo \$(cat write_cache fua ../ro ../removable logical_block_size physical_block_size)
	done")
for index in "${!cases[@]}"; do
	ktap_equal "${cases[index]%|*}" "${cases[index]#*|}" "${seen[index]}"
done
ktap_test "all are removed" hand_remove g "${vdevs[@]}"
ktap_finished
