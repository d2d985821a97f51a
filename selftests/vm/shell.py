# SPDX-License-Identifier: GPL-2.0
"""A person's prompt in dom0."""

import os
import select
import shutil
import sys
import termios
import time
import tty

from . import cli
from .machine import Machine, Options
from .progress import Failure, say

ESCAPE = b"\x1d"


def relay(machine, link):
    """Passes bytes between the terminal and dom0 until either side ends."""
    inputs = [link, sys.stdin]
    while True:
        ready, _, _ = select.select(inputs, [], [], 0.5)
        if link in ready:
            data = link.recv(65536)
            if not data:
                return
            os.write(sys.stdout.fileno(), data)
        if sys.stdin in ready:
            data = os.read(sys.stdin.fileno(), 4096)
            if ESCAPE in data:
                return
            if data:
                link.sendall(data)
            else:
                inputs.remove(sys.stdin)
        if machine.qemu.poll() is not None or machine.status() is not None:
            return


def shell(arguments):
    """Boots, and gives the terminal to a shell in dom0."""
    cli.prepare(arguments)
    size = shutil.get_terminal_size()
    machine = Machine("shell", Options(arguments), interactive=True)
    machine.prepare(None, [], {"XENVM_ROWS": str(size.lines), "XENVM_COLUMNS": str(size.columns),
                               "XENVM_TERM": os.environ.get("TERM", "linux")})
    terminal = sys.stdin.isatty()
    saved = termios.tcgetattr(sys.stdin) if terminal else None
    say(f"booting; Ctrl-] ends it; run folder {machine.folder}")
    with machine:
        link = machine.connect()
        while machine.stage() != "job" and machine.qemu.poll() is None \
                and machine.status() is None:
            time.sleep(0.1)
        try:
            if terminal:
                tty.setraw(sys.stdin)
            relay(machine, link)
        finally:
            if terminal:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)
            link.close()
        machine.consoles.poll()
        failed = machine.stage().startswith("failed: ")
        died = machine.qemu.poll() not in (None, 0)
    print()
    if failed or died:
        raise Failure(f"dom0 could not be set up: {machine.stage().removeprefix('failed: ')}" if failed
                      else f"the machine died: {machine.qemu_says()}; see {machine.folder}")
    for name, line in machine.consoles.troubles:
        say(f"the console of {name} said: {line}")
    return 0
