# SPDX-License-Identifier: GPL-2.0
"""Which functions the instructions of a measurement were executed in."""

import bisect
import re
from collections import Counter

# Below it is Xen, which has no symbols here (Documentation/arch/x86/x86_64/mm.rst).
KERNEL_START = 0xffffffff80000000


class Symbols:
    """The functions of a kernel and its modules."""

    def __init__(self, text):
        found = []
        for line in text.splitlines():
            match = re.match(r"([0-9a-f]+) [tTwW] (\S+)(?:\t\[(\S+)\])?", line)
            if match:
                found.append((int(match.group(1), 16), match.group(2), match.group(3) or "kernel"))
        found.sort()
        self.starts = [start for start, _, _ in found]
        self.names = [(module, readable(name)) for _, name, module in found]

    def find(self, address):
        """Returns the module and the name of the function that an address is in."""
        index = bisect.bisect_right(self.starts, address) - 1
        return self.names[index] if index >= 0 else ("?", hex(address))


def readable(name):
    """Returns the path in a mangled name of Rust's, without what tells instances apart."""
    if not name.startswith("_R"):
        return name
    parts = []
    position = 0
    for match in re.finditer(r"(\d+)_?(?=[A-Za-z_])", name):
        length = int(match.group(1))
        if match.start() < position or length > 60:
            continue
        parts.append(name[match.end():match.end() + length])
        position = match.end() + length
    return "::".join(parts) or name


def marks(path):
    """Yields what was executed up to each marker: {(address, page): instructions}."""
    counts = None
    with open(path, encoding="ascii") as lines:
        for line in lines:
            if line == "mark\n":
                if counts is not None:
                    yield counts
                counts = Counter()
                continue
            address, page, number = line.split()
            counts[int(address, 16), page] += int(number)
    if counts is not None:
        yield counts


def by_function(counts, dom0, guest):
    """Returns instructions by module and function. Both domains run the same kernel."""
    result = Counter()
    for (address, _), number in counts.items():
        if address < KERNEL_START:
            result["Xen", ""] += number
            continue
        module, name = dom0.find(address)
        # Where dom0 has another module at an address, one that is not idle is told by its name.
        if module != "kernel" and not module.startswith("xen_"):
            other = guest.find(address)
            if other[0].startswith("xen_"):
                module, name = other
        result[module, name] += number
    return result


def tables(folder, lines):
    """Yields a name and lines for each pair and workload: instructions for one of the unit, by function."""
    runs = list(marks(folder / "log/profile"))
    costs = {}
    for line in lines:
        match = re.match(r"result (\S+) (\S+) (\d+) .*\bmark=(\d+)", line)
        if match:
            pair, workload, amount, mark = match.groups()
            costs.setdefault((pair, workload), []).append((int(amount), runs[int(mark)]))
    for (pair, workload), measured in costs.items():
        symbols = folder / "results/symbols" / pair.replace("/", "-")
        dom0 = Symbols(symbols.with_suffix(".dom0").read_text())
        guest = Symbols(symbols.with_suffix(".guest").read_text())
        (little, less), (much, more) = measured[0], measured[1]
        less, more = by_function(less, dom0, guest), by_function(more, dom0, guest)
        cost = {key: (more[key] - less[key]) / max(1, much - little) for key in more}
        name, _, unit = workload.partition("/")
        total = sum(cost.values())
        text = [f"{total:10.1f} instructions for one of the {unit}, outside of programs"]
        text += [f"{number:10.1f} {number / total:6.1%} {module:16} {function}"
                 for (module, function), number in
                 sorted(cost.items(), key=lambda item: -item[1]) if number >= total / 2000]
        yield f"{pair.replace('/', '-')}-{name}", text
