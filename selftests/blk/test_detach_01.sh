#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A disk that somebody has open is not taken away (case B14): the toolstack is told within seconds, the
# disk stays usable, and goes by itself when it is closed. The C driver takes it away at once.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 400
# allow-console: EXT4-fs|I/O error

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 7
share_guest
dead="the disk is closed while it is in use"

attach_new g xvdb 32
guest_run g "mkfs.ext4 -q /dev/xvdb && mount /dev/xvdb /mnt"
timeout 60 xl block-detach "$(guest_id g)" "$(vdev_number xvdb)" 2>/dev/null &
job=$!
beyond_c "$dead" "mounted: the toolstack is told" wait_for 5 error_says g xvdb \
	'^16 .*Device in use; refusing to close'
beyond_c "$dead" "mounted: the disk is usable" guest_run g 30 "set -e
	dd if=/dev/urandom of=/mnt/file bs=64k count=16 conv=fsync
	sync
	echo 1 >/proc/sys/vm/drop_caches
	cat /mnt/file >/dev/null"
guest_run g "umount /mnt" >/dev/null
ktap_test "unmounted: detaching completes" wait $job
ktap_test "unmounted: no trace of the disk" no_trace g xvdb

# The toolstack loses patience after 10 s. The guest still lets go when it is done.
disk_attach g "phy:$disk,xvdc,w" || ktap_exit_fail_msg "it does not attach again"
holder=$(guest_start g 60 "exec 3<>/dev/xvdc; until [ -e /tmp/go ]; do sleep 0.1; done
	dd if=/dev/zero bs=4k count=1 oflag=direct 2>&1 >&3")
guest_run g "until ls -l /proc/*/fd/3 2>/dev/null | grep -q /dev/xvdc; do sleep 0.1; done"
! timeout 60 xl block-detach "$(guest_id g)" "$(vdev_number xvdc)" 2>/dev/null
beyond_c "$dead" "open: the toolstack gives up" test $? = 0
guest_run g "touch /tmp/go"
beyond_c "$dead" "open: the last write succeeds" guest_wait "$holder"
if front_reaches g xvdc 6 gone; then
	[ "$(xs_state "$(frontend_path g xvdc)")" = gone ] || disk_detach g xvdc
fi
ktap_test "closed: no trace of the disk" no_trace g xvdc
ktap_finished
