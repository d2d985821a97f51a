#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N27: rates hold for the device, in each direction, and can be changed at any time.
# control: rust/rust c/rust
# allow-console: xennet_disconnect_backend
# timeout: 240

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 5
share_guest
attach_new
path=$(vif_back n "$vif")

# within FROM TO COMMAND...: whether a command works and takes so many seconds.
within() {
	local from=$1 to=$2 begun=$SECONDS took
	shift 2
	"$@" || return
	took=$((SECONDS - begun))
	if [ "$took" -lt "$from" ] || [ "$took" -gt "$to" ]; then
		ktap_print_msg "$took s"
		return 1
	fi
}

# 100 kB a second.
xenstore-write "$path/rate" 10000,100000
ktap_test "1 MiB from the guest" within 8 60 from_guest 1
ktap_test "... but not to it" within 0 8 to_guest 1
xenstore-rm "$path/rate"
xenstore-write "$path/rate-rx" 10000,100000
ktap_test "1 MiB to the guest" within 8 60 to_guest 1
xenstore-write "$path/rate-rx" junk
xenstore-write "$path/rate-packets" 10,1000000
ktap_test "ten packets a second" within 2 30 ping -q -c 40 -i 0.05 -W 20 10.0.0.2
xenstore-rm "$path/rate-packets"
ktap_test "without limit again" within 0 12 both_ways 1
ktap_finished
