# SPDX-License-Identifier: GPL-2.0
"""The Debian package, and a Debian root in which it is installed."""

import shutil
import subprocess
from pathlib import Path

from . import buildroot, cache, modules, process
from .progress import Failure, say, step

PACKAGING = "build-essential debhelper dh-dkms lintian dpkg-dev".split()


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


def fresh_root(folder):
    """Makes a Debian root that has no more than a user's machine before the package is installed."""
    buildroot.debootstrap(folder, ["apt", "kmod", "initramfs-tools", "ca-certificates", "zstd", "xz-utils"],
                          "package-check")
    return folder / "root"


def package_check(arguments):
    """Installs the Debian package in a fresh root, and sees what becomes of it; prints KTAP."""
    path = build()
    place = modules.place_of_builds() / "package-check"
    process.fresh_log("package-check")
    with cache.locked("package-check"):
        cache.remove(place)
        place.mkdir(parents=True)
        with step("Debian 13 root to install the package in"):
            here = fresh_root(place)
        (here / "srv").mkdir(exist_ok=True)
        shutil.copy2(path, here / "srv/xen-pv-rust-dkms.deb")
        shutil.copytree(cache.SELFTESTS / "package", here / "srv/package")
        shutil.copytree(cache.SELFTESTS / "lib", here / "srv/lib")
        done = subprocess.run(
            process.isolated(["bash", "/srv/package/check.sh"], root=here, env={
                "DEBIAN_FRONTEND": "noninteractive", "XENVM_LIB": "/srv/lib"}),
            check=False, preexec_fn=process.die_with_parent)
        if not arguments.keep:
            cache.remove(place)
    return done.returncode
