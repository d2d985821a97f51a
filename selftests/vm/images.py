# SPDX-License-Identifier: GPL-2.0
"""What is booted: dom0's disk, the guests' RAM root, the modules of the kernel, the initramfs.

None of them holds a file of this project, so they stay valid while the project changes.
"""

import gzip
import lzma
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import buildroot, cache, kernel, process, stubs
from .progress import Failure, step

# The programs of the guests' RAM root; the libraries they need come along.
GUEST_PROGRAMS = """
    bash busybox fio mkfs.ext4 e2fsck tune2fs dumpe2fs debugfs resize2fs mkfs.xfs xfs_repair
    xfs_io blkid lsblk mount umount mountpoint blockdev blkdiscard blkzone fallocate losetup
    wipefs findmnt flock setsid dmesg mkswap swapon swapoff taskset nsenter unshare logger
    kmod modprobe insmod rmmod lsmod modinfo depmod ethtool ip tc bridge ss nstat ping iperf3 nft
    xenstore-read xenstore-write xenstore-watch xenstore-ls xenstore-rm xenstore-exists
    xenstore-list xenstore-chmod
    ps pgrep pkill top free vmstat sysctl uptime grep sed gawk awk find xargs cmp diff gzip tar
    cpio cat chmod chown chroot cp cut date dd df dirname basename du echo env expr false head id ln ls
    md5sum mkdir mkfifo mknod mktemp mv nice nohup nproc od paste printf pwd readlink realpath rm
    rmdir seq sha256sum shuf sleep sort split stat stdbuf stty sum sync tail tee test timeout
    touch tr true truncate tty uname uniq wc yes base64 cksum comm hostname which
""".split()

# Folders of the module tree that dom0 and guests can make use of in an emulated PC.
MODULE_FOLDERS = """
    arch block crypto lib mm security/keys fs/9p fs/netfs fs/ext4 fs/jbd2 fs/xfs fs/btrfs fs/fat
    fs/nls fs/configfs fs/overlayfs fs/isofs fs/mbcache.ko fs/binfmt_misc.ko fs/fuse fs/squashfs
    drivers/block drivers/xen drivers/md drivers/dax drivers/nvdimm drivers/nvme drivers/scsi
    drivers/target drivers/virtio drivers/char drivers/ata drivers/cdrom drivers/loop
    drivers/net/tun.ko drivers/net/tap.ko drivers/net/veth.ko drivers/net/dummy.ko
    drivers/net/virtio_net.ko drivers/net/net_failover.ko drivers/net/xen-netfront.ko
    drivers/net/xen-netback drivers/net/ifb.ko drivers/net/macvlan.ko drivers/net/vxlan
    drivers/net/bonding drivers/net/wireguard drivers/net/netconsole.ko drivers/net/netdevsim
    drivers/net/ethernet/intel/e1000 drivers/net/ethernet/realtek drivers/net/mii.ko
    drivers/input drivers/hid drivers/net/nlmon.ko drivers/pci drivers/hv drivers/vhost
    net/9p net/bridge net/802 net/8021q net/llc net/core net/ipv4 net/ipv6 net/netfilter
    net/sched net/packet net/packet.ko net/xdp net/vmw_vsock net/sctp net/key net/xfrm net/tls
    kernel
""".split()

# Loaded by dom0's initramfs: what it takes to reach its disk and the shared folder.
DOM0_EARLY = ["virtio_pci", "virtio_blk", "ext4", "9pnet_virtio", "9p"]

# The guests' module tree: these and what they depend on.
GUEST_MODULES = """
    xen-blkfront xen-netfront xen-evtchn xen-gntdev xen-gntalloc xen-privcmd xenfs ext4 xfs
    crc32c-cryptoapi crc32c_cryptoapi loop null_blk dm-mod dm-crypt dm-flakey dm-log-writes brd configfs
    nls_ascii nls_cp437 vfat overlay tun bridge veth mq-deadline kyber-iosched bfq zram
    raid0 raid1 scsi_debug sha256 xen-netback 8021q vxlan bonding pktgen macvlan ifb
    nf_tables nft_ct nft_nat nft_masq nft_chain_nat nft_redir sch_netem sch_tbf cls_u32 act_mirred
""".split()

