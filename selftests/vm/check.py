# SPDX-License-Identifier: GPL-2.0
"""All tests: on the host, in a kernel with KUnit, and between domains on Xen."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import cache, cli, kernel_tests, modules, process
from .machine import Machine, Options
from .progress import Failure, say
from .results import Totals, parse

DEFAULT_LIMIT = 120
# What bringing a test's guests and disks down may take, beyond the test's own limit.
CLEAN_UP = 150
# What a test is taken to last, in seconds, that has not run here yet.
UNKNOWN = 60
# The two drivers of a pair, by the folder of a test.
DRIVERS = {"blk": ("blkfront", "blkback"), "net": ("netfront", "netback")}
TIERS = {"host": "unit tests on the host", "builds": "modules for all kernels", "kunit": "KUnit suites in a kernel",
         "tree": "drivers in a kernel's tree"}
# The long tier.
LONG_TIERS = ("tree",)
NAMES = {0: "ok", 1: "FAIL", 4: "skip"}


class Test:
    """One run of a test script with one driver, and one backend driver in dom0."""

    def __init__(self, script, header, pair):
        self.script = script
        front, _, back = pair.partition("/")
        self.drivers = DRIVERS[script.parent.name]
        self.driver = front or "default"
        self.backend = back or "default"
        self.name = f"{script.parent.name}/{script.stem}" + (f" ({pair})" if pair else "")
        self.limit = int(header.get("timeout", DEFAULT_LIMIT))
        # The long tier is too slow for every run.
        self.long = header.get("tier") == "long" or pair in header.get("control", "").split()
        # Words for Xen's command line: such tests have a boot of their own.
        self.xen_args = tuple(header.get("xen-arg", "").split())
        # Another CPU model, likewise.
        self.cpu = header.get("cpu")
        # The kernel's own tests, in the folder `kernel` beside the tests' folders.
        self.needs_kernel_tests = "kernel-tests" in header.get("needs", "").split()
        self.allowed = [re.compile(pattern) for pattern in header.get("allow-console", [])]
        self.lines = []
        self.begun = 0.0

    def word(self, fronts, backs):
        """Returns what dom0 is told of the test, with the default drivers of a guest and of dom0."""
        front, back = self.drivers
        driver = fronts.get(front, "c") if self.driver == "default" else self.driver
        backend = backs.get(back, "c") if self.backend == "default" else self.backend
        script = f"{self.script.parent.name}/{self.script.name}"
        return f"{self.name}|{script}|{front}|{driver}|{self.limit}|{back}|{backend}"


def header_of(script):
    """Returns what a test says of itself in comment lines at its start."""
    header = {}
    for line in script.read_text().splitlines():
        if not line.startswith("#"):
            break
        match = re.match(r"# (pairs|control|timeout|allow-console|tier|xen-arg|cpu|needs): *(.*)", line)
        if match and match.group(1) == "allow-console":
            header.setdefault("allow-console", []).append(match.group(2))
        elif match:
            header[match.group(1)] = match.group(2)
    return header


def scripts():
    """Returns all test scripts' runs: those with one pair of drivers together, to keep its guests."""
    tests = []
    for script in sorted(path for folder in DRIVERS
                         for path in (cache.SELFTESTS / folder).glob("test_*.sh")):
        header = header_of(script)
        pairs = f"{header.get('pairs', '')} {header.get('control', '')}"
        for pair in pairs.split() or [""]:
            tests.append(Test(script, header, pair))
    order = {"default": 0, "rust": 1, "c": 2}
    return sorted(tests, key=lambda test: (test.drivers, order[test.backend], order[test.driver]))


class Report:
    """Prints a line for each result and adds them up."""

    def __init__(self):
        self.totals = Totals()
        self.seconds = {}
        self.lock = threading.Lock()

    def line(self, name, status, seconds, why="", lines=()):
        """Reports one test."""
        key = {0: "passed", 4: "skipped"}.get(status, "failed")
        with self.lock:
            self.seconds[name] = seconds
            self.totals.add(Totals(**{key: 1}))
            print(f"{NAMES.get(status, 'FAIL'):4} {name} ({seconds:.0f} s)"
                  + (f": {why}" if why else ""))
            for line in lines:
                print(f"     | {line}")
            sys.stdout.flush()


