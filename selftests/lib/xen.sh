# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Guests, disks and what Xen knows of them, for jobs and tests that run in dom0.

# shellcheck source=selftests/lib/net.sh
. "$XENVM_LIB/net.sh"

export XENVM_GUESTS=/run/guests
XENVM_QUICK=${XENVM_QUICK:-30}

# Every time limit here is meant for a machine that has nothing else to do. It is stretched by
# $XENVM_SLOW, in percent, which was measured when dom0 came up, and before each test.
stretch() {
	echo $(($1 * ${XENVM_SLOW:-100} / 100))
}

# measure_slowness: sets XENVM_SLOW by how much longer than on a quiet machine it takes to start 20
# programs. There is an end to it: a test that hangs must be found out some time.
measure_slowness() {
	local begun=${EPOCHREALTIME/./} quiet=600000 slow
	for _ in {1..20}; do
		/bin/true
	done
	slow=$(((${EPOCHREALTIME/./} - begun) * 100 / quiet))
	[ $slow -gt 100 ] || slow=100
	[ $slow -lt 500 ] || slow=500
	export XENVM_SLOW=$slow
}

# wait_for SECONDS COMMAND...: runs the command until it succeeds; 1 when the time is up.
wait_for() {
	local end=$((SECONDS + $(stretch "$1")))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

complain() {
	echo "# $*" >&2
}

# xl_error: picks from what xl printed the line that tells most: its first error.
xl_error() {
	awk '!/^Parsing/ { last = $0 } /error|[Ff]ail|timed out/ { print; found = 1; exit } END { if (!found) print last }'
}

# --- guests ---------------------------------------------------------------------------------

guest_id() {
	cat "$XENVM_GUESTS/$1/domid" 2>/dev/null
}

guest_home() {
	echo "/local/domain/$(guest_id "$1")"
}

# guest_alive NAME: whether the guest's domain exists and has not crashed.
guest_alive() {
	local state
	state=$(xl list "$1" 2>/dev/null | awk 'NR == 2 { print $5 }')
	case $state in
	'' | *s* | *c* | *d*) return 1 ;;
	esac
}

# guest_ramdisk: writes the RAM root with drivers and agent, and says where it is.
guest_ramdisk() {
	local release folder=$XENVM_GUESTS/overlay ramdisk=$XENVM_GUESTS/ramdisk
	if ! [ -e $ramdisk ]; then
		release=$(uname -r)
		mkdir -p $folder/usr/bin $folder/usr/lib/xenvm
		cp /run/job/guest/init $folder/init
		cp /run/job/bin/guest-agent /run/job/bin/datagrams /run/job/guest/guest-driver $folder/usr/bin/ || return
		cp "/run/job/modules/$release/"*.ko $folder/usr/lib/xenvm/ 2>/dev/null
		{
			cat /srv/guest.cpio /run/modules/guest-modules.cpio
			(cd $folder && find . | cpio -oH newc -R 0:0 --quiet)
		} >$ramdisk.part && mv $ramdisk.part $ramdisk
	fi
	echo $ramdisk
}

