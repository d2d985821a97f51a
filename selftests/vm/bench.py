# SPDX-License-Identifier: GPL-2.0
"""Measures pairs of drivers against each other, and makes a table and a report of it."""

import statistics

from . import buildroot, cache, cli, modules, process, profile, report
from .machine import Options
from .progress import Failure, say, step

PAIRS = ["c/c", "rust/c", "rust/rust", "c/rust"]
DRIVERS = {"blk": ("blkfront", "blkback"), "net": ("netfront", "netback")}
# What the quick form measures, which is meant to take no more than ten minutes, and how often.
QUICK = {"blk": "randread-4k|read-128k", "net": "^(tcp-out|tcp-in|tcp-rr|udp-64-out)$"}
QUICK_ROUNDS, FULL_ROUNDS = 2, 5
# How many times as long as on a real machine an I/O takes in the emulated one, about: a read of 4 KiB with nothing
# else under way takes 2 to 3 ms. Times of moderation are made longer by that, or else nothing would come in time.
SLOWNESS = 100


def build_plugin():
    """Builds the plugin that counts instructions; returns where it is."""
    place = modules.place_of_builds() / "plugin"
    place.mkdir(parents=True, exist_ok=True)
    process.fresh_log("plugin")
    with cache.locked("build-plugin"), step("plugin for QEMU"):
        process.run(buildroot.enter(
            ["gcc", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden",
             "-o", "/srv/build/count.so", "/srv/bench/count.c"],
            [(cache.SELFTESTS / "bench", "/srv/bench"), (place, "/srv/build")]),
            "plugin", "the plugin for QEMU does not build")
    return place / "count.so"


class Runs:
    """What one pair did of one workload: per round, a run of little and one of much."""

    def __init__(self):
        self.runs = []

    def add(self, amount, values):
        """Takes over a run."""
        self.runs.append((amount, values))

    def rounds(self):
        """Returns the two runs of each round that was finished."""
        return list(zip(self.runs[::2], self.runs[1::2]))

    def per_unit(self, *keys):
        """Returns the median over the rounds of what one costs beyond what a run costs; None if not counted."""
        costs = []
        for (little, less), (much, more) in self.rounds():
            if not all(key in more for key in keys):
                return None
            costs.append(sum(more[key] - less[key] for key in keys) / max(1, much - little))
        return statistics.median(costs)

    def summary(self):
        """Returns the numbers of all rounds, by name."""
        rates = [amount * 1000 / max(1, values["milliseconds"]) for _, (amount, values) in self.rounds()]
        numbers = {
            "rate": statistics.median(rates),
            "spread": (max(rates) - min(rates)) / max(rates),
            # Programs may spin while they wait.
            "instructions": self.per_unit("xen", "kernel", "modules"),
            "events": self.per_unit("events_guest", "events_dom0"),
            **{key: self.per_unit(key) for key in
               ("xen", "kernel", "modules", "user", "hypercalls", "events_guest", "events_dom0")},
        }
        for key in ("p50_us", "p99_us"):
            values = [values[key] for _, (_, values) in self.rounds() if key in values]
            if values:
                numbers[key] = statistics.median(values)
        return numbers


def parse(lines):
    """Returns [(workload, unit, {pair: numbers})] in the order in which they came."""
    table = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word != "result":
            continue
        pair, workload, amount, *values = rest.split()
        runs = table.setdefault(workload, {}).setdefault(pair, Runs())
        runs.add(int(amount), {key: int(value) for key, _, value in
                               (item.partition("=") for item in values)})
    rows = []
    for workload, by_pair in table.items():
        name, _, unit = workload.partition("/")
        rows.append((name, unit, {pair: runs.summary() for pair, runs in by_pair.items() if runs.rounds()}))
    return rows


def print_table(rows, pairs):
    """Prints a line per workload and pair; `speed` and `instr.` compare with the first pair."""
    width = max(len(pair) for pair in pairs) + 1
    print(f"{'workload':18}{'pair':{width}}{'per s':>8}{'spread':>7}{'speed':>7}{'instr.':>8}{'ratio':>7}"
          f"{'Xen':>8}{'kernel':>8}{'modules':>8}{'user':>8}{'hyperc.':>8}{'events domU':>12}{'dom0':>6}{'p99 us':>8}")
    for workload, unit, by_pair in rows:
        base = by_pair[pairs[0]]
        for pair in pairs:
            one = by_pair[pair]
            print(f"{workload:18}{pair:{width}}{one['rate']:8.0f}{one['spread']:7.0%}"
                  f"{one['rate'] / base['rate']:6.2f}x"
                  f"{one['instructions']:8.0f}{one['instructions'] / base['instructions']:6.2f}x"
                  f"{one['xen']:8.0f}{one['kernel']:8.0f}{one['modules']:8.0f}{one['user']:8.0f}{one['hypercalls']:8.2f}"
                  f"{one['events_guest']:12.2f}{one['events_dom0']:6.2f}"
                  f"{one.get('p99_us', ''):>8} {unit}")
    print("instructions, hypercalls and events are for one of the unit; medians over the rounds")


def bench(arguments):
    """Measures pairs of block or network drivers against each other."""
    pairs = arguments.pairs or PAIRS
    for pair in pairs:
        front, _, back = pair.partition("/")
        if not {front.partition(":")[0], back.partition(":")[0]} <= {"rust", "c"}:
            raise Failure(f"{pair} is not a pair like rust/c or rust:NAME=VALUE/c")
    workloads = arguments.workloads or ("." if arguments.full else QUICK[arguments.kind])
    rounds = arguments.rounds or (FULL_ROUNDS if arguments.full else QUICK_ROUNDS)
    cli.prepare(arguments)
    options = Options(arguments)
    # With a plugin and a single thread, QEMU does not get dom0's second CPU going.
    options.tcg_thread = "multi" if options.cpus > 1 else "single"
    options.plugin = f"{build_plugin()},output=counts"
    if arguments.profile:
        if options.cpus > 1:
            raise Failure("a profile needs a machine with one CPU: --cpus 1")
        options.plugin += ",profile=profile"
    status, folder = cli.run_job(
        cache.SELFTESTS / "bench", [arguments.kind, str(rounds), workloads, str(SLOWNESS), *pairs],
        options, name="bench")
    if status != 0:
        say(f"measuring failed; its logs are in {folder}")
        return status
    lines = (folder / "log/output").read_text().splitlines()
    rows = parse(lines)
    print_table(rows, pairs)
    about = {"drivers": ", ".join(f"xen-{name}" for name in DRIVERS[arguments.kind]),
             **dict(line.split(" ", 2)[1:] for line in lines if line.startswith("about ")),
             "machine": f"QEMU with {options.cpus} CPUs", "rounds": rounds,
             "times of moderation": f"{SLOWNESS} times the defaults, as the machine is slow"}
    where = report.write(folder / "results", "Xen PV drivers, Rust beside C", about, rows, pairs)
    if arguments.profile:
        for name, lines in profile.tables(folder, lines):
            (folder / f"results/profile-{name}.txt").write_text("\n".join(lines) + "\n")
            print(f"{name}:", *lines[:12], sep="\n  ")
    say(f"the report is in {where}, the numbers in {where.with_name('result.json')}")
    return 0
