# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the measurements of pairs of drivers have in common. They have pairs take turns in one boot, with the guest
# "bench", and print what each did as lines
#	result PAIR WORKLOAD/UNIT AMOUNT KEY=VALUE...
# of which vm/bench.py makes a table. A driver of a pair may be followed by parameters:
# rust:max_indirect_segments=64/c

fail() {
	echo "bench: $*"
	exit 1
}

# counts: what the machine has executed so far, as key=value.
counts() {
	bench-mark && tail -n 1 /run/xenvm/log/counts
}

# marks: how often that was asked.
marks() {
	wc -l </run/xenvm/log/counts
}

# symbols GUEST PAIR: keeps what a profile needs to name functions, while the pair's modules are loaded.
symbols() {
	[ -e /run/xenvm/log/profile ] || return 0
	mkdir -p "$RESULTS/symbols" || return
	cat /proc/kallsyms >"$RESULTS/symbols/${2//\//-}.dom0" &&
		guest_run "$1" 60 "grep '\[xen' /proc/kallsyms" >"$RESULTS/symbols/${2//\//-}.guest"
}

# difference BEFORE AFTER: of two lines with the same keys.
difference() {
	local word key
	local -A old
	for word in $1; do
		old[${word%%=*}]=${word#*=}
	done
	for word in $2; do
		key=${word%%=*}
		printf '%s=%s ' "$key" $((${word#*=} - old[$key]))
	done
}

# parameters DRIVER BUILD[:NAME=VALUE,...]: those of a module, as modprobe takes them. Times of moderation that are not
# among them are the defaults, times the machine's slowness.
parameters() {
	# shellcheck disable=SC2154 # of the script
	case $1:$2 in
	blk*:rust*) echo usecs=$((100 * slowness)) ;;
	net*:rust*) echo rx_usecs=$((50 * slowness)) ;;
	esac
	[ "$1:${2%%:*}" != netfront:rust ] || echo tx_usecs=$((50 * slowness))
	[[ $2 != *:* ]] || tr , ' ' <<<"${2#*:}"
}

# backend_swap DRIVER BUILD[:PARAMETERS]: another build of the backend, with the guest left alone.
backend_swap() {
	# shellcheck disable=SC2046 # words
	backend_load "$1" "${2%%:*}" $(parameters "$1" "$2") || fail "the backend $2 cannot be loaded"
}

# frontend_swap DRIVER BUILD[:PARAMETERS]
frontend_swap() {
	local build=${2%%:*}
	guest_run bench "# ram-root
guest-driver $1 $build && if [ -e /sys/module/xen_$1 ]; then rmmod xen-$1; fi &&
modprobe xen-$1 $(parameters "$1" "$2" | paste -sd ' ')" || fail "the guest's driver cannot be loaded"
	[ "$(driver_loaded bench "$1")" = "$build" ] || fail "the guest has loaded the wrong driver"
}
