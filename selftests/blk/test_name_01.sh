#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Virtual device numbers of all kinds become the right names and minor numbers: xvd, those of the
# extended form, partitions, and emulated SCSI and IDE disks, which are xvd disks, too.
# drivers: rust c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
# What the toolstack is told | the number it makes of that | node, major and minor in the guest
cases=("xvda|51712|xvda 202:0"
	"xvdp|51952|xvdp 202:240"
	"xvdq|268439552|xvdq 202:4096"
	"xvdz|268441856|xvdz 202:6400"
	"xvdaa|268442112|xvdaa 202:6656"
	"xvdzz|268614912|xvdzz 202:179456"
	"xvdb1|51729|xvdb1 202:17"
	"xvdc15|51759|xvdc15 202:47"
	"xvdr3|268439811|xvdr3 202:4355"
	"sdd|2096|xvdd 202:48"
	"sde2|2114|xvde2 202:66"
	"hda|768|xvda 202:0"
	"hdd|5696|xvdd 202:48")
ktap_set_plan ${#cases[@]}
share_guest
disk=$(make_disk 16)
for case in "${cases[@]}"; do
	IFS='|' read -r vdev number place <<<"$case"
	node=${place%% *}
	disk_attach g "phy:$disk,$vdev,w" nowait
	wait_for 20 has_node g "$node"
	ktap_equal "$vdev" "$number $place" "$(xenstore-list "$(guest_home g)/device/vbd") $node $(
		block_keys g "$node" dev)"
	disk_detach g "$number"
done
ktap_finished