COPY_GUEST = r"""
stage=$1; stubs=$2; shift 2
mkdir -p "$stage"/usr/bin "$stage"/usr/lib/x86_64-linux-gnu "$stage"/usr/lib64 "$stage"/etc \
	"$stage"/root "$stage"/proc "$stage"/sys "$stage"/dev "$stage"/run "$stage"/tmp \
	"$stage"/mnt "$stage"/var "$stage"/sysroot
ln -s usr/bin "$stage"/bin; ln -s usr/bin "$stage"/sbin; ln -s bin "$stage"/usr/sbin
ln -s usr/lib "$stage"/lib; ln -s usr/lib64 "$stage"/lib64; ln -s /run "$stage"/var/run
for name; do
	path=$(command -v "$name") && [ -x "$path" ] || path=/usr/bin/$name
	if ! [ -x "$path" ]; then echo "error: dom0's root has no program $name"; exit 1; fi
	real=$(readlink -f "$path")
	cp -n "$real" "$stage/usr/bin/${real##*/}"
	[ "${real##*/}" = "$name" ] || ln -sfn "${real##*/}" "$stage/usr/bin/$name"
	LD_LIBRARY_PATH=$stubs ldd "$real" 2>/dev/null || :
done | sed -n 's/.*=> \(\/[^ ]*\) (0x.*/\1/p' | sort -u | while read -r library; do
	cp -nL "$library" "$stage/usr/lib/x86_64-linux-gnu/${library##*/}"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$stage"/usr/lib64/
ln -sfn bash "$stage"/usr/bin/sh
cp /usr/lib/x86_64-linux-gnu/libgcc_s.so.1 "$stage"/usr/lib/x86_64-linux-gnu/
cp -rL /usr/libexec/coreutils "$stage"/usr/lib/ 2>/dev/null || :
cp /etc/mke2fs.conf "$stage"/etc/
echo root:x:0:0:root:/root:/bin/bash >"$stage"/etc/passwd
echo root:x:0: >"$stage"/etc/group
: >"$stage"/etc/fstab
"""


def require(path, what):
    """Fails when a file that a package should have brought is not there."""
    if not path.exists():
        raise Failure(f"{what} is missing: {path.name} is not where its package used to put it")
    return path


def build_system(folder):
    """Makes dom0's disk image with the guests' RAM root in it, and gets Xen out."""
    root = buildroot.dom0_root()
    process.fresh_log("system")
    extra = folder / "srv"
    extra.mkdir()
    with step("dom0's disk and the guests' RAM root"):
        hypervisors = sorted((root / "boot").glob("xen-*-amd64.gz"))
        if not hypervisors:
            raise Failure("Debian's hypervisor package brought no xen-*-amd64.gz")
        with gzip.open(hypervisors[-1]) as packed, open(folder / "xen", "wb") as plain:
            shutil.copyfileobj(packed, plain)
        (folder / "stubs").mkdir()
        stubs.build(folder / "stubs")
        process.run(process.isolated(
            ["sh", "-euc", COPY_GUEST, "copy-guest", "/srv/out/guest", "/srv/out/stubs",
             *GUEST_PROGRAMS],
            root=root, binds=[(folder, "/srv/out")]), "system",
            "the guests' RAM root could not be put together")
        process.run(process.isolated(
            ["sh", "-euc", """
             cd /srv/out/guest; find . | cpio -oH newc -R 0:0 --quiet >/srv/dom0/srv/guest.cpio
             truncate -s 2G /srv/out/dom0.img
             mke2fs -q -t ext4 -O ^has_journal -m 0 -d /srv/dom0 /srv/out/dom0.img"""],
            root=buildroot.build_root(),
            binds=[(folder, "/srv/out"), (root, "/srv/dom0"), (extra, "/srv/dom0/srv")]),
            "system", "dom0's disk image could not be made")
        cache.remove(folder / "guest")
        cache.remove(extra)
        cache.remove(folder / "stubs")


def system():
    """Returns the folder with xen and dom0.img."""
    buildroot.build_root()
    recipe = ["system", 7, COPY_GUEST, stubs.STORAGE, GUEST_PROGRAMS, buildroot.dom0_root().parent.name]
    return cache.piece("system", recipe, build_system)


class ModuleTree:
    """A tree of kernel modules with what depmod found out about it."""

    def __init__(self, folder):
        self.folder = folder
        self.needs = {}
        self.paths = {}
        for line in (folder / "modules.dep").read_text().splitlines():
            path, _, needs = line.partition(":")
            self.needs[path] = needs.split()
            self.paths[self.name(path)] = path

    @staticmethod
    def name(path):
        """Returns the name of a module, given its path or its name with dashes."""
        return Path(path).name.partition(".")[0].replace("-", "_")

    def closure(self, names):
        """Returns the paths of modules and all they need, in an order to load them in."""
        order = []
        for name in names:
            path = self.paths.get(self.name(name))
            if path:
                for needed in [*reversed(self.needs[path]), path]:
                    if needed not in order:
                        order.append(needed)
        return order


