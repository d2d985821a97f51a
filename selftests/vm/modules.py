# SPDX-License-Identifier: GPL-2.0
"""The project's modules and test programs: building them, and which of them a run uses."""

import shutil
import subprocess

from . import buildroot, cache, kernel, process
from .progress import Failure, step

MODULE = "/srv/build/source"
PROGRAMS = ("agent", "replay", "rogue")


def place_of_builds():
    """Returns the folder for what is built of this checkout."""
    return cache.root() / "build" / cache.digest(str(cache.PROJECT))


def folder(release):
    """Returns the build folder for a kernel release."""
    path = place_of_builds() / release
    (path / "source").mkdir(parents=True, exist_ok=True)
    return path


def sync(target):
    """Copies the project's sources to the build folder, leaving out what is not built."""
    excludes = ["/.git", "/selftests/vm", "/selftests/runs", "__pycache__", "target", "*.o",
                "*.ko", "*.mod", "*.mod.c", ".*.cmd", "*.rmeta", "/Module.symvers",
                "/modules.order"]
    process.run(process.isolated(
        ["rsync", "-a", "--no-times", "--checksum", *(f"--exclude={item}" for item in excludes),
         "/srv/project/", "/srv/target/"],
        root=buildroot.build_root(),
        binds=[(cache.PROJECT, "/srv/project"), (target, "/srv/target")]),
        "build", "rsync could not copy the sources")


def build(tree=None):
    """Builds the modules for the kernel under test; returns the folder with the .ko files."""
    tree = tree or kernel.tree()
    release = kernel.release(tree)
    place = folder(release)
    process.fresh_log("build")
    if not (cache.PROJECT / "Kbuild").exists():
        raise Failure("there is nothing to build: the project has no Kbuild file")
    with cache.locked(f"build-{release}"), step(f"modules for kernel {release}"):
        sync(place / "source")
        jobs = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
        process.run(buildroot.enter(
            ["make", f"-j{jobs}", "-C", kernel.KDIR, f"M={MODULE}", f"CC={kernel.CC}",
             f"KERNELRELEASE={release}", "modules"],
            [(tree, "/srv/kernel"), (place, "/srv/build")]), "build",
            "the modules do not build")
        listed = (place / "source/modules.order").read_text().split()
        found = [(place / "source" / path.removeprefix(f"{MODULE}/")).with_suffix(".ko")
                 for path in listed]
        if not found:
            raise Failure("the build made no module")
        partial, result = place / "modules.partial", place / "modules"
        cache.remove(partial)
        partial.mkdir()
        for path in found:
            shutil.copy2(path, partial / path.name)
        # Guests are emulated, and have every byte in memory: they do without debug information.
        process.run(buildroot.enter(
            ["sh", "-c", "strip --strip-debug /srv/build/modules.partial/*.ko"],
            [(place, "/srv/build")]), "build", "the modules cannot be stripped")
        cache.remove(result)
        partial.rename(result)
    return result


def build_programs():
    """Builds the test programs: the agent, the peers that misbehave, and tools of tests."""
    place = place_of_builds() / "programs"
    (place / "target").mkdir(parents=True, exist_ok=True)
    process.fresh_log("programs")
    with cache.locked("build-programs"), step("test programs"):
        for name in PROGRAMS:
            process.run(buildroot.enter(
                ["cargo", "build", "--release", "--offline", "--target-dir", "/srv/build/target"],
                [(cache.SELFTESTS, "/srv/programs"), (place, "/srv/build")],
                cwd=f"/srv/programs/{name}"),
                "programs", "the test programs do not build")
        partial, result = place / "bin.partial", place / "bin"
        cache.remove(partial)
        partial.mkdir()
        build_xdp(partial)
        for path in (place / "target/release").iterdir():
            if path.is_file() and path.stat().st_mode & 0o111 and not path.suffix:
                shutil.copy2(path, partial / path.name)
        cache.remove(result)
        partial.rename(result)
    return result


def build_xdp(target):
    """Builds the programs that see packets (XDP), for libbpf to load: an object for each source."""
    process.run(buildroot.enter(
        ["sh", "-euc", """
         for source in *.c; do
             clang-19 -target bpf -O2 -g -Wall -Werror -I/usr/include/x86_64-linux-gnu \
                 -c "$source" -o "/srv/out/${source%.c}.bpf.o"
         done"""],
        [(cache.SELFTESTS, "/srv/programs"), (target, "/srv/out")],
        cwd="/srv/programs/xdp"),
        "programs", "the programs that see packets do not build")


def copy_built(release, target):
    """Copies the modules built for a kernel release, and the test programs, for a run."""
    (target / "modules").mkdir()
    with cache.locked(f"build-{release}"), cache.locked("build-programs"):
        if built(release):
            shutil.copytree(built(release), target / "modules" / release)
        if programs():
            shutil.copytree(programs(), target / "bin")


def programs():
    """Returns the folder with the built test programs, if there is one."""
    path = place_of_builds() / "programs/bin"
    return path if path.is_dir() else None


def built(release):
    """Returns the folder with the modules built for a kernel release, if there is one."""
    path = place_of_builds() / release / "modules"
    return path if path.is_dir() else None


def parse(choices):
    """Yields driver and variant from words like `blkfront=rust`."""
    for choice in choices:
        driver, _, variant = choice.partition("=")
        if variant not in ("rust", "c"):
            raise Failure(f"{choice} is not of the form blkfront=rust or blkfront=c")
        yield driver, variant


def chosen(choices, variant):
    """Returns the modules of the drivers for which this variant was chosen."""
    return [f"xen-{driver}" for driver, what in parse(choices) if what == variant]


def variants(choices, modules_built, default=None):
    """Returns the variant of each driver: as chosen, else Rust where that was built."""
    names = {path.stem.removeprefix("xen-") for path in (modules_built or cache.root()).glob("xen-*.ko")}
    result = {name: default or "rust" for name in names}
    for driver, variant in parse(choices):
        if variant == "rust" and driver not in names:
            raise Failure(f"xen-{driver}.ko has not been built, so it cannot be chosen; "
                          "`xenvm build` builds it")
        result[driver] = variant
    return result