# guest_create NAME [KEY=VALUE...]: starts a guest and waits until its agent answers.
#   type=pv|pvh|hvm   vcpus=N  memory=MiB  timeout=SECONDS
#   root=ram|xvda     commands run in the RAM root, or in the file system on this disk
#   driver=rust|c     build of xen-blkfront (default: what `xenvm run --front` chose)
#   netdriver=rust|c  the same for xen-netfront
#   disk=SPEC vif=SPEC  as in xl.cfg; any number of them
#   extra=WORDS       more of the kernel's command line
#   set=LINE          any other line of xl.cfg
#   fresh             never take over a guest that an earlier test has left
# In `xenvm check` a guest outlives its test: with the same name and options, the next test gets it
# again without a boot, with the driver loaded anew. Tests need not destroy their guests.
guest_create() {
	local name=$1 type=pv vcpus=1 memory=384 root=ram timeout=120 extra='' disks='' vifs='' lines=''
	local driver=${XENVM_FRONT_BLKFRONT:-c} netdriver=${XENVM_FRONT_NETFRONT:-c} rust='' word
	local folder=$XENVM_GUESTS/$1 options fresh=''
	shift
	options="$driver $netdriver $*"
	for word; do
		case $word in
		fresh) fresh=1 ;;
		type=*) type=${word#*=} ;;
		vcpus=*) vcpus=${word#*=} ;;
		memory=*) memory=${word#*=} ;;
		root=*) root=${word#*=} ;;
		driver=*) driver=${word#*=} ;;
		netdriver=*) netdriver=${word#*=} ;;
		timeout=*) timeout=${word#*=} ;;
		extra=*) extra=${word#*=} ;;
		disk=*) disks="$disks'${word#*=}', " ;;
		vif=*) vifs="$vifs'${word#*=}', " ;;
		set=*) lines="$lines${word#*=}"$'\n' ;;
		*)
			complain "guest_create: $word is no option"
			return 1
			;;
		esac
	done
	if [ -z "$fresh" ] && guest_reuse "$name" "$options"; then
		return
	fi
	[ "$driver" = c ] || rust=blkfront
	[ "$netdriver" = c ] || rust=$rust,netfront
	guest_destroy "$name"
	mkdir -p "$folder"
	guest_mark_console "$name"
	{
		echo "name = '$name'"
		echo "type = '$type'"
		echo "kernel = '/run/modules/vmlinuz'"
		echo "ramdisk = '$(guest_ramdisk)'"
		echo "extra = 'console=hvc0 loglevel=5 mitigations=off cryptomgr.notests xenvm.root=$root xenvm.rust=${rust#,} $extra'"
		echo "memory = $memory"
		echo "vcpus = $vcpus"
		echo "disk = [$disks]"
		echo "vif = [$vifs]"
		echo "on_poweroff = 'destroy'"
		echo "on_reboot = 'destroy'"
		echo "on_crash = 'destroy'"
		echo "tsc_mode = 'native'"
		if [ "$type" = hvm ]; then
			echo "device_model_override = '/usr/libexec/xen-qemu-system-i386'"
			echo "nographic = 1"
			echo "serial = 'pty'"
		fi
		echo "$lines"
	} >"$folder/config"
	if ! xl create "$folder/config" >"$folder/create.log" 2>&1; then
		complain "xl create of guest $name failed: $(xl_error <"$folder/create.log")"
		return 1
	fi
	xl domid "$name" >"$folder/domid"
	if ! wait_for "$timeout" guest_ready_or_dead "$name" || ! guest_alive "$name"; then
		complain "guest $name did not come up; its console ends with: $(guest_console "$name" | tail -n 1)"
		return 1
	fi
	echo "$options" >"$folder/options"
}

# Remembers how long a guest's console is, so that older lines of it are not looked at. What a guest
# says after it has migrated is in a file of its own.
guest_mark_console() {
	local part size
	for part in '' --incoming; do
		size=$(stat -c %s "/var/log/xen/console/guest-$1$part.log" 2>/dev/null)
		echo "${size:-0}" >"$XENVM_GUESTS/$1/console$part"
	done
}

# guest_reuse NAME OPTIONS: whether a guest made with the same options can serve again.
guest_reuse() {
	[ "$(cat "$XENVM_GUESTS/$1/options" 2>/dev/null)" = "$2" ] && guest_alive "$1" || return
	guest_mark_console "$1"
	guest_run "$1" 20 true
}

# guest_reset_all: makes guests as good as new: no disks, nothing mounted, the driver loaded anew.
# A guest with which that does not work is destroyed.
guest_reset_all() {
	local folder name vdev
	for name in $(xl list | awk 'NR > 1 && $2 > 0 { print $1 }'); do
		folder=$XENVM_GUESTS/$name
		# What was given at its start would be missing afterwards.
		if ! [ -e "$folder/options" ] || grep -q -e disk= -e vif= -e root= "$folder/options" ||
			! guest_run "$name" 30 "pkill -KILL fio; umount -a -t ext4,xfs,vfat,btrfs; swapoff -a; true"; then
			guest_destroy "$name"
			continue
		fi
		for vdev in $(xenstore-list "$(guest_home "$name")/device/vbd" 2>/dev/null); do
			disk_detach "$name" "$vdev" || continue 2
		done
		for vdev in $(vif_list "$name"); do
			vif_detach "$name" "$vdev" || continue 2
		done
		guest_run "$name" 30 "rm -rf /tmp/*; rmmod xen-blkfront xen-netfront &&
			modprobe xen-blkfront && modprobe xen-netfront" >/dev/null ||
			guest_destroy "$name"
	done
}

guest_ready() {
	xenstore-exists "$(guest_home "$1")/data/agent-ready"
}

guest_ready_or_dead() {
	guest_ready "$1" || ! guest_alive "$1"
}

# guest_destroy NAME: ends a guest at once.
guest_destroy() {
	xl destroy "$1" >/dev/null 2>&1
	rm -rf "${XENVM_GUESTS:?}/$1"
}

