#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The kernel's own tests of network devices with a frontend as the device: dom0's, whose backend is in the guest.
# That bridges it to an interface of its own, whose end in dom0 is the remote end of the tests. Each of their
# results is one here.
# pairs: rust/rust
# control: c/c
# tier: long
# needs: kernel-tests
# allow-console: xennet_disconnect_backend
# timeout: 1500

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
# shellcheck source=selftests/net/kernel.sh
. ./kernel.sh
# See test_kernel_01 for the others.
tests="ping.py stats.py queues.py ring_reconfig.py napi_id.py napi_threaded.py xdp.py hds.py shaper.py gro.py \
hw/irq.py hw/csum.py hw/tso.py hw/pp_alloc_fail.py"
kernel_impossible="$kernel_impossible
queues.py queues.addremove_queues ethtool -L returns before there are as many
ring_reconfig.py ring_reconfig.channels ethtool -L returns before there are as many"
share_guest
home=$(guest_home n)
back=$home/backend/vif/0/0 front=/local/domain/0/device/vif/0

# What libxl would write, and the hotplug script, of which there is none in the guest.
make_device() {
	xenstore-write "$front" '' "$back" '' && xenstore-chmod "$front" n0 "r$(guest_id n)" &&
		xenstore-chmod "$back" "n$(guest_id n)" r0 &&
		xenstore-write "$back/frontend" "$front" "$back/frontend-id" 0 "$back/online" 1 "$back/handle" 0 \
			"$back/mac" 02:00:00:00:00:01 "$back/script" none "$back/hotplug-status" connected \
			"$front/backend" "$back" "$front/backend-id" "$(guest_id n)" "$front/handle" 0 \
			"$front/mac" 02:00:00:00:00:01 "$back/state" 1 "$front/state" 1
}

connected() {
	[ "$(xenstore-read "$front/state" "$back/state" | sort -u)" = 4 ]
}

prepare() {
	backend_load netfront "$XENVM_FRONT_NETFRONT" && guest_run n "guest-driver netback $XENVM_BACK_NETBACK; modprobe xen-netback" &&
		make_device && wait_for "$XENVM_QUICK" connected && far=$(vif_attach n) || return
	device=$(ls /sys/bus/xen/devices/vif-0/net)
	remote=$(vif_name n "$far")
	ip link set "$remote" nomaster && ip link set "$remote" address 02:00:00:00:00:02 &&
		at n "ip link add br0 type bridge && ip link set br0 up && for dev in vif0.0 $(vif_node n "$far"); do
			ip link set \$dev mtu 9000 up && ip link set \$dev master br0 || exit
		done" && kernel_addresses "$device" "$remote"
}
prepare || ktap_exit_fail_msg "the remote end cannot be reached: device $(xs_state "$front"), backend $(xs_state "$back")"
# shellcheck disable=SC2086 # words
kernel_run "$device" $tests
unsettle dom0/far
kernel_report
xenstore-rm "$front"
xenstore-rm "$back"
guest_destroy n
rmmod xen-netfront
ktap_finished