def run_tier(name, report):
    """Runs the tests of another kind, whose script prints KTAP or what cargo prints."""
    script = cache.SELFTESTS / name / "run"
    begun = time.monotonic()
    log = cache.logs() / f"{name}.log"
    say(f"{TIERS[name]} ...")
    with open(log, "wb") as output:
        status = subprocess.run([str(script)], stdin=subprocess.DEVNULL, stdout=output,
                                stderr=output, cwd=cache.PROJECT, check=False,
                                preexec_fn=process.die_with_parent,
                                env={**os.environ, "XENVM": str(cache.SELFTESTS / "xenvm"),
                                     "XEN_PV_RUST_CACHE": str(cache.root())}).returncode
    text = log.read_text(errors="replace")
    totals, failures = parse(text)
    seconds = time.monotonic() - begun
    if status == 4 and not failures:
        print(f"skip {name}: {text.strip().splitlines()[-1] if text.strip() else ''}")
        totals = Totals(skipped=max(1, totals.skipped))
    elif (status != 0 and totals.failed == 0) or totals.passed + totals.failed == 0:
        totals.failed += 1
        print(f"FAIL {name} ({seconds:.0f} s): {script} ended with exit status {status}, {totals}")
        for line in text.splitlines()[-15:]:
            print(f"     | {line}")
    else:
        print(f"{'FAIL' if failures else 'ok':4} {name}: {totals} ({seconds:.0f} s)")
        for failure in failures:
            print(f"     | {failure} (all output in {log})")
    report.totals.add(totals)


class Boot:
    """The tests that one boot of the machine runs, until it hangs or they are done."""

    def __init__(self, tests, arguments, report, name="check", **options):
        self.tests = {test.name: test for test in tests}
        self.report = report
        self.name = name
        self.options = Options(arguments, quiet=True, **options)
        self.current = None
        self.seen = 0
        self.done = []
        self.slow = 1.0
        self.machine = None

    def finish(self, status, why=""):
        """Reports the current test."""
        test, self.current = self.current, None
        self.machine.consoles.poll()
        hint = self.machine.consoles.explain(self.seen)
        troubles = self.machine.consoles.troubles[self.seen:]
        self.seen = len(self.machine.consoles.troubles)
        troubles = [(name, line) for name, line in troubles
                    if not any(pattern.search(line) for pattern in test.allowed)]
        totals, failures = parse("\n".join(test.lines))
        if status in (0, 4) and failures:
            status, why = 1, "it reported failures but ended well"
        if status in (0, 4) and troubles:
            status, why = 1, f"the console of {troubles[0][0]} says: {troubles[0][1]}"
        elif status == 124:
            why = f"it took more than {test.limit} s; {hint}"
        elif status not in (0, 4) and not why:
            bail = [line for line in test.lines if line.startswith("Bail out!")]
            why = "; ".join(failures + bail) or f"exit status {status}"
        if status == 4:
            why = next((line.partition("SKIP")[2].strip() for line in test.lines
                        if "# SKIP" in line), "")
        shown = [] if status in (0, 4) else test.lines[-12:]
        folder = self.machine.folder / "results"
        (folder / (re.sub(r"\W+", "_", test.name).strip("_") + ".ktap")).write_text(
            "\n".join(test.lines) + "\n")
        self.report.line(test.name, status, time.monotonic() - test.begun, why, shown)
        self.done.append(test)

    def on_line(self, line):
        """Follows dom0's report; returns the new deadline when a test begins."""
        word, _, rest = line.partition(" ")
        if word == "@begin":
            limit, _, name = rest.partition(" ")
            self.current = self.tests[name]
            self.slow = max(self.slow, int(limit) / self.current.limit)
            self.current.limit = int(limit)
            self.current.begun = time.monotonic()
            self.machine.consoles.hint = None
            return self.current.begun + self.current.limit + CLEAN_UP * self.slow
        if word == "@end" and self.current:
            self.finish(int(rest.rpartition(" ")[2]))
            return time.monotonic() + CLEAN_UP * self.slow
        if self.current:
            self.current.lines.append(line)
        return None

    def run(self):
        """Boots and runs the tests; returns those that were not reached."""
        tests = list(self.tests.values())
        machine = self.machine = Machine(self.name, self.options)
        built = modules.built(machine.release)
        fronts = modules.variants(machine.options.front, built)
        backs = modules.variants(machine.options.back, built, default="c")
        machine.prepare(None, ["../lib/run_tests.sh",
                               *(test.word(fronts, backs) for test in tests)])
        # Tests look at the benchmark, too.
        for group in {test.script.parent for test in tests} | {cache.SELFTESTS / "bench"}:
            target = machine.folder / "job/job" / group.name
            subprocess.run(["cp", "-r", str(group), str(target)], check=True)
        if any(test.needs_kernel_tests for test in tests):
            shutil.copytree(kernel_tests.tree(), machine.folder / "job/job/kernel")
        say(f"booting for {len(tests)} tests, run folder {machine.folder}")
        try:
            with machine:
                machine.follow(lambda data: None, self.on_line, time.monotonic() + 300)
        except Failure as failure:
            if self.current:
                self.finish(1, str(failure))
            elif not self.done:
                for test in tests:
                    test.begun = time.monotonic()
                    self.report.line(test.name, 1, 0, f"not run: {failure}")
                return []
            else:
                say(f"between tests: {failure}")
        rest = [test for test in tests if test not in self.done]
        if rest and not self.done:
            for test in rest:
                self.report.line(test.name, 1, 0, "not run: dom0 ran no test at all")
            return []
        return rest


