# SPDX-License-Identifier: GPL-2.0
"""The kernel under test: Debian's binary, and its source prepared to build modules for it.

Debian's header packages carry no Rust metadata. A source tree of the same version, configured
alike and prepared with the same compilers, yields the metadata; that it is the same is seen in
the hash that rustc puts into the mangled names of the `kernel` crate.
"""

import functools
import json
import re
import subprocess
from pathlib import Path

from . import buildroot, cache, process
from .progress import Failure, step

CC = "x86_64-linux-gnu-gcc-14"
# Where the build root sees the prepared tree; fixed, because a kernel tree remembers its path.
KDIR = "/srv/kernel/source"
CRATE_HASH = re.compile(r"_R\w*?Cs([0-9A-Za-z]+)_6kernel")


def newer(left, right):
    """Compares two Debian version numbers."""
    return subprocess.run(["dpkg", "--compare-versions", left, "gt", right],
                          check=False).returncode == 0


def choose(packages, series=None):
    """Returns release, source package and version of the newest kernel that has both packages.

    `series` (such as 7.2) leaves others out.
    """
    packages = dict(packages)
    images = {}
    for name, version in packages.items():
        match = re.fullmatch(r"linux-image-(\d+\.\d+)([^-]*\+deb\d+)-amd64", name)
        source = match and f"linux-source-{match.group(1)}"
        if source and packages.get(source) == version and series in (None, match.group(1)):
            images[version] = (match.group(1) + match.group(2) + "-amd64", source)
    if not images:
        raise Failure(f"the Debian mirror has no kernel{f' {series}' if series else ''} of which "
                      "both linux-image-*-amd64 and linux-source-* exist in the same version")
    best = functools.reduce(lambda a, b: a if newer(a, b) else b, images)
    return *images[best], best


def crate_hashes(symvers):
    """Returns the hashes of the `kernel` crate in a list of symbols."""
    return set(CRATE_HASH.findall(symvers))


def unpack(root, folder, pattern):
    """Unpacks the packages whose file names match, and removes them."""
    debs = sorted(folder.glob(pattern))
    for deb in debs:
        process.run(process.isolated(["dpkg-deb", "-x", f"/srv/kernel/{deb.name}",
                                      "/srv/kernel/unpacked"],
                                     root=root, binds=[(folder, "/srv/kernel")]),
                    "kernel", f"{deb.name} could not be unpacked")
        deb.unlink()


def build_tree(root, folder, series):
    """Fetches the packages of the newest kernel, of a series if one is named, and prepares its source tree."""
    binds = [(folder, "/srv/kernel")]
    # A mirror may be reached by https, for which the build root has no certificates.
    certificates = Path("/etc/ssl/certs")
    if certificates.is_dir():
        binds.append((certificates, str(certificates)))

    def inside(argv, failure, cwd="/srv/kernel"):
        process.run(process.isolated(argv, root=root, binds=binds, cwd=cwd), "kernel", failure)

    process.fresh_log("kernel")
    release, source, version = choose(buildroot.available(root), series)
    flavourless = release.rsplit("-", 1)[0]
    with step(f"kernel {release}: packages"):
        names = [source, f"linux-headers-{release}", f"linux-headers-{flavourless}-common",
                 f"linux-image-{release}"]
        known = dict(buildroot.available(root))
        names += [name for name in (f"linux-binary-{release}", f"linux-modules-{release}",
                                    f"linux-base-{release}") if name in known]
        inside(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
                *(f"{name}={version}" for name in names)],
               f"the packages of kernel {version} could not be fetched")
    with step(f"kernel {release}: source"):
        inside(["sh", "-ec",
                f"dpkg-deb --fsys-tarfile {source}_*.deb |"
                f" tar -xO --wildcards './usr/src/{source}.tar.xz' | tar -xJ --no-same-owner;"
                f" mv {source} source; rm {source}_*.deb"],
               f"the source of kernel {version} could not be unpacked")
        unpack(root, folder, "linux-*.deb")
    headers = folder / "unpacked/usr/src" / f"linux-headers-{release}"
    symvers = headers / "Module.symvers"
    configs = [headers / ".config", *folder.glob("unpacked/boot/config-*"),
               *folder.glob("unpacked/usr/lib/modules/*/config")]
    config = next((path for path in configs if path.is_file()), None)
    if not config or not symvers.is_file():
        raise Failure(f"the header package of kernel {release} has no .config or Module.symvers")
    with step(f"kernel {release}: prepare, modules_prepare"):
        tree = folder / "source"
        (tree / ".config").write_bytes(config.read_bytes())
        make = ["make", f"CC={CC}", f"KERNELRELEASE={release}"]
        inside([*make, "olddefconfig"], "make olddefconfig failed", cwd=KDIR)
        jobs = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
        inside([*make, f"-j{jobs}", "prepare", "modules_prepare"],
               f"the source tree of kernel {release} could not be prepared", cwd=KDIR)
        (tree / "Module.symvers").write_bytes(symvers.read_bytes())
    compare_hashes(root, folder, release, symvers.read_text())
    image = next(iter([*folder.glob("unpacked/boot/vmlinuz-*"),
                       *folder.glob("unpacked/usr/lib/modules/*/vmlinuz")]), None)
    modules = folder / "unpacked/usr/lib/modules" / release
    if not image or not (modules / "kernel").is_dir():
        raise Failure(f"the packages of kernel {release} have no vmlinuz or no modules")
    image.replace(folder / "vmlinuz")
    modules.replace(folder / "modules")
    cache.remove(folder / "unpacked")
    (folder / "kernel.json").write_text(json.dumps(
        {"release": release, "version": version, "source": source}, indent=1) + "\n")


def compare_hashes(root, folder, release, symvers):
    """Fails unless the prepared tree's `kernel` crate is that of Debian's binary kernel."""
    theirs = crate_hashes(symvers)
    names = process.run(
        process.isolated(["sh", "-ec", f"nm {KDIR}/rust/kernel.o"], root=root,
                         binds=[(folder, "/srv/kernel")]),
        "kernel", "rust/kernel.o of the prepared tree could not be read", capture=True)
    ours = set(re.findall(r"(?m) [TtDdRrBb] _R\w*?Cs([0-9A-Za-z]+)_6kernel", names))
    if not theirs:
        raise Failure(f"kernel {release} exports no symbol of the Rust `kernel` crate")
    if not theirs & ours:
        raise Failure(f"the Rust `kernel` crate built here has hash {' '.join(sorted(ours))}, "
                      f"but kernel {release} was built with {' '.join(sorted(theirs))}")


def tree(series=None):
    """Returns the folder with source, vmlinuz and modules of the kernel under test, or of another series."""
    root = buildroot.build_root()
    recipe = ["kernel", 2, CC, root.parent.name]
    kind = f"kernel_{series}" if series else "kernel"
    return cache.piece(kind, recipe, lambda folder: build_tree(root, folder, series))


def named(word):
    """Returns the folder of a kernel, given its series (such as 7.2), that folder, or nothing."""
    if not word or re.fullmatch(r"\d+\.\d+", word):
        return tree(word)
    return Path(word).resolve()


def release(folder):
    """Returns the release name of the kernel in a folder that `tree` returned."""
    return json.loads((folder / "kernel.json").read_text())["release"]
