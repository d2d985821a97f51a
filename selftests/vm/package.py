# SPDX-License-Identifier: GPL-2.0
"""The Debian package, and a Debian root in which it is installed."""

import shutil
import subprocess
from pathlib import Path

from . import buildroot, cache, modules, process
from .machine import Machine, Options
from .progress import Failure, say, step

PACKAGING = "build-essential debhelper dh-dkms lintian dpkg-dev".split()
# What a machine has that the package is installed on.
USERS = """
    apt kmod initramfs-tools ca-certificates zstd xz-utils udev iproute2 iputils-ping util-linux
""".split()
UNUSED = "usr/src usr/lib/rustlib usr/lib/gcc usr/lib/llvm-19 usr/include var/cache var/lib/apt var/lib/dkms".split()


def root():
    """Returns a root folder in which packages can be built."""
    recipe = ["package root", 1, buildroot.SUITE, sorted(PACKAGING)]

    def build(folder):
        with step("Debian 13 root to build packages in"):
            buildroot.debootstrap(folder, PACKAGING, "package-root")
            (folder / "root/srv").mkdir(exist_ok=True)

    return cache.piece("package-root", recipe, build) / "root"


def build():
    """Builds the package, and has lintian look at it; returns where it is."""
    place = modules.place_of_builds() / "package"
    here = root()
    process.fresh_log("package")
    with cache.locked("build-package"), step("Debian package"):
        cache.remove(place)
        (place / "source").mkdir(parents=True)
        modules.sync(place / "source")

        def inside(argv, failure):
            process.run(process.isolated(argv, root=here, binds=[(place, "/srv/build")],
                                         cwd="/srv/build/source"), "package", failure)

        inside(["dpkg-buildpackage", "-us", "-uc", "--build=full"], "the package does not build")
        # Contributors have no address in common, and none is invented.
        inside(["sh", "-c", "lintian --fail-on error,warning --no-tag-display-limit "
                "--suppress-tags malformed-contact,bogus-mail-host-in-debian-changelog ../*.changes"],
               "lintian has something to say against the package")
        found = list(place.glob("*.deb"))
        if len(found) != 1:
            raise Failure(f"the build made {len(found)} packages instead of one")
    return found[0]


def deb(arguments):
    """Builds the Debian package."""
    path = build()
    if arguments.output:
        Path(arguments.output).mkdir(parents=True, exist_ok=True)
        path = Path(shutil.copy2(path, arguments.output))
    say(f"built {path} ({path.stat().st_size // 1024} KiB)")
    return 0


def fresh_root(folder, suite):
    """Makes a Debian root that has no more than a user's machine before the package is installed."""
    # A mirror's copy of a suite that is not stable may be older than it means to get.
    buildroot.debootstrap(folder, USERS, "package-check", suite=suite,
                          options=["Acquire::Check-Valid-Until \"false\""])
    here = folder / "root"
    # Nobody waits for the disk of a root that is thrown away.
    (here / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")
    (here / "etc/apt/apt.conf.d/valid-until").write_text("Acquire::Check-Valid-Until \"false\";\n")
    return here


def guest_disk(root, place):
    """Makes of a Debian root what a guest boots from: disk.img, vmlinuz and initrd.img in `place`."""
    place.mkdir()
    release = subprocess.run(["ls", "-v", root / "lib/modules"], capture_output=True, text=True,
                             check=True).stdout.split()[-1]
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy2(root / f"boot/{name}-{release}", place / name)
    empty = place / "empty"
    empty.mkdir()
    process.run(process.isolated(
        ["sh", "-euc", """
         truncate -s 3G /srv/out/disk.img
         mke2fs -q -t ext4 -m 0 -d /srv/root /srv/out/disk.img"""],
        root=buildroot.build_root(),
        binds=[(place, "/srv/out"), (root, "/srv/root"),
               # Compilers and sources, of which a guest makes no use.
               *((empty, f"/srv/root/{name}") for name in UNUSED if (root / name).is_dir())]),
        "package-check", "a guest's disk could not be made of the Debian root")


def boot(disks, arguments):
    """Boots guests from these disks, by name, on an emulated machine; prints KTAP, returns the exit status."""
    machine = Machine("package", Options(arguments, timeout=1800, tcg_thread="single", qemu_arg=[
        f"-drive file=/srv/run/{name}.img,if=virtio,format=raw,snapshot=on" for name in disks]))
    job = machine.folder / "guests"
    job.mkdir()
    shutil.copy2(cache.SELFTESTS / "package/boot.sh", job / "run")
    for name, place in disks.items():
        (place / "disk.img").rename(machine.folder / f"{name}.img")
        place.rename(job / name)
    try:
        machine.prepare(job, ["./run"])
        with machine:
            status = machine.follow(lambda data: print(data.decode(errors="replace"), end="", flush=True))
    finally:
        cache.remove(job)
        for name in disks:
            cache.remove(machine.folder / f"{name}.img")
    for name, line in machine.consoles.troubles:
        status = status or 1
        print(f"# the console of {name} says: {line}")
    return status


def package_check(arguments):
    """Installs the Debian package in a fresh root, boots guests from it, and removes it; prints KTAP."""
    path = build()
    place = modules.place_of_builds() / "package-check"
    process.fresh_log("package-check")
    with cache.locked("package-check"):
        cache.remove(place)
        place.mkdir(parents=True)
        with step(f"Debian root ({arguments.suite}) to install the package in"):
            here = fresh_root(place, arguments.suite)
        (here / "srv").mkdir(exist_ok=True)
        shutil.copy2(path, here / "srv/xen-pv-rust-dkms.deb")
        shutil.copytree(cache.SELFTESTS / "package", here / "srv/package")
        shutil.copytree(cache.SELFTESTS / "lib", here / "srv/lib")
        status, disks = 0, {}
        for phase in ("install", "remove"):
            status |= subprocess.run(
                process.isolated(["bash", "/srv/package/check.sh", phase, arguments.suite], root=here, env={
                    "DEBIAN_FRONTEND": "noninteractive", "XENVM_LIB": "/srv/lib"}),
                check=False, preexec_fn=process.die_with_parent).returncode
            if not arguments.no_boot:
                with step(f"guest's disk, after \"{phase}\""):
                    guest_disk(here, place / phase)
                disks[phase] = place / phase
        if disks:
            status |= boot(disks, arguments)
        if not arguments.keep:
            cache.remove(place)
    return status
