# SPDX-License-Identifier: GPL-2.0
"""One run of the emulated machine: Xen, dom0 and a job in it."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from . import buildroot, cache, images, modules, process
from .console import Consoles, Follower
from .progress import Failure, say

# XSAVE is left out: with it, QEMU corrupts user memory of dom0 under load, see stress_cpu.sh.
CPU = "max,-xsave"
# Xen must not leave floating-point registers to be restored on first use (eager-fpu): QEMU lets the
# SHA instructions, XSAVE and XRSTOR run with CR0.TS set, so that they meet another domain's registers.
XEN_ARGUMENTS = "console=com1 com1=115200,8n1 loglvl=warning guest_loglvl=warning noreboot spec-ctrl=eager-fpu"
DOM0_ARGUMENTS = "console=hvc0 loglevel=5 mitigations=off"
BOOT_LIMIT = 300
# How long dom0 takes to come up when nothing else runs: the measure of how slow this machine is.
QUIET_BOOT = 14
KEPT_RUNS = 20


class Options:
    """How to boot; the command line's options of the same names, or their defaults."""

    cpu = CPU
    cpus = 2
    memory = 4096
    dom0_memory = 2048
    timeout = 600
    kernel = None
    front = ()
    back = ()
    qemu_arg = ()
    xen_arg = ()
    dom0_arg = ()
    allow_console = ()
    plugin = None
    tcg_thread = "multi"
    keep = False
    quiet = False

    def __init__(self, arguments=None, **others):
        known = {**(vars(arguments) if arguments else {}), **others}
        for name, value in known.items():
            if hasattr(Options, name) and value is not None:
                setattr(self, name, value)


