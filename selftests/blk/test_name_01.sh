#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Virtual device numbers of all kinds become the right names and minor numbers: xvd, those of the
# extended form, partitions, and emulated SCSI and IDE disks, which are xvd disks, too. The disks
# have no sectors, so that nobody reads them: their backends are keys in xenstore and nothing else.
# pairs: rust/c
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What the toolstack says | the number it makes of that | node, major and minor in the guest
cases=("xvda|51712|xvda 202:0"
	"xvdp|51952|xvdp 202:240"
	"xvdq|268439552|xvdq 202:4096"
	"xvdz|268441856|xvdz 202:6400"
	"xvdaa|268442112|xvdaa 202:6656"
	"xvdzz|268614912|xvdzz 202:179456"
	"xvdg1|51809|xvdg1 202:97"
	"xvdf15|51807|xvdf15 202:95"
	"xvdr3|268439811|xvdr3 202:4355"
	"sdd|2096|xvdd 202:48"
	"sde2|2114|xvde2 202:66"
	"sdr|16656|xvdr 202:272"
	"sddy|32768|xvddy 202:2048"
	"hdb|832|xvdb 202:16"
	"hdc|5632|xvdc 202:32")
ktap_set_plan $((${#cases[@]} + 1))
share_guest
for case in "${cases[@]}"; do
	IFS='|' read -r _ number place <<<"$case"
	numbers+=("$number")
	hand_make g "$number"
	hand_connect g "$number" sectors=0 sector-size=512 info=0
done
for number in "${numbers[@]}"; do
	front_reaches g "$number" 4
done
# Of each device the number, from where the bus has it, and its disk.
seen=$(guest_run g "for n in ${numbers[*]}; do
		cd /sys/bus/xen/devices/vbd-\$n/block && echo \$n \$(ls) \$(cat */dev)
		[ -b /dev/\$(ls) ] || echo \$n has no node
	done")
for case in "${cases[@]}"; do
	IFS='|' read -r vdev number place <<<"$case"
	ktap_equal "$vdev" "$number $place" "$(grep "^$number " <<<"$seen")"
done
ktap_test "all are removed" hand_remove g "${numbers[@]}"
ktap_finished
