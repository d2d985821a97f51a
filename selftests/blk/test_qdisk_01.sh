#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The driver works with QEMU as backend, too, with an image file in dom0.
# pairs: rust/c
# control: c/c
# timeout: 400

# shellcheck source=selftests/blk/common.sh
. ./common.sh
ktap_set_plan 5
truncate -s 16M /tmp/qdisk.img
head -c 32M /dev/urandom >/tmp/qdisk2.img
# There is a QEMU for the guest only if it has such a disk from the start.
guest_create k disk="format=raw,vdev=xvda,access=rw,backendtype=qdisk,target=/tmp/qdisk.img" \
	set="device_model_override = '/usr/libexec/xen-qemu-system-i386'" ||
	ktap_exit_fail_msg "no guest with a disk of QEMU"
spec="format=raw,vdev=xvdb,access=rw,backendtype=qdisk,target=/tmp/qdisk2.img"
ktap_test "the disk that is there from the start works" disk_works k xvda
ktap_test "another one is attached" disk_attach k "$spec"
ktap_equal "it has its data" "$(sha256sum </tmp/qdisk2.img)" "$(sum_guest k xvdb)"
ktap_test "it works" fio_guest k /dev/xvdb 90 --rw=randrw --bsrange=4k-256k --size=4m --numjobs=2 \
	--offset_increment=16m --iodepth=16 --verify=crc32c --verify_fatal=1 --end_fsync=1
before=$(sum_guest k xvdb)
disk_detach k xvdb
disk_attach k "$spec"
ktap_equal "detached and attached, it has its data" "$before" "$(sum_guest k xvdb)"
guest_destroy k
rm /tmp/qdisk.img /tmp/qdisk2.img
ktap_finished
