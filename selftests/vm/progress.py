# SPDX-License-Identifier: GPL-2.0
"""Status lines, and the one kind of error that ends the program politely."""

import contextlib
import sys
import threading
import time

START = time.monotonic()
HEARTBEAT = 30.0

_lock = threading.Lock()


class Failure(Exception):
    """What went wrong, in one sentence that a person can act upon."""


def say(text):
    """Prints one status line, with the seconds since the program's start."""
    with _lock:
        print(f"[{time.monotonic() - START:6.1f} s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text):
    """Says when a step starts and ends, and that it is still going on in between."""
    begun = time.monotonic()
    ended = threading.Event()

    def heartbeat():
        while not ended.wait(HEARTBEAT):
            say(f"{text}: still at it after {time.monotonic() - begun:.0f} s")

    say(f"{text} ...")
    threading.Thread(target=heartbeat, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
    say(f"{text}: done in {time.monotonic() - begun:.0f} s")
