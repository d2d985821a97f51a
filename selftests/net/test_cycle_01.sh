#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# An interface can be attached and detached again and again while it carries traffic: each time it is there
# soon and works, and nothing is leaked: no interrupts, event channels, grants, memory or nodes in xenstore, at
# either end.
# pairs: rust/rust
# control: rust/c c/rust c/c
# allow-console: xennet_disconnect_backend
# tier: long
# timeout: 500

# shellcheck source=selftests/net/common.sh
. ./common.sh
# shellcheck source=selftests/lib/leaks.sh
. "$XENVM_LIB/leaks.sh"
ktap_set_plan 10
share_guest
rounds=${rounds:-15}

cycle() {
	local begun=$SECONDS vif
	vif=$(vif_attach n) && vif_up n "$vif" 2 || return
	# Both ways, until it is gone.
	ping -q -i 0.01 -s 1400 10.0.0.2 >/dev/null 2>&1 &
	guest_run n "ping -c 20 -i 0.01 -s 8000 10.0.0.1 >/dev/null"
	vif_detach n "$vif"
	set -- $?
	kill -INT $!
	wait
	[ "$1" = 0 ] && [ $((SECONDS - begun)) -le "$(stretch 30)" ]
}

done=0
for ((round = 1; round <= rounds; round++)); do
	cycle && done=$((done + 1))
	# By then everything that is allocated once has been.
	if [ "$round" = 5 ]; then
		leaks_before n
		leaks_dom0_before
	fi
done
leaks_after n
leaks_dom0_after
ktap_equal "every time in time" "$rounds" "$done"
leaks_test "$((rounds - 5))"
leaks_dom0_test "$((rounds - 5))"
ktap_equal "no interface in dom0" "" "$(compgen -G '/sys/class/net/vif*')"
ktap_finished