def copy_modules(source, target):
    """Copies the useful part of a module tree, decompressed."""
    wanted = []
    for name in MODULE_FOLDERS:
        path = source / "kernel" / name
        if path.is_dir():
            wanted += path.rglob("*.ko*")
        else:
            wanted += path.parent.glob(f"{path.name}*")

    def copy(path):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".xz":
            place.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
        elif path.suffix == ".ko":
            shutil.copyfile(path, place)
        else:
            raise Failure(f"module {path.name} is compressed in a way this does not know")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(copy, set(wanted)))
    for path in source.glob("modules.*"):
        if path.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copyfile(path, target / path.name)


def build_boot(folder, source):
    """Makes the modules' disk image and the initramfs of dom0 for the kernel in `source`."""
    release = kernel.release(source)
    process.fresh_log("boot")
    with step(f"kernel {release}: module images and initramfs"):
        tree = folder / "tree/modules" / release
        tree.mkdir(parents=True)
        copy_modules(source / "modules", tree)
        binds = [(folder, "/srv/out")]
        depmod = ["depmod", "-b", "/srv/out/tree", "-m", "/modules", release]
        process.run(buildroot.enter(depmod, binds), "boot", "depmod failed")
        modules = ModuleTree(tree)
        shutil.copyfile(source / "vmlinuz", folder / "vmlinuz")

        guest = folder / "guest/usr/lib/modules" / release
        for path in modules.closure(GUEST_MODULES):
            (guest / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / path, guest / path)
        for path in tree.glob("modules.*"):
            if path.suffix in (".order", ".builtin", ".modinfo"):
                shutil.copyfile(path, guest / path.name)

        early = folder / "early"
        for name in ("bin", "proc", "sys", "dev", "newroot", "modules"):
            (early / name).mkdir(parents=True)
        shutil.copyfile(require(buildroot.dom0_root() / "usr/bin/busybox", "busybox"),
                        early / "bin/busybox")
        os.chmod(early / "bin/busybox", 0o755)
        os.symlink("busybox", early / "bin/sh")
        order = []
        for path in modules.closure(DOM0_EARLY):
            shutil.copyfile(tree / path, early / "modules" / Path(path).name)
            order.append(Path(path).name)
        (early / "modules/order").write_text("\n".join(order) + "\n")
        shutil.copyfile(Path(__file__).parents[1] / "dom0/early-init", early / "init")
        os.chmod(early / "init", 0o755)

        process.run(buildroot.enter(["sh", "-euc", """
            cd /srv/out/guest; depmod -b /srv/out/guest -m /usr/lib/modules "$0"
            find . | cpio -oH newc -R 0:0 --quiet >../tree/guest-modules.cpio
            cd /srv/out/early; find . | cpio -oH newc -R 0:0 --quiet >../initramfs
            cp /srv/out/vmlinuz /srv/out/tree/vmlinuz
            truncate -s $(($(du -sm /srv/out/tree | cut -f1) + 96))M /srv/out/modules.img
            mke2fs -q -t ext4 -O ^has_journal -m 0 -d /srv/out/tree /srv/out/modules.img
            """, release], binds), "boot", "the module images could not be made")
        (folder / "release").write_text(release + "\n")
        for name in ("tree", "guest", "early"):
            cache.remove(folder / name)


def boot(flavour=None):
    """Returns the folder with vmlinuz, initramfs, modules.img and release.

    `flavour` is a series, such as 7.2, or a folder laid out like that of `kernel.tree()`: kernel.json,
    vmlinuz, modules.
    """
    source = kernel.named(flavour)
    early = (Path(__file__).parents[1] / "dom0/early-init").read_text()
    recipe = ["boot", 5, MODULE_FOLDERS, GUEST_MODULES, DOM0_EARLY, early,
              buildroot.dom0_root().parent.name,
              source.name if not flavour else
              [cache.digest_files([source / "kernel.json", source / "vmlinuz"])]]
    kind = "boot" if not flavour else f"boot_{cache.digest(str(source))}"
    return cache.piece(kind, recipe, lambda folder: build_boot(folder, source))