# guest_destroy_all: ends every guest.
guest_destroy_all() {
	local id
	for id in $(xl list | awk 'NR > 1 && $2 > 0 { print $2 }'); do
		xl destroy "$id" >/dev/null 2>&1
	done
	rm -rf "${XENVM_GUESTS:?}"/*/
}

# A guest that is saved or migrates becomes a new domain. Commands go on running in it, and guest_wait
# takes their handles as before. The device's folders in xenstore and the domain's number change.

# guest_depart NAME: sees to it that the agent has taken over all commands, which the new domain's
# xenstore will not have.
guest_depart() {
	# shellcheck disable=SC2016 # expanded in the guest
	guest_run "$1" '# ram-root
for folder in /run/agent/*/; do
	while [ -d "$folder" ] && ! [ -e "$folder/command" ]; do sleep 0.1; done
done' && touch "$XENVM_GUESTS/$1/moving"
}

# guest_arrive NAME: waits until the agent answers in the new domain.
guest_arrive() {
	xl domid "$1" >"$XENVM_GUESTS/$1/domid"
	rm -f "$XENVM_GUESTS/$1/moving" "$XENVM_GUESTS/$1/options"
	if ! wait_for 60 guest_ready_or_dead "$1" || ! guest_alive "$1"; then
		complain "guest $1 does not answer in its new domain; its console ends with: $(guest_console "$1" | tail -n 1)"
		return 1
	fi
}

# guest_xl NAME COMMAND...: runs xl for a guest that is moving; says what is wrong when it fails.
guest_xl() {
	local name=$1 log=$XENVM_GUESTS/$1/$2.log
	shift
	if ! xl "$@" >"$log" 2>&1; then
		complain "xl $1 of guest $name failed: $(xl_error <"$log")"
		return 1
	fi
}

# guest_save NAME FILE: writes a guest's state to a file and ends its domain.
guest_save() {
	guest_depart "$1" || return
	if ! guest_xl "$1" save "$1" "$2"; then
		rm -f "$XENVM_GUESTS/$1/moving"
		return 1
	fi
}

