# SPDX-License-Identifier: GPL-2.0
"""Measures pairs of drivers against each other, and makes a table of it."""

import statistics

from . import buildroot, cache, cli, modules, process
from .machine import Options
from .progress import Failure, say, step

PAIRS = ["c/c", "rust/c", "rust/rust", "c/rust"]


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
    """What one pair did of one workload: per round, a run of few requests and one of many."""

    def __init__(self):
        self.runs = []

    def add(self, requests, values):
        """Takes over a run."""
        self.runs.append((requests, values))

    def per_request(self, key):
        """Returns the median over the rounds of what a request costs beyond what a run costs."""
        costs = []
        for (few, less), (many, more) in zip(self.runs[::2], self.runs[1::2]):
            costs.append((more[key] - less[key]) / (many - few))
        return statistics.median(costs)

    def rate(self):
        """Returns requests per second by fio's clock, the median over the rounds."""
        rates = [requests * 1000 / max(1, values["milliseconds"])
                 for requests, values in self.runs[1::2]]
        return statistics.median(rates)


def parse(lines):
    """Returns {workload: {pair: Runs}} in the order in which they came."""
    table = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        if word != "result":
            continue
        pair, workload, requests, *values = rest.split()
        runs = table.setdefault(workload, {}).setdefault(pair, Runs())
        runs.add(int(requests), {key: int(value) for key, _, value in
                                 (item.partition("=") for item in values)})
    return table


def print_table(table, pairs):
    """Prints a line per workload and pair; `speed` and `instr.` compare with the first pair."""
    width = max(len(pair) for pair in pairs) + 1
    print(f"{'workload':18}{'pair':{width}}{'IOPS':>8}{'speed':>7}{'instr.':>8}{'ratio':>7}"
          f"{'Xen':>8}{'kernel':>8}{'modules':>8}{'hyperc.':>8}{'events domU':>12}{'dom0':>6}")
    for workload, by_pair in table.items():
        base = by_pair[pairs[0]]

        def instructions(runs):
            return sum(runs.per_request(key) for key in ("xen", "kernel", "modules", "user"))

        for pair in pairs:
            runs = by_pair[pair]
            print(f"{workload:18}{pair:{width}}{runs.rate():8.0f}{runs.rate() / base.rate():6.2f}x"
                  f"{instructions(runs):8.0f}{instructions(runs) / instructions(base):6.2f}x"
                  f"{runs.per_request('xen'):8.0f}{runs.per_request('kernel'):8.0f}"
                  f"{runs.per_request('modules'):8.0f}{runs.per_request('hypercalls'):8.1f}"
                  f"{runs.per_request('events_guest'):12.2f}{runs.per_request('events_dom0'):6.2f}")
    print("instructions, hypercalls and events are per request; medians over the rounds")


def bench(arguments):
    """Measures pairs of block drivers against each other."""
    pairs = arguments.pairs or PAIRS
    for pair in pairs:
        front, _, back = pair.partition("/")
        if not {front.partition(":")[0], back.partition(":")[0]} <= {"rust", "c"}:
            raise Failure(f"{pair} is not a pair like rust/c or rust:NAME=VALUE/c")
    cli.prepare(arguments)
    options = Options(arguments)
    # With a plugin and a single thread, QEMU does not get dom0's second CPU going.
    options.tcg_thread = "multi"
    options.plugin = f"{build_plugin()},output=counts"
    status, folder = cli.run_job(
        cache.SELFTESTS / "bench/blk.sh", [str(arguments.rounds), arguments.workloads, *pairs],
        options, name="bench")
    if status != 0:
        say(f"measuring failed; its logs are in {folder}")
        return status
    print_table(parse((folder / "log/output").read_text().splitlines()), pairs)
    return 0
