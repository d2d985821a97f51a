# SPDX-License-Identifier: GPL-2.0
"""What the host has to offer: its Debian mirror and a few programs."""

import re
import shutil
import subprocess
from pathlib import Path

from . import process
from .progress import Failure, say

DEFAULT_MIRROR = "http://deb.debian.org/debian"
PROGRAMS = {"mmdebstrap": "mmdebstrap", "unshare": "util-linux", "mount": "mount", "apt-get": "apt"}


def field(stanza, name):
    """Returns a field of a stanza in deb822's form."""
    match = re.search(rf"(?mi)^{name}:[ \t]*(.*)", stanza)
    return match.group(1) if match else ""


def mirror(sources=Path("/etc/apt")):
    """Returns the Debian mirror that the host itself is configured to use."""
    files = [sources / "sources.list", *sorted((sources / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        text = "\n".join(line for line in file.read_text(errors="replace").splitlines()
                         if not line.lstrip().startswith("#"))
        if file.suffix == ".sources":
            entries = [(field(stanza, "URIs"), field(stanza, "Components"))
                       for stanza in re.split(r"\n[ \t]*\n", text)]
        else:
            entries = re.findall(r"(?m)^deb[ \t]+(?:\[[^]]*\][ \t]+)?(\S+)[ \t]+\S+[ \t]+(.*)", text)
        for uris, components in entries:
            # Others have a /debian, too, but no component of this name.
            for uri in uris.split():
                if "main" in components.split() and re.fullmatch(r"https?://\S*/debian/?", uri):
                    return uri.rstrip("/")
    return DEFAULT_MIRROR


def apt_options():
    """Returns the host's proxy settings for apt, as options for another apt."""
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False)
    return [line for line in done.stdout.splitlines()
            if re.match(r"Acquire::https?::Proxy\b", line)]


def ensure_programs():
    """Installs the host programs that are missing."""
    process.require_root()
    missing = sorted({package for program, package in PROGRAMS.items()
                      if not shutil.which(program)})
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise Failure(f"there is no apt-get on this host to install {' '.join(missing)} with")
    say(f"installing on the host: {' '.join(missing)}")
    process.fresh_log("host")
    process.run(["apt-get", "update"], "host", "apt-get update failed on the host")
    process.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], "host",
                f"apt-get could not install {' '.join(missing)} on the host")
