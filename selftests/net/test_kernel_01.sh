#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The kernel's own tests of network devices with dom0's end of an interface as the device. The guest bridges it to
# a second interface, whose end in dom0 is the remote end of the tests. Each of their results is one here.
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
# Of the others, macsec.py, psp.py and so_txtime.py want a device that does that itself, netpoll_basic.py wants
# bpftrace, xdp.py XDP in the device, and most in hw/ rules for flows, contexts for RSS, or memory of devices.
tests="ping.py stats.py queues.py ring_reconfig.py napi_id.py napi_threaded.py hds.py shaper.py gro.py \
hw/irq.py hw/csum.py hw/tso.py hw/pp_alloc_fail.py"
kernel_impossible="$kernel_impossible
queues.py queues.addremove_queues the frontend decides how many there are
gro.py gro.test_gro_capacity.sw_1q the frontend decides how many queues there are"
share_guest
if ! near=$(vif_attach n) || ! far=$(vif_attach n); then
	ktap_exit_fail_msg "no interfaces"
fi
device=$(vif_name n "$near")
remote=$(vif_name n "$far")
prepare() {
	# Two ports of a bridge need different addresses.
	ip link set "$device" nomaster && ip link set "$remote" nomaster &&
		ip link set "$device" address 02:00:00:00:00:01 && ip link set "$remote" address 02:00:00:00:00:02 &&
		at n "ip link add br0 type bridge && ip link set br0 up && for dev in $(vif_node n "$near") $(vif_node n "$far"); do
			ip link set \$dev mtu 9000 up && ip link set \$dev master br0 || exit
		done" && kernel_addresses "$device" "$remote"
}
prepare || ktap_exit_fail_msg "the remote end cannot be reached"
# shellcheck disable=SC2086 # words
kernel_run "$device" $tests
unsettle dom0/far
kernel_report
at n "ip link del br0"
ktap_finished