# guest_restore NAME FILE [COMMAND...]: goes on with a guest from where guest_save left it. The command runs when
# the new domain and its devices are there and the guest does not run yet.
guest_restore() {
	local name=$1 file=$2
	shift 2
	if ! guest_xl "$name" restore ${1:+-p} "$file"; then
		rm -f "$XENVM_GUESTS/$name/moving"
		return 1
	fi
	if [ $# -gt 0 ]; then
		xl domid "$name" >"$XENVM_GUESTS/$name/domid"
		"$@" || complain "$* failed before guest $name went on"
		guest_xl "$name" unpause "$name" || return
	fi
	guest_arrive "$name"
}

# guest_clone NAME FILE CLONE MAC: starts another guest from where guest_save left one, with an interface of this
# address. The file stays as it is, so that there can be many; each gets its own addresses afterwards.
guest_clone() {
	local folder=$XENVM_GUESTS/$3
	guest_destroy "$3"
	mkdir -p "$folder"
	guest_mark_console "$3"
	sed -e "s/^name = .*/name = '$3'/" -e "s/^vif = .*/vif = ['mac=$4,bridge=xenbr0']/" \
		"$XENVM_GUESTS/$1/config" >"$folder/config"
	if ! xl restore "$folder/config" "$2" >"$folder/restore.log" 2>&1; then
		complain "xl restore of guest $3 failed: $(xl_error <"$folder/restore.log")"
		return 1
	fi
	guest_arrive "$3"
}

# guest_migrate NAME: migrates a running guest from this host to this host. Debian's Xen cannot follow
# which memory a PV guest writes to, so one of those is saved and restored instead.
guest_migrate() {
	local file=/var/lib/xen/$1.save
	if grep -q "^type = 'pv'" "$XENVM_GUESTS/$1/config"; then
		guest_save "$1" "$file" && guest_restore "$1" "$file"
		set -- $?
		rm -f "$file"
		return "$1"
	fi
	guest_depart "$1" || return
	# With an empty -s, the last word is the command that receives the guest.
	if ! guest_xl "$1" migrate -s '' "$1" 'xl migrate-receive'; then
		rm -f "$XENVM_GUESTS/$1/moving"
		return 1
	fi
	guest_arrive "$1"
}

# guest_console NAME: prints the guest's console since guest_create.
guest_console() {
	local part
	for part in '' --incoming; do
		tail -c "+$(($(<"$XENVM_GUESTS/$1/console$part") + 1))" \
			"/var/log/xen/console/guest-$1$part.log" 2>/dev/null
	done
}

guest_console_has() {
	grep -qE -- "$2" <(guest_console "$1")
}

# guest_wait_console NAME REGEX SECONDS
guest_wait_console() {
	wait_for "$3" guest_console_has "$1" "$2"
}

# guest_start NAME [SECONDS] COMMAND...: starts a command in the guest and prints a handle of it.
# The guest kills it after so many seconds (default 60).
guest_start() {
	guest-exec start "$@"
}

# guest_wait HANDLE [SECONDS]: waits for a command, prints its output, returns its exit status.
# 124: it took longer than it may, or the guest does not answer.
guest_wait() {
	guest-exec wait "$@"
}

# guest_run NAME [SECONDS] COMMAND...: runs a shell command in the guest.
guest_run() {
	guest-exec run "$@"
}

# guest_put NAME FILE...: copies files to the guest's /tmp.
guest_put() {
	local name=$1 file copy piece
	shift
	for file; do
		copy=/tmp/${file##*/}
		guest_run "$name" "rm -f '$copy.part'" || return
		# No word of a command can be longer than 128 KiB.
		while read -r piece; do
			guest_run "$name" 120 "printf %s '$piece' >>'$copy.part'" </dev/null || return
		done < <(gzip -9 <"$file" | base64 -w 90000 && echo)
		guest_run "$name" 120 "base64 -d <'$copy.part' | gzip -dc >'$copy' &&
			rm '$copy.part' && chmod $(stat -c %a "$file") '$copy'" || return
	done
}

# guest_driver NAME DRIVER rust|c: unloads xen-DRIVER in the guest and loads this build of it.
guest_driver() {
	guest_run "$1" "# ram-root
guest-driver $2 $3 && if [ -e /sys/module/xen_$2 ]; then rmmod xen-$2; fi && modprobe xen-$2"
}

# driver_loaded NAME DRIVER: prints which build of xen-DRIVER the guest runs: rust, c or none.
# Out-of-tree modules taint the kernel, which the kernel remembers a module.
driver_loaded() {
	guest_run "$1" "# ram-root
if ! [ -e /sys/module/xen_$2 ]; then echo none
elif grep -q O /sys/module/xen_$2/taint; then echo rust
else echo c; fi"
}

# backend_loaded DRIVER: the same for a module of dom0.
backend_loaded() {
	if ! [ -e "/sys/module/xen_$1" ]; then
		echo none
	elif grep -q O "/sys/module/xen_$1/taint"; then
		echo rust
	else
		echo c
	fi
}

# backend_driver DRIVER rust|c: has dom0 run this build of xen-DRIVER. Ends all guests if it changes.
backend_driver() {
	[ "$(backend_loaded "$1")" != "$2" ] || return 0
	guest_destroy_all
	backend_load "$1" "$2"
}

# backend_load DRIVER rust|c [PARAMETER...]: loads this build of xen-DRIVER in dom0 anew. No guest may have
# a device of it.
backend_load() {
	local driver=$1 build=$2 updates built
	updates=/usr/lib/modules/$(uname -r)/updates built=/run/job/modules/$(uname -r)/xen-$1.ko
	shift 2
	wait_for "$XENVM_QUICK" backend_unload "$driver" || return
	if [ "$build" = rust ]; then
		mkdir -p "$updates" && cp "$built" "$updates/" || return
	else
		rm -f "$updates/xen-$driver.ko"
	fi
	depmod -a && modprobe "xen-$driver" "$@" && [ "$(backend_loaded "$driver")" = "$build" ]
}

backend_unload() {
	[ "$(backend_loaded "$1")" = none ] || rmmod "xen-$1"
}

# --- disks ----------------------------------------------------------------------------------

# make_disk MIB [SECTOR-SIZE [ATTRIBUTE=VALUE...]]: makes a disk in memory, prints its path.
# The attributes are those of null_blk.
make_disk() {
	local size=$1 sector=${2:-512} number name folder word
	shift $(($# < 2 ? $# : 2))
	number=0
	until name=test$number && folder=/sys/kernel/config/nullb/$name && mkdir $folder 2>/dev/null; do
		number=$((number + 1))
		if [ $number -gt 250 ]; then
			complain "null_blk makes no more disks"
			return 1
		fi
	done
	for word in size="$size" blocksize="$sector" memory_backed=1 discard=1 "$@" power=1; do
		if ! echo "${word#*=}" >"$folder/${word%%=*}"; then
			complain "null_blk does not take $word"
			return 1
		fi
	done
	name=/dev/$name
	[ -b $name ] || name=/dev/nullb$(<$folder/index)
	wait_for 10 test -b "$name" || return 1
	echo "$name"
}

# remove_disk PATH: gives the memory of a disk back.
remove_disk() {
	local folder
	for folder in /sys/kernel/config/nullb/*/; do
		if [ "$1" = "/dev/$(basename "$folder")" ] || [ "$1" = "/dev/nullb$(<"$folder/index")" ]; then
			echo 0 >"$folder/power"
			rmdir "$folder"
			return
		fi
	done
	complain "there is no disk $1"
	return 1
}

# make_root_disk: makes a disk with the guests' root in it, for root=xvda; prints its path.
make_root_disk() {
	local disk folder=/run/guests/root
	disk=$(make_disk 256) || return
	mkfs.ext4 -q -O ^has_journal "$disk" && mkdir -p $folder && mount "$disk" $folder &&
		(cd $folder && cpio -idm --quiet </srv/guest.cpio &&
			cpio -idmu --quiet </run/modules/guest-modules.cpio) && umount $folder || return
	rmdir $folder
	echo "$disk"
}

# vdev_number VDEV: the number of a virtual disk such as xvdb or xvdb1.
vdev_number() {
	local letters part index=0 position
	if [[ ! $1 =~ ^xvd([a-z]+)([0-9]*)$ ]]; then
		echo "$1"
		return
	fi
	letters=${BASH_REMATCH[1]}
	part=${BASH_REMATCH[2]:-0}
	for ((position = 0; position < ${#letters}; position++)); do
		index=$((index * 26 + $(printf '%d' "'${letters:position:1}") - 96))
	done
	index=$((index - 1))
	if [ $index -lt 16 ] && [ "$part" -lt 16 ]; then
		echo $((202 << 8 | index << 4 | part))
	else
		echo $((1 << 28 | index << 8 | part))
	fi
}

# frontend_path NAME VDEV, backend_path NAME VDEV: the device's folders in xenstore.
frontend_path() {
	echo "$(guest_home "$1")/device/vbd/$(vdev_number "$2")"
}

backend_path() {
	xenstore-read "$(frontend_path "$1" "$2")/backend"
}

# xs_state PATH: the xenbus state in a device's folder (4: connected, 6: closed), or `gone`.
xs_state() {
	xenstore-read "$1/state" 2>/dev/null || echo gone
}

xs_state_is() {
	[ "$(xs_state "$1")" = "$2" ]
}

# disk_attach NAME SPEC [nowait]: attaches a disk (`phy:/dev/x,xvdb,w`), waits until it is up.
disk_attach() {
	local name=$1 spec=$2 vdev output tries=2
	vdev=$(tr , '\n' <<<"$spec" | sed 's/^vdev=//' | grep -m 1 '^xvd')
	until output=$(xl block-attach "$(guest_id "$name")" "$spec" 2>&1); do
		complain "xl block-attach $name $spec failed: $(xl_error <<<"$output")"
		# libxl gives a hotplug script ten seconds, which can be too few on an emulated machine and
		# cannot be changed. It has undone everything then.
		[[ $output == *"killing execution"*"because of timeout"* && $((tries--)) -gt 0 ]] || return 1
	done
	[ "$3" = nowait ] || disk_wait "$name" "$vdev"
}

# disk_wait NAME VDEV: waits until both ends are connected and the guest has the disk.
disk_wait() {
	if ! wait_for "$XENVM_QUICK" xs_state_is "$(frontend_path "$1" "$2")" 4; then
		complain "guest $1: $2 is in state $(xs_state "$(frontend_path "$1" "$2")"), not connected"
		return 1
	fi
	if ! guest_run "$1" "for i in {1..$(stretch 300)}; do [ -b /dev/$2 ] && exit; sleep 0.1; done; exit 1"; then
		complain "guest $1: there is no /dev/$2"
		return 1
	fi
}

# disk_detach NAME VDEV [force]: detaches a disk and waits until it is gone from xenstore.
disk_detach() {
	local name=$1 vdev=$2 frontend output
	frontend=$(frontend_path "$name" "$vdev")
	if ! output=$(xl block-detach ${3:+--force} "$(guest_id "$name")" "$(vdev_number "$vdev")" 2>&1); then
		complain "xl block-detach $name $vdev failed: $(xl_error <<<"$output")"
		return 1
	fi
	if ! wait_for "$XENVM_QUICK" xs_state_is "$frontend" gone; then
		complain "guest $name: $vdev was detached but is still in xenstore"
		return 1
	fi
}
