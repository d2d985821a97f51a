# SPDX-License-Identifier: GPL-2.0
"""Debian 13 root folders: one with the tool chain and QEMU, one for dom0."""

import re

from . import cache, host, process
from .progress import step

SUITE = "trixie"

BUILD_PACKAGES = """
    gcc gcc-14 libc6-dev make bc bison flex libelf-dev libssl-dev libdw-dev xz-utils zstd cpio
    kmod python3 pahole rustc rust-src bindgen rustfmt rust-clippy cargo clang-19 llvm-19 lld-19
    rsync perl e2fsprogs qemu-system-x86 shellcheck libglib2.0-dev
""".split()

DOM0_PACKAGES = """
    xen-utils-4.20 xen-utils-common xenstore-utils xen-hypervisor-4.20-amd64 qemu-system-xen
    iproute2 iputils-ping fio iperf3 ethtool kmod e2fsprogs xfsprogs procps util-linux mount
    bridge-utils busybox-static cpio udev gawk nftables tcpdump socat wireguard-tools python3
    python3-yaml bpftool
""".split()


def sources(suite, mirror):
    """Returns the lines of apt's list of sources for a suite."""
    # Others than the stable one have neither, or nothing in them.
    parts = [suite, f"{suite}-updates", f"{suite}-backports"] if suite == SUITE else [suite]
    return [f"deb {mirror} {part} main" for part in parts]


def debootstrap(folder, packages, log, skip=(), suite=SUITE, options=()):
    """Makes a minimal Debian root with the given packages in `folder`/root."""
    root = folder / "root"
    mirror = host.mirror()
    process.fresh_log(log)
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--architectures=amd64",
               f"--include={','.join(packages)}",
               "--dpkgopt=path-exclude=/usr/share/man/*",
               "--dpkgopt=path-exclude=/usr/share/locale/*",
               "--dpkgopt=path-exclude=/usr/share/doc/*",
               "--dpkgopt=force-unsafe-io",
               *(f"--aptopt={option}" for option in [*host.apt_options(), *options]),
               *(f"--skip={item}" for item in skip),
               suite, str(root), *sources(suite, mirror)]
    process.run(process.isolated(command), log,
                f"mmdebstrap could not make a Debian root from {mirror}")


def build_root():
    """Returns the root folder that holds the tool chain and QEMU."""
    recipe = ["build root", 2, SUITE, sorted(BUILD_PACKAGES)]

    def build(folder):
        with step("Debian 13 build root (tool chain, QEMU)"):
            debootstrap(folder, BUILD_PACKAGES, "build-root", ["cleanup/apt/lists"])
            (folder / "root/srv").mkdir(exist_ok=True)

    return cache.piece("build-root", recipe, build) / "root"


def dom0_root():
    """Returns the unpacked root folder of dom0, from which its disk image is made."""
    recipe = ["dom0 root", 2, SUITE, sorted(DOM0_PACKAGES)]

    def build(folder):
        with step("Debian 13 root of dom0 (Xen tools)"):
            debootstrap(folder, DOM0_PACKAGES, "dom0-root")

    return cache.piece("dom0-root", recipe, build) / "root"


def enter(argv, binds=(), cwd=None, env=None):
    """Returns a command line that runs `argv` in the build root."""
    return process.isolated(argv, root=build_root(), binds=binds, cwd=cwd, env=env)


def available(root):
    """Yields name and version of every package that apt in the build root can fetch."""
    text = process.run(process.isolated(["apt-cache", "dumpavail"], root=root), "apt-cache",
                       "apt-cache failed in the build root", capture=True)
    for record in text.split("\n\n"):
        name = re.search(r"(?m)^Package: (\S+)", record)
        version = re.search(r"(?m)^Version: (\S+)", record)
        if name and version:
            yield name.group(1), version.group(1)
