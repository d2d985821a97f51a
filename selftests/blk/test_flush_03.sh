#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The power goes, and what was fsync()ed before is there (case B23). All that reaches the device in
# dom0 is recorded by dm-log-writes, while the guest writes files, some of them synchronously, on ext4.
# Replayed up to a moment, the record is what the disk would hold had the power gone then.
# pairs: rust/rust
# control: rust/c c/rust c/c
# timeout: 600

# shellcheck source=selftests/blk/common.sh
. ./common.sh
files=6
cuts=6
ktap_set_plan $((files + cuts + 3))
share_guest
modprobe dm-log-writes || ktap_exit_fail_msg "the kernel has no dm-log-writes"
if ! device=$(make_disk 48) || ! log=$(make_disk 192); then
	ktap_exit_fail_msg "no disks"
fi
dmsetup create --noudevsync recorded --table \
	"0 $(blockdev --getsz "$device") log-writes $device $log" || ktap_exit_fail_msg "no recorder"
disk=/dev/dm-$(dmsetup info -c --noheadings -o minor recorded)
disk_attach g "phy:$disk,xvdb,w" || ktap_exit_fail_msg "no disk"
ktap_test "the guest may flush" guest_run g "grep -q 'write back' /sys/block/xvdb/queue/write_cache"

guest_run g "mkfs.ext4 -q /dev/xvdb && mount /dev/xvdb /mnt" || ktap_exit_fail_msg "no file system"
# What nobody waits for is written all the time.
noise=$(guest_start g 300 "until [ -e /tmp/stop ]; do dd if=/dev/zero of=/mnt/noise bs=64k count=24 2>/dev/null
	rm /mnt/noise; sync -f /mnt; done")
sums=()
for ((file = 1; file <= files; file++)); do
	sums[file]=$(guest_run g 60 "dd if=/dev/urandom of=/mnt/file$file bs=48k count=3 conv=fsync 2>/dev/null
		sha256sum </mnt/file$file")
	dmsetup message recorded 0 mark "synced-$file"
done
guest_run g "touch /tmp/stop"
guest_wait "$noise" 60 >/dev/null
guest_run g "umount /mnt" || ktap_exit_fail_msg "the file system does not unmount"
disk_detach g xvdb
dmsetup remove --noudevsync recorded || ktap_exit_fail_msg "the recorder does not stop"
log-writes-replay "$log" --list >/tmp/entries || ktap_exit_fail_msg "the record cannot be read"
ktap_print_msg "$(wc -l </tmp/entries) entries," \
	"$(grep -c flush /tmp/entries) flushes, $(grep -c fua /tmp/entries) FUA"

# cut NUMBER: mounts what the disk would hold had the power gone before that entry.
cut() {
	target=$(make_disk 48) && log-writes-replay "$log" --to "$1" --onto "$target" &&
		mkdir -p /tmp/cut && mount "$target" /tmp/cut
}

# mend: ends what cut began; whether the file system is clean once its journal was replayed.
mend() {
	umount /tmp/cut && e2fsck -fn "$target" >/tmp/e2fsck 2>&1
	set -- $?
	[ "$1" = 0 ] || tail -n 3 /tmp/e2fsck | sed 's/^/# /'
	remove_disk "$target"
	return "$1"
}

# holds NUMBER FILE: whether all files up to this one are there after the power went.
holds() {
	local file ok=0
	cut "$1" || return
	for ((file = 1; file <= $2; file++)); do
		[ "$(sha256sum </tmp/cut/file$file)" = "${sums[file]}" ] || {
			ktap_print_msg "file $file is not what was written"
			ok=1
		}
	done
	mend && return $ok
}

entry_of() {
	awk -v name="$1" '$NF == name { print $1 }' /tmp/entries
}

for ((file = 1; file <= files; file++)); do
	ktap_test "cut after file $file: all files are there" holds "$(entry_of "synced-$file")" $file
done

# The check can fail: a moment earlier the last file is not there.
earlier=$(entry_of "synced-$((files - 1))")
misses() {
	cut "$1" && ! [ "$(sha256sum </tmp/cut/file$files)" = "${sums[files]}" ]
	set -- $?
	mend && return "$1"
}
ktap_test "cut before file $files: it is not there" misses "$earlier"

# Anywhere after the file system was made.
begin=$(entry_of synced-1)
end=$(entry_of "synced-$files")
clean() {
	cut "$1" && mend
}
for ((number = 1; number <= cuts; number++)); do
	at=$((begin + (end - begin) * number / (cuts + 1)))
	ktap_test "cut at entry $at: the file system is clean" clean $at
done
remove_disk "$log"
remove_disk "$device"
ktap_test "dom0 has nothing mounted" eval "! mountpoint -q /tmp/cut"
ktap_finished
