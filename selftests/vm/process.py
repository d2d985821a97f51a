# SPDX-License-Identifier: GPL-2.0
"""Running programs, on the host and in a root folder, so that none outlives its caller."""

import ctypes
import os
import shlex
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from .cache import logs
from .progress import Failure

PR_SET_PDEATHSIG = 1
# What apt looks at besides its own configuration.
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_libc = ctypes.CDLL(None)

# Set when the program is to end: threads that wait for a machine or a program look at it.
ENDING = threading.Event()


class Pool(ThreadPoolExecutor):
    """Threads whose programs end when this one is interrupted."""

    def __exit__(self, kind, error, trace):
        if kind and not issubclass(kind, Failure):
            ENDING.set()
            self.shutdown(cancel_futures=True)
        return super().__exit__(kind, error, trace)


def die_with_parent():
    """Makes the kernel kill this process when its parent ends, however it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def isolated(argv, root=None, binds=(), cwd=None, env=None):
    """Returns a command line that runs `argv` in mount and PID namespaces of its own.

    With `root`, the command sees that folder as its file system. `binds` are pairs of a host
    folder and the path at which the command sees it.
    """
    lines = ["set -e"]
    prefix = []
    if root:
        quoted = shlex.quote(str(root))
        lines += [f"mount -t proc proc {quoted}/proc",
                  f"mount --rbind /sys {quoted}/sys",
                  f"mount --rbind /dev {quoted}/dev"]
        for source, target in binds:
            place = shlex.quote(f"{root}{target}")
            lines += [f"mkdir -p {place}", f"mount --bind {shlex.quote(str(source))} {place}"]
        prefix = ["env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8"]
        prefix += [f"{name}={os.environ[name]}" for name in PROXIES if name in os.environ]
        prefix += [f"{key}={value}" for key, value in (env or {}).items()]
        prefix += ["chroot", str(root)]
        if cwd:
            argv = ["sh", "-c", 'cd "$0" && exec "$@"', cwd, *argv]
    lines.append("exec " + shlex.join([*prefix, *map(str, argv)]))
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
            "sh", "-c", "\n".join(lines)]


def run(argv, log, failure, capture=False, **kwargs):
    """Runs a program to its end with its output in the named log file.

    Raises a `Failure` that says `failure` and shows the end of the log when it fails.
    """
    path = logs() / f"{log}.log"
    with open(path, "ab") as output:
        with subprocess.Popen(
                list(map(str, argv)), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if capture else output, stderr=output,
                preexec_fn=die_with_parent, **kwargs) as program:
            try:
                captured = attend(program)
            except BaseException:
                program.kill()
                raise
    if program.returncode != 0:
        lines = path.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower() or line.startswith("E:")]
        shown = "\n".join(f"    {line}" for line in (errors or lines)[-20:])
        raise Failure(f"{failure} (exit status {program.returncode}, all output in {path}):\n{shown}")
    return captured.decode(errors="replace") if capture else None


def attend(program):
    """Waits for a program's end, and returns its output if that is a pipe."""
    while True:
        try:
            return program.communicate(timeout=0.5)[0]
        except subprocess.TimeoutExpired:
            if ENDING.is_set():
                raise KeyboardInterrupt from None


def fresh_log(log):
    """Empties the named log file."""
    (logs() / f"{log}.log").write_bytes(b"")


def require_root():
    """Fails unless this is root."""
    if os.geteuid() != 0:
        raise Failure("this needs root: building a Debian root folder and entering it do")
