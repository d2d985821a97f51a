#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs test scripts in dom0, one after the other, for `xenvm check`. Each argument is
# NAME|SCRIPT|FRONTEND|BUILD|SECONDS|BACKEND|BUILD. Lines that begin with @ tell the host where a test starts
# and ends, and how long it may take on this machine at this time.

# shellcheck source=selftests/lib/xen.sh
. "$XENVM_LIB/xen.sh"

# Disks may only be taken away when no guest has them.
clean_up() {
	local folder
	if [ "$1" != 0 ]; then
		guest_destroy_all
	else
		guest_reset_all
	fi
	for folder in /sys/kernel/config/nullb/*/; do
		[ ! -e "$folder/power" ] || remove_disk "/dev/$(basename "$folder")"
	done
}

for test; do
	IFS='|' read -r name script front driver limit back backend <<<"$test"
	measure_slowness
	limit=$(stretch "$limit")
	echo "@begin $limit $name"
	if ! backend_driver "$back" "$backend"; then
		echo "Bail out! dom0 does not run the $backend build of xen-$back"
		echo "@end $name 1"
		continue
	fi
	# The script runs in a process group of its own, so that nothing of it is left behind.
	# shellcheck disable=SC2016 # expanded by the inner shell
	env "XENVM_FRONT_${front^^}=$driver" "XENVM_BACK_${back^^}=$backend" setsid timeout --foreground -k 5 "$limit" bash -c \
		'. "$XENVM_LIB/ktap.sh"; . "$XENVM_LIB/xen.sh"; cd "$(dirname "$0")"; . "$0"' \
		"$PWD/$script" </dev/null &
	group=$!
	wait $group
	status=$?
	kill -KILL -- -$group 2>/dev/null
	if [ $status = 124 ] || [ $status = 137 ]; then
		echo "# took more than $limit seconds"
		status=124
	fi
	clean_up $status
	echo "@end $name $status"
done
