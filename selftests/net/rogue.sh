# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Frontends that misbehave, see selftests/rogue: what dom0's driver makes of them. Both ends of their interface are
# in dom0, so that no guest takes part.

# rogue_attacks EXPECTED...: names of the attacks of which a right backend makes this, and what it is.
rogue_attacks() {
	rogue-netfront --list | awk -F '\t' -v expected=" $* " 'index(expected, " " $2 " ") { print $1, $2 }'
}

# rogue_attack NAME: whether the backend takes it as it should, and nothing is left of the interface.
rogue_attack() {
	local log=/tmp/rogue.$1
	if ! timeout "$(stretch 120)" rogue-netfront 60 "$1" >"$log" 2>&1; then
		ktap_print_msg "$(tail -n 3 "$log" | paste -sd ';')"
		return 1
	fi
	! [ -e /sys/class/net/vif0.60 ] && ! xenstore-exists /local/domain/0/backend/vif/0/60
}

# Memory that dom0's kernel holds and cannot give back, in KiB.
rogue_memory() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	awk '$1 == "MemTotal:" { held += $2 }
		/^(MemFree|SReclaimable|Unevictable|Active|Inactive):/ { held -= $2 }
		END { print held }' /proc/meminfo
}

# a_good_one: whether a guest can still have an interface that works.
a_good_one() {
	# shellcheck disable=SC2154 # attach_new sets it
	attach_new && both_ways 1 && vif_detach n "$vif"
}
