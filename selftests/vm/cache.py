# SPDX-License-Identifier: GPL-2.0
"""The cache: everything fetched or built, each piece named by what it was made from.

A piece is built in a folder of its own and renamed when it is complete, so an interrupted
build leaves nothing that a later run could mistake for the whole.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SELFTESTS = PROJECT / "selftests"


def root():
    """Returns the cache folder."""
    path = os.environ.get("XEN_PV_RUST_CACHE")
    if not path:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        path = os.path.join(base, "xen-pv-rust")
    folder = Path(path).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(*parts):
    """Returns a short name for the given recipe."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def digest_files(paths):
    """Returns a short name for the contents of files."""
    summer = hashlib.sha256()
    for path in sorted(paths):
        summer.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return summer.hexdigest()[:12]


@contextlib.contextmanager
def locked(name):
    """Holds the lock of one piece, so that two runs do not build it at once."""
    locks = root() / "locks"
    locks.mkdir(exist_ok=True)
    with open(locks / name, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def slots(kind, total, needed):
    """Takes `needed` of `total` slots, all or none; returns open files that hold them, or None."""
    locks = root() / "locks"
    locks.mkdir(exist_ok=True)
    held = []
    for index in range(total):
        lock = open(locks / f"{kind}-{index}", "w", encoding="ascii")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(lock)
        except BlockingIOError:
            lock.close()
        if len(held) == needed:
            return held
    for lock in held:
        lock.close()
    return None


def piece(kind, recipe, build):
    """Returns the folder of a piece, which `build(folder)` fills when it is not there yet.

    Older pieces of the same kind are removed once the new one is complete.
    """
    name = f"{kind}-{digest(recipe)}"
    folder = root() / name
    if folder.is_dir():
        return folder
    with locked(kind):
        if folder.is_dir():
            return folder
        partial = root() / f"{name}.partial"
        remove(partial)
        partial.mkdir()
        build(partial)
        partial.rename(folder)
        for old in root().glob(f"{kind}-*"):
            if old != folder:
                remove(old)
    return folder


def set_aside(*kinds):
    """Renames the pieces of these kinds, so that they are made anew; returns where they are now."""
    aside = []
    for kind in kinds:
        for path in sorted(root().glob(f"{kind}-*")):
            old = path.with_name(f"old.{path.name}")
            remove(old)
            path.rename(old)
            aside.append(old)
    return aside


def bring_back(aside):
    """Takes back what `set_aside` has done, where no new piece has come in its place."""
    for old in aside:
        path = old.with_name(old.name.removeprefix("old."))
        if path.exists():
            remove(old)
        else:
            old.rename(path)


@contextlib.contextmanager
def taken(folder):
    """Holds a lock in a folder, which says that it is in use."""
    with open(folder / ".in-use", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def is_taken(folder):
    """Returns whether somebody holds the lock in a folder."""
    try:
        with open(folder / ".in-use", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def remove(path):
    """Removes a file or a folder, if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        if any(Path(line.split()[4]).is_relative_to(path)
               for line in Path("/proc/self/mountinfo").read_text().splitlines()):
            raise OSError(f"{path} has a mount in it, so it is not removed")
        shutil.rmtree(path)


def logs():
    """Returns the folder for the logs of builds."""
    folder = root() / "logs"
    folder.mkdir(exist_ok=True)
    return folder
