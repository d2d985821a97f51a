# SPDX-License-Identifier: GPL-2.0
"""Counting test results, and reading those that other programs print."""

import re

KTAP = re.compile(r"^(\s*)(not )?ok (\d+)\b\s*-?\s*(.*)$")
CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
CARGO_FAILED = re.compile(r"^test (\S+) \.\.\. FAILED")


class Totals:
    """How many tests passed, failed and were skipped."""

    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed = passed
        self.failed = failed
        self.skipped = skipped

    def add(self, other):
        """Adds other totals to these."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def parse(text):
    """Returns the totals of KTAP or cargo's output, and the names of what failed.

    In nested KTAP only the innermost results count.
    """
    totals, failures, depth = Totals(), [], 0
    for line in text.splitlines():
        match = KTAP.match(line)
        if match:
            indent, bad, _, name = match.groups()
            inner, depth = len(indent) >= depth, len(indent)
            if not inner:
                continue
            if bad:
                totals.failed += 1
                failures.append(name)
            elif re.search(r"# *SKIP\b", name, re.IGNORECASE):
                totals.skipped += 1
            else:
                totals.passed += 1
            continue
        match = CARGO.match(line)
        if match:
            totals.add(Totals(*map(int, match.groups())))
            continue
        match = CARGO_FAILED.match(line)
        if match:
            failures.append(match.group(1))
    return totals, failures