def new_run_folder(name):
    """Makes the folder of a run, and drops the oldest ones."""
    runs = cache.root() / "runs"
    runs.mkdir(exist_ok=True)
    for old in sorted(runs.iterdir())[:-KEPT_RUNS]:
        if not (old / "keep").exists() and not cache.is_taken(old):
            shutil.rmtree(old, ignore_errors=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for suffix in ["", *(f".{n}" for n in range(1, 100))]:
        folder = runs / f"{stamp}{suffix}-{name}"
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            continue
    raise Failure(f"no folder for the run could be made in {runs}")


class Machine:
    """An emulated machine with its run folder."""

    def __init__(self, name, options, interactive=False):
        self.options = options
        self.interactive = interactive
        self.system = images.system()
        self.boot = images.boot(options.kernel)
        self.release = (self.boot / "release").read_text().strip()
        self.folder = new_run_folder(name)
        self.log = self.folder / "log"
        (self.log / "xen/console").mkdir(parents=True)
        (self.folder / "results").mkdir()
        (self.folder / "job").mkdir()
        if options.keep:
            (self.folder / "keep").touch()
        self.consoles = Consoles(self.log, options.allow_console)
        self.qemu = None
        self.slots = None
        self.taken = None

    def prepare(self, job, command, environment=None):
        """Lays out what dom0 gets to see: the job, the libraries and the built modules."""
        shared = self.folder / "job"
        for name in ("dom0", "guest", "lib"):
            shutil.copytree(cache.SELFTESTS / name, shared / name)
        built = modules.built(self.release)
        modules.copy_built(self.release, shared)
        if job is None:
            (shared / "job").mkdir()
        elif job.is_dir():
            shutil.copytree(job, shared / "job")
        else:
            (shared / "job").mkdir()
            shutil.copy2(job, shared / "job" / job.name)
        values = {
            "XENVM_COMMAND": shlex.join(command),
            "XENVM_INTERACTIVE": "1" if self.interactive else "",
            "XENVM_DOM0_UPDATES": " ".join(modules.chosen(self.options.back, "rust")),
            **{f"XENVM_FRONT_{driver.upper()}": variant
               for driver, variant in modules.variants(self.options.front, built).items()},
            **(environment or {}),
        }
        for driver, variant in modules.variants(self.options.back, built, default="c").items():
            values.setdefault(f"XENVM_BACK_{driver.upper()}", variant)
        (shared / "environment").write_text("".join(
            f"export {key}={shlex.quote(value)}\n" for key, value in values.items()))

    def command(self):
        """Returns QEMU's command line, as seen in the build root."""
        options = self.options
        xen = " ".join([XEN_ARGUMENTS, f"dom0_mem={options.dom0_memory}M",
                        f"dom0_max_vcpus={options.cpus}", *options.xen_arg])
        dom0 = " ".join([DOM0_ARGUMENTS, *options.dom0_arg])
        line = ["qemu-system-x86_64", "-accel", f"tcg,thread={options.tcg_thread}", "-cpu", options.cpu,
                "-smp", str(options.cpus), "-m", str(options.memory), "-display", "none",
                "-nodefaults", "-no-reboot", "-monitor", "none",
                "-serial", "file:/srv/run/log/console-dom0.log",
                "-kernel", "/srv/system/xen", "-append", xen,
                "-initrd", f"/srv/boot/vmlinuz {dom0},/srv/boot/initramfs",
                "-drive", "file=/srv/system/dom0.img,if=virtio,format=raw,snapshot=on",
                "-drive", "file=/srv/boot/modules.img,if=virtio,format=raw,snapshot=on",
                "-virtfs", "local,path=/srv/run,mount_tag=xenvm,security_model=none,id=xenvm",
                "-device", "virtio-rng-pci"]
        if self.interactive:
            line += ["-device", "virtio-serial-pci",
                     "-chardev", "socket,id=shell,path=/srv/run/shell.socket,server=on,wait=off",
                     "-device", "virtconsole,chardev=shell"]
        if options.plugin:
            line += ["-plugin", options.plugin]
        for argument in options.qemu_arg:
            line += shlex.split(argument)
        return line

    def take_slots(self):
        """Waits while the host has no CPUs left for one more machine.

        Emulated CPUs wait for each other: with half of what they need, they are slower many-fold.
        """
        total = os.cpu_count() or 1
        needed = 1 if self.options.tcg_thread == "single" else min(total, self.options.cpus)
        waiting = False
        while not self.slots:
            if process.ENDING.is_set():
                raise KeyboardInterrupt
            self.slots = cache.slots("machine", total, needed)
            if not self.slots:
                if not waiting:
                    say("waiting for another emulated machine to end")
                waiting = True
                time.sleep(0.5)

    def start(self):
        """Starts QEMU."""
        self.take_slots()
        binds = [(self.folder, "/srv/run"), (self.system, "/srv/system"),
                 (self.boot, "/srv/boot")]
        if self.options.plugin:
            plugin = Path(self.options.plugin.split(",")[0]).resolve()
            if not plugin.exists():
                raise Failure(f"there is no QEMU plugin {plugin}")
            binds.append((plugin.parent, "/srv/plugin"))
            _, comma, rest = self.options.plugin.partition(",")
            self.options.plugin = f"/srv/plugin/{plugin.name}{comma}{rest}"
        argv = buildroot.enter(self.command(), binds, cwd="/srv/run/log",
                               env={"TMPDIR": "/srv/run"})
        with open(self.log / "qemu.log", "wb") as output:
            self.qemu = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output,
                                         stderr=output, start_new_session=True,
                                         preexec_fn=process.die_with_parent)

    def stop(self):
        """Ends QEMU, and with its PID namespace everything it started."""
        if self.qemu and self.qemu.poll() is None:
            os.killpg(self.qemu.pid, signal.SIGKILL)
            self.qemu.wait()
        (self.folder / "shell.socket").unlink(missing_ok=True)
        for slot in self.slots or ():
            slot.close()
        self.slots = None

    def __enter__(self):
        self.taken = cache.taken(self.folder)
        self.taken.__enter__()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.stop()
        self.taken.__exit__(None, None, None)

    def stages(self):
        """Returns what dom0 has reached, one after the other."""
        try:
            return (self.log / "stage").read_text().splitlines()
        except FileNotFoundError:
            return []

    def stage(self):
        """Returns how far dom0 has come."""
        return (self.stages() or [""])[-1]

    def status(self):
        """Returns the job's exit status when it has ended."""
        try:
            return int((self.log / "status").read_text())
        except FileNotFoundError:
            return None

    def qemu_says(self):
        """Returns the end of QEMU's own output."""
        return " ".join((self.log / "qemu.log").read_text(errors="replace").split("\n")[-4:])

    @staticmethod
    def slowness(begun):
        """Returns by what factor this machine is slower than a quiet one, when dom0 is just up."""
        return min(10.0, max(1.0, (time.monotonic() - begun) / QUIET_BOOT))

    def follow(self, output, on_line=None, deadline=None):
        """Follows the run to the end of its job and returns the job's exit status.

        `output` gets what the job prints; `on_line` each of its lines and returns a new deadline
        or None. Raises a `Failure` when the machine hangs or dies.
        """
        begun = time.monotonic()
        deadline = deadline or begun + self.options.timeout
        follower = Follower(self.log / "output")
        shown = ""
        while True:
            if process.ENDING.is_set():
                raise KeyboardInterrupt
            ended = self.status()
            died = self.qemu.poll() is not None and ended is None and self.status() is None
            self.consoles.poll()
            data = follower.read()
            if data:
                output(data)
                if on_line:
                    *lines, follower.rest = (
                        follower.rest + data.decode(errors="replace")).split("\n")
                    for line in lines:
                        deadline = on_line(line) or deadline
            if self.stage() != shown:
                shown = self.stage()
                if shown == "job":
                    deadline += (deadline - begun) * (self.slowness(begun) - 1)
                if not self.options.quiet:
                    say(f"dom0: {shown} ({time.monotonic() - begun:.0f} s after power-on)")
            if ended is not None:
                break
            if died:
                raise Failure(f"the machine powered off in the middle of \"{shown or 'boot'}\"; "
                              f"{self.consoles.explain()} {self.qemu_says()}".rstrip())
            if self.consoles.fatal:
                time.sleep(1)
                self.consoles.poll()
                raise Failure(f"dom0 or Xen panicked; {self.consoles.explain()}")
            now = time.monotonic()
            if now > begun + BOOT_LIMIT and "job" not in self.stages():
                raise Failure(f"dom0 did not come up in {BOOT_LIMIT} s, it got as far as "
                              f"\"{shown or 'nothing'}\"; {self.consoles.explain()}")
            if now > deadline:
                raise Failure(f"the job hung or took more than {deadline - begun:.0f} s; "
                              f"{self.consoles.explain()}")
            time.sleep(0.1)
        output(follower.read())
        if ended == 125 and shown.startswith("failed: "):
            raise Failure(f"dom0 could not be set up: {shown.removeprefix('failed: ')}")
        self.wait_off()
        self.consoles.poll()
        return ended

    def wait_off(self, limit=20):
        """Waits until the machine has powered itself off."""
        try:
            self.qemu.wait(limit)
        except subprocess.TimeoutExpired:
            self.stop()

    def connect(self, limit=30):
        """Returns a socket to dom0's second console."""
        end = time.monotonic() + limit
        while True:
            try:
                link = socket.socket(socket.AF_UNIX)
                # A socket's path may not be longer than about 100 characters.
                folder = os.open(self.folder, os.O_PATH)
                try:
                    link.connect(f"/proc/self/fd/{folder}/shell.socket")
                finally:
                    os.close(folder)
                return link
            except (FileNotFoundError, ConnectionRefusedError):
                link.close()
                if time.monotonic() > end or self.qemu.poll() is not None:
                    raise Failure(f"QEMU did not start: {self.qemu_says()}") from None
                time.sleep(0.1)
