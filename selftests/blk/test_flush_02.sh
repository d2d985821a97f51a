#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Whatever a backend says of its disk is what the guest sees: how it flushes, also with neither key
# there as of old backends, sector sizes, read-only and removable. The disks have no sectors, so
# that nobody reads them: their backends are keys in xenstore and nothing else.
# drivers: rust c
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
ktap_set_plan ${#cases[@]}
share_guest
for case in "${cases[@]}"; do
	keys=${case%|*}
	hand_make g xvdd
	hand_state g xvdd 2
	front_reaches g xvdd 3
	# shellcheck disable=SC2086 # several words
	hand_state g xvdd 4 sectors=0 sector-size=512 $keys
	front_reaches g xvdd 4
	wait_for 10 has_node g xvdd
	ktap_equal "$keys" "${case#*|}" "$(block_keys g xvdd queue/write_cache queue/fua ro removable \
		queue/logical_block_size queue/physical_block_size)"
	hand_remove g xvdd
done
ktap_finished
