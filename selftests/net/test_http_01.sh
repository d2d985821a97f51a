#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# A real service: a guest's web server, from which another guest and dom0 fetch files at the same time. What they
# get is what the server has.
# pairs: rust/rust
# control: rust/c c/rust c/c
# tier: long
# allow-console: xennet_disconnect_backend
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/net/places.sh
. ./places.sh
# How much is fetched in all, MiB. Each file is fetched as often as it takes.
total=${total:-64}
size=16
rounds=$((total / size / 2))
ktap_set_plan 4
share_guest
guest_create m timeout=240 || ktap_exit_fail_msg "no second guest"
attach_new
if ! client=$(vif_attach m) || ! vif_up m "$client" 3; then
	ktap_exit_fail_msg "no interface for the client"
fi

sum=$(at n "mkdir /tmp/www && cd /tmp/www && head -c ${size}M /dev/urandom >file && sha256sum <file &&
	busybox httpd -p 80 -h /tmp/www")
# fetch PLACE: fetches the file; how often it was right.
fetch() {
	local right=0 round
	for ((round = 0; round < rounds; round++)); do
		[ "$(at "$1" "busybox wget -q -O - http://10.0.0.2/file | sha256sum")" != "$sum" ] || right=$((right + 1))
	done
	echo $right
}

ktap_test "the server is there" wait_for 20 guest_listens 80
fetch m >/tmp/fetched &
fetching=$!
ktap_equal "dom0 has got it" "$rounds" "$(fetch dom0)"
wait $fetching
ktap_equal "the other guest has got it" "$rounds" "$(</tmp/fetched)"
ktap_equal "nothing was lost on the way to the server's network" 0 "$(counter guest tx_dropped)"
guest_run n "pkill busybox; rm -rf /tmp/www"
vif_detach m "$client"
ktap_finished
