#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Hotplug scripts (case N35): the interface is there when they begin, and the frontend is told that it is connected
# when they have done their work, however long that takes; one that fails closes the device at both ends, with an
# error node; one that never ends leaves nothing behind.
# pairs: rust/rust
# timeout: 300

# shellcheck source=selftests/net/common.sh
. ./common.sh
ktap_set_plan 14
share_guest
scripts=/etc/xen/scripts

# make_script NAME: a script that does what its input says when an interface comes, and else what it should.
make_script() {
	# shellcheck disable=SC2016 # for the script
	{
		printf '#!/bin/bash\nif [ "$1" = online ]; then\n'
		cat
		printf 'fi\nexec %s/vif-bridge "$@"\n' $scripts
	} >"$scripts/$1"
	chmod 755 "$scripts/$1"
}

make_script vif-slow <<'END'
{ [ -e "/sys/class/net/$vif" ] && echo there; xenstore-read "$XENBUS_PATH/state"; } >/tmp/script.begin
sleep 3
xenstore-read "$XENBUS_PATH/state" >/tmp/script.end
END
make_script vif-fails <<'END'
xenstore-write "$XENBUS_PATH/hotplug-status" error
exit 1
END
make_script vif-hangs <<'END'
echo $$ >/tmp/script.pid
exec sleep 600
END

vif_options=(script=vif-slow)
attach_new
ktap_equal "the interface is there when the script begins" "there 2" "$(paste -sd ' ' /tmp/script.begin)"
ktap_equal "... and not connected before it ends" 2 "$(</tmp/script.end)"
ktap_test "then data passes" both_ways 1
ktap_test "it can be detached" vif_detach n "$vif"
vif_options=()

# nothing_left: whether no end of an interface is there once the toolstack has taken away what it has left.
nothing_left() {
	local id
	for id in $(vif_list n); do
		ktap_print_msg "left: $(vif_states n "$id")"
		vif_detach n "$id" || return
	done
	! ls -d "/sys/class/net/vif$(guest_id n)."* 2>/dev/null
}

for name in vif-fails vif-hangs; do
	ktap_test "$name: it cannot be attached" sh -c "! xl network-attach n bridge=xenbr0 script=$name 2>/dev/null"
	ktap_test "... and nothing stays of it" nothing_left
done
kill "$(</tmp/script.pid)" 2>/dev/null

# What the toolstack does, but for the script.
id=50
front=$(guest_home n)/device/vif/$id
back=/local/domain/0/backend/vif/$(guest_id n)/$id
begin() {
	xenstore-write "$front" '' "$back" '' &&
		xenstore-chmod "$front" "n$(guest_id n)" r0 && xenstore-chmod "$back" n0 "r$(guest_id n)" &&
		xenstore-write "$back/frontend" "$front" "$back/frontend-id" "$(guest_id n)" "$back/online" 1 \
			"$back/script" none "$back/handle" $id "$back/mac" 00:16:3e:00:01:50 \
			"$front/backend" "$back" "$front/backend-id" 0 "$front/handle" $id \
			"$front/mac" 00:16:3e:00:01:50 "$back/state" 1 "$front/state" 1
}

states_are() {
	[ "$(xs_state "$front") $(xs_state "$back")" = "$1" ]
}

# finish [5]: takes the device away, as the toolstack does with one that is connected or is not.
finish() {
	xenstore-write "$back/online" 0 ${1:+"$back/state" "$1"}
	wait_for 10 states_are "6 6" || return
	xenstore-rm "$front" && xenstore-rm "$back"
	wait_for "$XENVM_QUICK" eval "! [ -e /sys/class/net/vif$(guest_id n).$id ]"
}

begin
wait_for "$XENVM_QUICK" states_are "4 2"
ktap_equal "without a word of the script it is not connected" "4 2" "$(xs_state "$front") $(xs_state "$back")"
xenstore-write "$back/hotplug-status" connected
ktap_test "... and then it is" wait_for 10 states_are "4 4"
ktap_test "it can be taken away" finish 5

begin
wait_for "$XENVM_QUICK" states_are "4 2"
xenstore-write "$back/hotplug-status" error
ktap_test "a script that fails closes both ends" wait_for 20 states_are "6 6"
ktap_test "... and the error node says so" sh -c \
	"xenstore-read /local/domain/0/error/${back#/*/*/*/}/error | grep -q 'hotplug script'"
ktap_test "it can be taken away" finish
xenstore-rm "/local/domain/0/error/${back#/*/*/*/}"
rm "$scripts/vif-slow" "$scripts/vif-fails" "$scripts/vif-hangs"
ktap_finished
