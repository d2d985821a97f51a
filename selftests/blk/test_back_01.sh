#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# What the backend shows of a disk: the keys that frontends and toolstacks read, the files in sysfs with
# the content that the C driver's have, what xentop makes of them, and the threads' names.
# pairs: rust/rust
# control: rust/c
# timeout: 300

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 14
share_guest
attach_new g xvdb 32 512 cache_size=4
back=$(backend_path g xvdb)
dir=/sys/bus/xen-backend/devices/vbd-$(guest_id g)-$(vdev_number xvdb)
number=$(printf '%x:%x' "0x$(stat -c %t "$disk")" "0x$(stat -c %T "$disk")")

key() {
	xenstore-read "$back/$1" 2>/dev/null
}

ktap_equal "size" 65536 "$(key sectors)"
ktap_equal "sector sizes" "512 512" "$(key sector-size) $(key physical-sector-size)"
ktap_equal "info" 0 "$(key info)"
ktap_equal "flush and barrier" "1 1" "$(key feature-flush-cache) $(key feature-barrier)"
ktap_equal "limits" "256 2 4" \
	"$(key feature-max-indirect-segments) $(key multi-queue-max-queues) $(key max-ring-page-order)"
ktap_equal "persistent grants" 1 "$(key feature-persistent)"
ktap_equal "discard" "1 0" "$(key feature-discard) $(key discard-secure)"
ktap_equal "state" 4 "$(key state)"
ktap_equal "physical_device" "$number" "$(<"$dir/physical_device")"
ktap_equal "mode" w "$(<"$dir/mode")"

# Reading a partition table may have left some.
before=("$(statistic g xvdb rd_req)" "$(statistic g xvdb rd_sect)" "$(statistic g xvdb wr_req)"
	"$(statistic g xvdb wr_sect)")
guest_run g "dd if=/dev/zero of=/dev/xvdb bs=4k count=10 oflag=direct 2>/dev/null
	dd if=/dev/xvdb of=/dev/null bs=4k count=20 iflag=direct 2>/dev/null"
ktap_equal "statistics count requests and sectors" "20 160 10 80" \
	"$(($(statistic g xvdb rd_req) - before[0])) $(($(statistic g xvdb rd_sect) - before[1])) $(($(\
	statistic g xvdb wr_req) - before[2])) $(($(statistic g xvdb wr_sect) - before[3]))"
ktap_equal "all of them are there" "ds_req f_req oo_req rd_req rd_sect wr_req wr_sect" \
	"$(cd "$dir/statistics" && echo [a-z]*_req [a-z]*_sect | tr ' ' '\n' | grep -xE \
		'(ds|f|oo|rd|wr)_req|(rd|wr)_sect' | sort | paste -sd ' ')"
# Column VBD_RD of the guest's line.
ktap_equal "xentop reads them" "$(statistic g xvdb rd_req)" \
	"$(xentop -b -i 1 -f | awk 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "VBD_RD") c = i }
		$1 == "g" { print $c }')"
ktap_equal "threads" "$(guest_id g).xvdb-0 $(guest_id g).xvdb-1" \
	"$(pgrep -l '^[0-9]+\.xvdb-[0-9]+$' | cut -d' ' -f2 | sort | paste -sd ' ')"
ktap_finished
