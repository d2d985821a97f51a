#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Case N37: a PVH guest migrates to this host again and again while data goes both ways. The data goes on each time,
# and nothing of it is lost or changed. (PV guests cannot: Debian's Xen cannot follow what they write to.)
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# timeout: 500
# tier: long
# cpu: max,-xsave,-fsgsbase,-pcid,-invpcid,-la57,-smap,-umip

# shellcheck source=selftests/net/common.sh
. ./common.sh
rounds=${rounds:-3}
ktap_set_plan 4
guest_create p type=pvh timeout=240 || ktap_exit_fail_msg "no guest"
if ! vif=$(vif_attach p mac=00:16:3e:00:00:08) || ! vif_up p "$vif" 2; then
	ktap_exit_fail_msg "no interface"
fi
ktap_test "data begins to go" streams_begin p
done=0
for ((round = 0; round < rounds; round++)); do
	streams_go p "$vif" && guest_migrate p && streams_go p "$vif" && done=$((done + 1))
done
ktap_equal "data goes on each time" "$rounds" $done
ktap_test "nothing is lost" streams_end p
ktap_test "new connections work" guest_run p "ping -q -c 3 -W 5 10.0.0.1 >/dev/null"
guest_destroy p
ktap_finished
