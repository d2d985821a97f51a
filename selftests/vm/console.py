# SPDX-License-Identifier: GPL-2.0
"""Consoles and logs of a run: following them, and spotting the lines that mean trouble."""

import re

# A run that shows one of these fails.
TROUBLE = re.compile(
    r"BUG:|WARNING:|\bOops\b|[Kk]ernel panic|general protection|KASAN|KCSAN|UBSAN|"
    r"possible recursive locking|possible circular locking|inconsistent lock state|"
    r"suspicious RCU|rust_kernel: panicked|FATAL TRAP|Xen BUG|Assertion .* failed")
# The emulator's, not ours: its clock stands still while the host does something else, and then jumps,
# which the timers of the kernel do not believe.
EMULATION = re.compile(r"WARNING: kernel/time/")
# A run that hung is explained by the last of these.
HINT = re.compile(
    TROUBLE.pattern + r"|Call Trace|blocked for more than|soft lockup|rcu.*stall|Out of memory|"
    r"[Ff]ailed|error|not responding|timed out", re.IGNORECASE)
# dom0 does not come back from these.
FATAL = re.compile(r"Kernel panic - not syncing|\(XEN\) Panic on CPU|end Kernel panic")


class Follower:
    """Reads what is added to a file."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.rest = ""

    def read(self):
        """Returns the bytes added since the last call."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return b""
        self.offset += len(data)
        return data

    def lines(self):
        """Returns the complete lines added since the last call."""
        text = self.rest + self.read().decode(errors="replace").replace("\r", "")
        *lines, self.rest = text.split("\n")
        return lines


class Consoles:
    """All consoles of a run: Xen and dom0 together, and one a guest."""

    def __init__(self, log, allowed=()):
        self.log = log
        self.allowed = [re.compile(pattern) for pattern in allowed]
        self.followers = {}
        self.last = {}
        self.hint = None
        self.troubles = []
        self.fatal = False

    def sources(self):
        """Yields name and path of each console and of the logs that may explain a hang."""
        yield "dom0", self.log / "console-dom0.log"
        for path in sorted((self.log / "xen/console").glob("guest-*.log")):
            yield path.stem.removeprefix("guest-"), path

    def poll(self):
        """Reads the consoles; returns the new lines of trouble as pairs of name and line."""
        found = []
        for name, path in self.sources():
            follower = self.followers.setdefault(name, Follower(path))
            for line in follower.lines():
                line = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip()
                if not line:
                    continue
                self.last[name] = line
                if name == "dom0" and FATAL.search(line):
                    self.fatal = True
                if HINT.search(line):
                    self.hint = (name, line)
                if TROUBLE.search(line) and not EMULATION.search(line) and \
                        not any(p.search(line) for p in self.allowed):
                    found.append((name, line))
        self.troubles += found
        return found

    def explain(self, since=0):
        """Returns a phrase on the console line that most likely tells what went wrong.

        Lines of trouble before number `since` are not looked at.
        """
        if self.troubles[since:]:
            name, line = self.troubles[-1]
            return f"the console of {name} says: {line}"
        for path in sorted((self.log / "xen").glob("*.log")):
            for line in path.read_text(errors="replace").splitlines():
                if re.search(r"\berror\b|libxl_.*:.*(fail|timed out)", line, re.IGNORECASE):
                    self.hint = (path.name, line.strip())
        if self.hint:
            name, line = self.hint
            return f"the last suspicious line, in {name}, is: {line}"
        ends = "; ".join(f"{name}: {line}" for name, line in self.last.items())
        return f"no console shows an error, the last lines are: {ends or 'none'}"
