#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N39: what names are made of is as with C's driver: path, node, alias and driver of the device, and what
# its events say; and an interface can be renamed at any time.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 14
share_guest
attach_new

# in_device COMMAND: runs a command in the guest's folder of the device.
in_device() {
	guest_run n "cd /sys/bus/xen/devices/vif-$vif && $1"
}

ktap_equal "path of the interface" "/sys/devices/vif-$vif/net/$node" "$(guest_run n "cd -P /sys/class/net/$node && pwd")"
ktap_equal "node" "device/vif/$vif" "$(in_device "cat nodename")"
ktap_equal "kind" vif "$(in_device "cat devtype")"
ktap_equal "alias" xen:vif "$(in_device "cat modalias")"
ktap_equal "aliases of the module" "xen:vif xennet" "$(guest_run n "modinfo -F alias xen-netfront" | sort | paste -sd ' ')"
ktap_equal "driver" /sys/bus/xen/drivers/vif "$(in_device "cd -P driver && pwd")"
ktap_equal "what an event says of the device" "DRIVER=vif MODALIAS=xen:vif" "$(in_device "sort uevent" | paste -sd ' ')"
ktap_equal "name by the kernel" 1 "$(guest_run n "cat /sys/class/net/$node/name_assign_type")"
ktap_equal "numbers that names are made of" "0 0" \
	"$(guest_run n "cat /sys/class/net/$node/dev_id /sys/class/net/$node/dev_port" | sed 's/0x0/0/' | paste -sd ' ')"

# It is renamed for as long as data passes, and has the name then that udev would give it.
renaming=$(guest_start n 100 "i=0; while [ ! -e /tmp/enough ] && [ \$i -lt 400 ]; do
		ip link set \$(ls /sys/bus/xen/devices/vif-$vif/net) name eth\$((i % 7 + 50)) || exit
		i=\$((i + 1))
	done; ip link set \$(ls /sys/bus/xen/devices/vif-$vif/net) name enX$vif && echo \$i")
ktap_test "data passes while it is renamed" both_ways 8
guest_run n "touch /tmp/enough"
number=$(guest_wait "$renaming" 100)
guest_run n "rm /tmp/enough"
ktap_test "it was renamed often" test "${number:-0}" -ge 20
node=enX$vif
ktap_equal "its last name" "$node" "$(vif_node n "$vif")"

# One that gets another name as soon as it is there.
renaming=$(guest_start n 60 "while ! name=\$(ls /sys/bus/xen/devices/vif-$((vif + 1))/net 2>/dev/null); do :; done
	ip link set \$name name enX$((vif + 1))")
other=$(vif_attach n)
guest_wait "$renaming" 60
ktap_equal "another one is renamed while it connects" "enX$other" "$(vif_node n "$other")"
vif_detach n "$vif"
ktap_test "... and works" vif_up n "$other" 2
ktap_finished
