# SPDX-License-Identifier: GPL-2.0
"""The Rust of this machine, for what the build root's has not: sanitizers, Miri, the fuzzer's hooks."""

import os
import re
import subprocess
from pathlib import Path

from .progress import Failure


def output(argv, env=None):
    """Returns what a program prints, or nothing if it fails or is not there."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=env, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def machine():
    """Returns what the compiler calls this machine."""
    found = re.search(r"(?m)^host: (\S+)", output(["rustc", "-vV"]))
    if not found:
        raise Failure("there is no Rust on this machine: install 1.85 or newer, "
                      "from Debian 13 or rustup.rs")
    return found.group(1)


def sanitized(name):
    """Returns the compiler's flags for a sanitizer, and the environment that it takes them in."""
    machine()
    libraries = Path(output(["rustc", "--print", "target-libdir"]).strip())
    if not list(libraries.glob(f"librustc-*_rt.{name[0]}san.a")):
        raise Failure("the Rust of this machine has no sanitizers: install that of rustup.rs")
    env = dict(os.environ, RUSTC_BOOTSTRAP="1")
    flags = [f"-Zsanitizer={name}"]
    # Newer compilers want to be told that the standard library was not built like that.
    mismatch = "-Cunsafe-allow-abi-mismatch=sanitizer"
    if output(["rustc", mismatch, "--print", "sysroot"], env):
        flags.append(mismatch)
    return flags, env


def miri():
    """Returns the beginning of command lines for Miri."""
    for cargo in (["cargo"], ["cargo", "+nightly"]):
        if output([*cargo, "miri", "--version"]):
            return [*cargo, "miri"]
    raise Failure("there is no Miri on this machine: install it with "
                  "rustup toolchain install nightly --component miri,rust-src")
