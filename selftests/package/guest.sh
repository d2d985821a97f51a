#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Init of a guest that was booted from its own disk: says on the console which drivers it has, and whether they work.

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() {
	echo "boot: $*" >/dev/console
}

# driver MODULE: where the module that is loaded comes from; one from outside of the kernel's tree taints it.
driver() {
	if ! [ -d "/sys/module/$1" ]; then
		echo missing
	elif grep -q O "/sys/module/$1/taint"; then
		echo rust
	else
		echo c
	fi
}

# interface: the one that is not the loopback, whatever it is called by now.
interface() {
	basename "$(dirname "$(echo /sys/class/net/*/device)")"
}

# What udev has done already, or would do, with each device of the bus.
cat /sys/bus/xen/devices/*/modalias | sort -u | xargs -n 1 modprobe
for module in xen_blkfront xen_netfront; do
	say "$module $(driver $module)"
	say "file of $module: $(modinfo -n $module)"
done
say "kernel $(uname -r)"
say "root $(findmnt -n -o SOURCE /)"
echo written >/srv/written && sync && say "disk written"
end=$((SECONDS + 120))
until ip link set "$(interface)" up 2>/dev/null; do
	[ $SECONDS -lt $end ] || break
	sleep 0.2
done
ip addr add 10.0.0.2/24 dev "$(interface)"
until ping -c 1 -W 2 10.0.0.1 >/dev/null; do
	[ $SECONDS -lt $end ] || break
done
if ping -c 1 -W 2 10.0.0.1 >/dev/null; then
	say "network works"
fi
say "the end"
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1000; done