def share_out(tests, number, seconds):
    """Returns the tests in `number` shares that take about as long, the longest tests first given.

    `seconds` is what each took the last time. Within a share they keep their order, in which those
    that can use the same guest follow each other.
    """
    shares = [[] for _ in range(number)]
    loads = [0.0] * number
    for test in sorted(tests, key=lambda test: -seconds.get(test.name, UNKNOWN)):
        index = loads.index(min(loads))
        loads[index] += seconds.get(test.name, UNKNOWN)
        shares[index].append(test)
    return [sorted(share, key=tests.index) for share in shares if share]


def machines(arguments, tests):
    """Returns how many machines the host has CPUs and memory for."""
    if arguments.machines:
        return arguments.machines
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) // 1024
    # QEMU needs some for itself, and the host must keep some.
    memory = Options(arguments).memory + 1024
    return max(1, min(os.cpu_count() or 1, free // memory, len(tests)))


def run_share(tests, arguments, report, **options):
    """Runs tests, on one machine after the other: what needs another one, and should they hang."""
    for machine in dict.fromkeys((test.xen_args, test.cpu) for test in tests):
        group = [test for test in tests if (test.xen_args, test.cpu) == machine]
        xen_args, cpu = machine
        special = {"cpu": cpu} if cpu else {}
        words = [*(arguments.xen_arg or []), *xen_args]
        while group:
            group = Boot(group, arguments, report, xen_arg=words, **special, **options).run()


def between_domains(tests, arguments, report):
    """Runs the tests that need Xen: on several machines, of one real CPU each, where that is possible."""
    known = cache.root() / "seconds.json"
    try:
        seconds = json.loads(known.read_text())
    except (FileNotFoundError, ValueError):
        seconds = {}
    shares = share_out(tests, machines(arguments, tests), seconds)
    options = {}
    if len(shares) > 1 and not arguments.tcg_thread:
        options["tcg_thread"] = "single"
    with ThreadPoolExecutor(len(shares)) as pool:
        try:
            for future in [pool.submit(run_share, share, arguments, report,
                                       name=f"check{number}", **options)
                           for number, share in enumerate(shares)]:
                future.result()
        except BaseException:
            process.ENDING.set()
            raise
    known.with_suffix(".part").write_text(json.dumps({**seconds, **report.seconds}, indent=1))
    known.with_suffix(".part").rename(known)


def check(arguments):
    """Runs all tests, or those asked for."""
    tiers = [name for name in TIERS if (cache.SELFTESTS / name / "run").exists()]
    tests = scripts()
    if arguments.only:
        tiers = [name for name in tiers if any(word in name for word in arguments.only)]
        tests = [test for test in tests if any(word in test.name for word in arguments.only)]
        if not tiers and not tests:
            raise Failure(f"no test has {' or '.join(arguments.only)} in its name; "
                          "`xenvm check --list` names them all")
    elif not arguments.all:
        tests = [test for test in tests if not test.long or arguments.list]
        tiers = [name for name in tiers if name not in LONG_TIERS or arguments.list]
    if arguments.list:
        print("\n".join([*tiers, *(test.name for test in tests)]))
        return 0
    report = Report()
    begun = time.monotonic()
    if tests:
        cli.prepare(arguments)
    for name in tiers:
        run_tier(name, report)
    if tests:
        between_domains(tests, arguments, report)
    print(f"in {time.monotonic() - begun:.0f} s")
    print(report.totals, flush=True)
    return 1 if report.totals.failed else 0
