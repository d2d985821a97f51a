# SPDX-License-Identifier: GPL-2.0
"""The debug kernel: the source of the kernel under test, configured to find mistakes.

It is laid out like the kernel under test (kernel.json, vmlinuz, modules, source), so that
`xenvm run --kernel FOLDER` boots it as dom0 and as guest.
"""

import json
import os
import re
from pathlib import Path

from vm import buildroot, cache, kernel, process
from vm.progress import Failure, step

CONFIG = Path(__file__).with_name("kernel.config")
# Raised when the way of building changes.
RECIPE = 1
# Modules are built against the rest.
UNNEEDED = ("Documentation", "samples", "sound", "drivers", "fs", "net", "mm", "crypto",
            "security", "block", "ipc", "virt", "io_uring", "usr", "init", "kernel", "lib")
UNNEEDED_SUFFIXES = (".o", ".a", ".ko", ".c", ".S", ".rst", ".cmd")


def wanted(text):
    """Returns what a config fragment asks for, by option."""
    values = {}
    for line in text.splitlines():
        if match := re.fullmatch(r"(CONFIG_\w+)=(.*)", line):
            values[match[1]] = match[2]
        elif match := re.fullmatch(r"# (CONFIG_\w+) is not set", line):
            values[match[1]] = "n"
    return values


def check_config(tree):
    """Fails when an option of the fragment did not make it into the configuration."""
    got = wanted((tree / ".config").read_text())
    lost = [option for option, value in wanted(CONFIG.read_text()).items()
            if got.get(option, "n") != value]
    if lost:
        raise Failure(f"kernel.config asks for what this kernel cannot be: {' '.join(lost)}")


def inside(folder, argv, failure):
    """Runs a program in the build root, which sees `folder` where kernel trees belong."""
    process.run(buildroot.enter(argv, [(folder, "/srv/kernel")], cwd="/srv/kernel"),
                "debug-kernel", failure)


def make(folder, words, failure):
    """Runs make in the tree of `folder`."""
    inside(folder, ["make", f"CC={kernel.CC}", f"-j{os.cpu_count()}", "-C", kernel.KDIR, *words],
           failure)


def configure(folder):
    """Makes the configuration: the smallest one, and what kernel.config adds."""
    (folder / "fragment").write_text(CONFIG.read_text())
    make(folder, ["tinyconfig"], "make tinyconfig failed")
    inside(folder, ["sh", "-ec", f"cd {kernel.KDIR}; "
                    "scripts/kconfig/merge_config.sh -m .config /srv/kernel/fragment"],
           "the configurations could not be merged")
    make(folder, ["olddefconfig"], "make olddefconfig failed")
    check_config(folder / "source")


def collect(folder, known):
    """Puts the kernel and its modules in their places, and drops what is not needed any more."""
    source = folder / "source"
    make(folder, ["INSTALL_MOD_PATH=/srv/kernel/installed", "INSTALL_MOD_STRIP=1",
                  "modules_install"], "the modules of the debug kernel could not be installed")
    release = (source / "include/config/kernel.release").read_text().strip()
    (source / "arch/x86/boot/bzImage").replace(folder / "vmlinuz")
    (folder / "installed/lib/modules" / release).replace(folder / "modules")
    (folder / "modules/build").unlink(missing_ok=True)
    cache.remove(folder / "installed")
    (folder / "kernel.json").write_text(json.dumps({**known, "release": release}, indent=1) + "\n")
    for name in UNNEEDED:
        for path in (source / name).rglob("*"):
            if path.suffix in UNNEEDED_SUFFIXES and path.is_file():
                path.unlink()
    for pattern in ("vmlinux*", ".tmp_vmlinux*", "arch/x86/boot/**/vmlinux*"):
        for path in source.glob(pattern):
            cache.remove(path)


def build(folder):
    """Builds the debug kernel in `folder`."""
    base = kernel.tree()
    process.fresh_log("debug-kernel")
    with step("debug kernel: configuration"):
        # Links suffice: nothing writes to a source, and what was built goes first.
        process.run(["cp", "-al", base / "source", folder / "source"], "debug-kernel",
                    "the kernel source could not be linked")
        make(folder, ["mrproper"], "make mrproper failed")
        configure(folder)
    with step("debug kernel: build"):
        make(folder, ["bzImage", "modules"], "the debug kernel does not build")
        collect(folder, json.loads((base / "kernel.json").read_text()))


def tree():
    """Returns the folder with source, vmlinuz and modules of the debug kernel."""
    base = kernel.tree()
    known = json.loads((base / "kernel.json").read_text())
    recipe = ["debug kernel", RECIPE, kernel.CC, known["version"], CONFIG.read_text(),
              buildroot.build_root().parent.name]
    return cache.piece("debug-kernel", recipe, build)
