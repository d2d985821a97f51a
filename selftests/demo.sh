#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The drivers' main job, done by the Rust driver and then, as a control, by the C driver: a disk
# is attached to a running guest, files survive detaching and attaching it again, and fio finds
# every block as it was written. Prints one table. Arguments: the drivers to run (rust c).

# shellcheck source=selftests/lib/xen.sh
. "$XENVM_LIB/xen.sh"

size=192
drivers=("$@")
if [ ${#drivers[@]} = 0 ]; then
	drivers=(rust c)
	if [ "${XENVM_FRONT_BLKFRONT:-c}" = c ]; then
		echo "# xen-blkfront has not been built in Rust: both columns are the C driver"
		drivers=(c c)
	fi
fi
block_sizes=(4k 16k 64k 256k)
declare -A result
failed=0

progress() {
	echo "# [$SECONDS s] $*"
}

fail() {
	echo "demo: $*"
	exit 1
}

# run COLUMN SECONDS COMMAND...: runs a command in the guest; a failure ends the demo.
run() {
	local limit=$1 output
	shift
	output=$(guest_run demo "$limit" "$*") ||
		fail "this failed in the guest with the $driver driver: $* $(tail -n 3 <<<"$output")"
	echo "$output"
}

# How many events the guest took for its disks.
events() {
	run 30 "awk '/blkif|xvd|blkfront/ { for (i = 2; i <= NF && \$i ~ /^[0-9]+\$/; i++) n += \$i }
		END { print n + 0 }' /proc/interrupts"
}

driver=${drivers[0]}
progress "starting a guest"
guest_create demo driver="$driver" || fail "there is no guest"

for column in "${!drivers[@]}"; do
	driver=${drivers[column]}
	disk=$(make_disk $size) || fail "there is no disk"
	if [ "$(driver_loaded demo blkfront)" != "$driver" ]; then
		guest_driver demo blkfront "$driver" || fail "the guest cannot load the $driver driver"
	fi
	loaded=$(driver_loaded demo blkfront)
	[ "$loaded" = "$driver" ] || fail "the guest runs the $loaded driver instead of $driver"

	progress "$driver: attaching $disk, writing files"
	disk_attach demo "phy:$disk,xvdb,w" || fail "the disk does not attach with the $driver driver"
	before=$(events)
	run 120 "set -e
		mkfs.ext4 -q /dev/xvdb
		mount /dev/xvdb /mnt
		for i in 1 2 3 4 5 6 7 8; do
			dd if=/dev/urandom of=/tmp/random bs=1M count=4 2>/dev/null
			cat /tmp/random >/mnt/file\$i
		done
		rm /tmp/random
		cp /usr/bin/* /mnt/
		(cd /mnt && sha256sum *[!d] >/tmp/sums)
		umount /mnt" >/dev/null
	result[wrote,$column]=$(run 30 "wc -l </tmp/sums")
	progress "$driver: detaching, attaching again, comparing"
	disk_detach demo xvdb || fail "the disk does not detach with the $driver driver"
	disk_attach demo "phy:$disk,xvdb,w" || fail "the disk does not attach again with $driver"
	if guest_run demo 120 "mount /dev/xvdb /mnt && cd /mnt && sha256sum -c --quiet /tmp/sums &&
		cd / && umount /mnt" >/tmp/compare; then
		result[sums,$column]=yes
	else
		result[sums,$column]=NO
		failed=1
		tail -n 3 /tmp/compare
	fi

	result[errors,$column]=0
	for block_size in "${block_sizes[@]}"; do
		progress "$driver: fio, random reads and writes of ${block_size}iB, verified"
		before=$(events)
		output=$(guest_run demo 150 "fio --name=demo --filename=/dev/xvdb --direct=1 \
			--ioengine=libaio --iodepth=8 --rw=randrw --bs=$block_size --size=4m --numjobs=4 \
			--offset_increment=32m --verify=crc32c --verify_fatal=1 --group_reporting \
			--output-format=terse --terse-version=3 2>&1")
		status=$?
		after=$(events)
		# Fields of fio's terse format: 5 error, 8 read IOPS, 49 write IOPS; totals in KiB.
		line=$(grep '^3;' <<<"$output" | tail -n 1)
		IFS=';' read -r -a field <<<"$line"
		if [ $status != 0 ] || [ "${field[4]:-1}" != 0 ]; then
			result[errors,$column]=$((result[errors,$column] + 1))
			failed=1
			grep -v '^3;' <<<"$output" | tail -n 3
			continue
		fi
		ios=$(((field[5] + field[46]) / ${block_size%k}))
		result[read,$block_size,$column]=${field[7]}
		result[write,$block_size,$column]=${field[48]}
		result[events,$block_size,$column]=$(awk -v n=$((after - before)) -v d="$ios" \
			'BEGIN { printf "%.2f", d ? n / d : 0 }')
	done

	run 60 "sync; t=\$(date +%s%N); dd if=/dev/zero of=/dev/xvdb bs=1M count=64 oflag=direct \
		2>/dev/null; t=\$((\$(date +%s%N) - t)); awk -v t=\$t 'BEGIN { printf \"%.1f\", 64e9 / t }'" \
		>/tmp/speed
	result[speed,$column]=$(</tmp/speed)
	disk_detach demo xvdb || fail "the disk does not detach with the $driver driver"
	remove_disk "$disk"
done
guest_destroy demo

row() {
	local key=$1 column
	shift
	printf '%-44s' "$*"
	for column in "${!drivers[@]}"; do
		printf '%10s' "${result[$key,$column]:--}"
	done
	echo
}

echo
printf '%-44s' "blkfront in a PV guest, blkback in C"
for driver in "${drivers[@]}"; do
	case $driver in
	rust) printf '%10s' Rust ;;
	*) printf '%10s' C ;;
	esac
done
echo
row wrote "files written before detaching the disk"
row sums "SHA-256 sums equal after attaching it again"
row errors "fio runs with verification errors"
row speed "sequential write, 1 MiB (MiB/s)"
for block_size in "${block_sizes[@]}"; do
	row "read,$block_size" "random read,  ${block_size}iB (IOPS)"
	row "write,$block_size" "random write, ${block_size}iB (IOPS)"
	row "events,$block_size" "events per I/O, ${block_size}iB"
done
echo "(emulated CPUs: speeds compare with each other, not with hardware)"
exit $failed
