# SPDX-License-Identifier: GPL-2.0
"""A lighter fio for guests.

Debian's fio is linked with the libraries of every storage it knows: 60 of them, 60 MB, and seconds
of start-up on an emulated CPU. Guests get empty stand-ins of those that no test uses.
"""

import re

from . import buildroot, process
from .progress import Failure

STORAGE = ["libnfs", "libgfapi", "libnbd", "librdmacm", "libibverbs", "librados", "librbd",
           "libpmem"]
LIBRARIES = "/srv/dom0/usr/lib/x86_64-linux-gnu"


def symbols(root, binds, option, path):
    """Returns pairs of name and version of a file's dynamic symbols."""
    text = process.run(process.isolated(["nm", "-D", option, path], root=root, binds=binds),
                       "system", f"the symbols of {path} could not be read", capture=True)
    return re.findall(r"(?m) [A-Zi] ([A-Za-z0-9_]+)(?:@+(\S+))?$", text)


def build(folder):
    """Fills `folder` with stand-ins for the storage libraries of dom0's fio."""
    dom0, root = buildroot.dom0_root(), buildroot.build_root()
    binds = [(dom0, "/srv/dom0"), (folder, "/srv/stubs")]
    wanted = dict(symbols(root, binds, "--undefined-only", "/srv/dom0/usr/bin/fio"))
    for name in STORAGE:
        found = [path for path in (dom0 / "usr/lib/x86_64-linux-gnu").glob(f"{name}.so.*")
                 if re.fullmatch(r".*\.so\.\d+", path.name)]
        if not found:
            continue
        if len(found) > 1:
            raise Failure(f"dom0's root has more than one {name}")
        soname = found[0].name
        own = {symbol for symbol, _ in symbols(root, binds, "--defined-only",
                                               f"{LIBRARIES}/{soname}")}
        versions = {}
        for symbol in sorted(own & set(wanted)):
            versions.setdefault(wanted[symbol], []).append(symbol)
        source = "".join(f"long {symbol}(void) {{ return 0; }}\n"
                         for group in versions.values() for symbol in group)
        (folder / f"{soname}.c").write_text(source)
        script = "".join(f"{version} {{ {' '.join(f'{symbol};' for symbol in group)} }};\n"
                         for version, group in versions.items() if version)
        command = ["gcc-14", "-fno-builtin", "-shared", "-fPIC", "-O1", f"-Wl,-soname,{soname}", "-o",
                   f"/srv/stubs/{soname}", f"/srv/stubs/{soname}.c"]
        if script:
            (folder / f"{soname}.map").write_text(script)
            command.append(f"-Wl,--version-script,/srv/stubs/{soname}.map")
        process.run(process.isolated(command, root=root, binds=binds), "system",
                    f"the stand-in for {soname} could not be compiled")
        for path in folder.glob(f"{soname}.*"):
            if path.suffix in (".c", ".map"):
                path.unlink()
