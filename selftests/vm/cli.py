# SPDX-License-Identifier: GPL-2.0
"""The command line of xenvm."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from . import bench, buildroot, cache, check, host, images, kernel, modules, package, process, shell
from .machine import CPU, Machine, Options
from .progress import Failure, say


def setup(arguments):
    """Makes everything that a run needs."""
    host.ensure_programs()
    old = cache.set_aside("kernel", "kernel_*", "dom0-root", "build-root", "system", "boot") if arguments.update else []
    try:
        with process.Pool() as pool:
            dom0 = pool.submit(buildroot.dom0_root)
            tree = pool.submit(kernel.tree)
            dom0.result()
            system = pool.submit(images.system)
            tree.result()
            images.boot()
            system.result()
    except BaseException:
        cache.bring_back(old)
        raise
    for path in old:
        cache.remove(path)
    release = kernel.release(kernel.tree())
    say(f"set up for kernel {release} in {cache.root()}")
    return 0


def build(arguments):
    """Builds modules and test programs."""
    setup_quietly()
    result = modules.build(kernel.named(arguments.kernel))
    for path in sorted(result.glob("*.ko")):
        say(f"built {path.name} ({path.stat().st_size // 1024} KiB)")
        if arguments.output:
            Path(arguments.output).mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, arguments.output)
    modules.build_programs()
    return 0


def setup_quietly():
    """Makes what is missing, and says nothing when nothing is."""
    host.ensure_programs()
    with process.Pool() as pool:
        for future in [pool.submit(kernel.tree), pool.submit(buildroot.dom0_root)]:
            future.result()


def prepare(arguments):
    """Sets up and builds, so that a run tests the sources as they are now."""
    setup_quietly()
    if arguments.no_build:
        return
    tree = kernel.named(arguments.kernel)
    if (cache.PROJECT / "Kbuild").exists() and (tree / "source").is_dir():
        modules.build(tree)
    modules.build_programs()


def run_job(job, words, options, name=None, environment=None):
    """Boots the machine, runs a job and returns its exit status and the run folder."""
    job = Path(job)
    if not job.exists():
        raise Failure(f"there is no job {job}")
    entry = "run" if job.is_dir() else job.name
    if not os.access(job / "run" if job.is_dir() else job, os.X_OK):
        raise Failure(f"{job} has no {entry} that may be executed")
    machine = Machine(name or job.stem, options)
    machine.prepare(job, [f"./{entry}", *words], environment)

    def output(data):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()

    say(f"run folder: {machine.folder}")
    with machine:
        status = machine.follow(output)
    troubles = machine.consoles.troubles
    if troubles:
        name, line = troubles[0]
        raise Failure(f"the job ended with exit status {status}, but the console of {name} "
                      f"says: {line}")
    return status, machine.folder


def run(arguments):
    """Runs one job."""
    prepare(arguments)
    status, folder = run_job(arguments.job, arguments.arguments, Options(arguments))
    if status != 0:
        say(f"the job failed with exit status {status}; its logs are in {folder}")
    return status


def demo(arguments):
    """Runs the demonstration: the same work on the Rust and on the C driver."""
    prepare(arguments)
    status, folder = run_job(cache.SELFTESTS / "demo.sh", [], Options(arguments))
    if status != 0:
        say(f"the demonstration failed; its logs are in {folder}")
    return status


def stress_cpu(arguments):
    """Boots again and again with a load that showed faults of emulated CPU models."""
    setup_quietly()
    modules.build_programs()
    bad = []
    for boot in range(1, arguments.boots + 1):
        try:
            status, _ = run_job(cache.SELFTESTS / "stress_cpu.sh", [], Options(arguments))
            outcome = "clean" if status == 0 else f"failed with exit status {status}"
        except Failure as failure:
            outcome = str(failure)
            status = 1
        if status:
            bad.append(boot)
        say(f"boot {boot} of {arguments.boots} with -cpu {arguments.cpu or CPU}: {outcome}")
    print(f"{arguments.boots - len(bad)} of {arguments.boots} boots clean, "
          f"CPU model {arguments.cpu or CPU}")
    return 1 if bad else 0


def clean(arguments):
    """Removes builds and runs, or the whole cache."""
    if not cache.slots("machine", os.cpu_count() or 1, os.cpu_count() or 1):
        raise Failure("an emulated machine is running, whose files these are; end it first")
    for name in ["build", "runs", "logs"]:
        cache.remove(cache.root() / name)
    if arguments.cache:
        for path in cache.root().iterdir():
            cache.remove(path)
    return 0


def add_kernel_option(parser):
    """Adds the option that names the kernel."""
    parser.add_argument("--kernel", metavar="KERNEL",
                        help="another kernel: a series that Debian has, such as 7.2, or a folder with "
                        "kernel.json, vmlinuz, modules, and source if modules are to be built for it")


def add_run_options(parser, timeout):
    """Adds the options that say how to boot."""
    parser.add_argument("--no-build", action="store_true", help="use the modules as last built")
    parser.add_argument("--front", action="append", metavar="DRIVER=rust|c",
                        help="which frontend driver guests use (default: Rust where built)")
    parser.add_argument("--back", action="append", metavar="DRIVER=rust|c",
                        help="which backend driver dom0 uses (default: C)")
    parser.add_argument("--timeout", type=int, default=timeout, metavar="SECONDS",
                        help="longest time for the whole run (default: %(default)s)")
    parser.add_argument("--memory", type=int, metavar="MIB", help="memory of the machine")
    parser.add_argument("--dom0-memory", type=int, metavar="MIB", help="memory of dom0")
    parser.add_argument("--cpus", type=int, metavar="N", help="CPUs of the machine and of dom0")
    parser.add_argument("--cpu", metavar="MODEL", help=f"QEMU's CPU model (default: {CPU})")
    parser.add_argument("--tcg-thread", choices=["single", "multi"],
                        help="single: all emulated CPUs take turns on one real CPU; multi: each has "
                        "one (default: multi, but single where `check` runs several machines)")
    add_kernel_option(parser)
    parser.add_argument("--qemu-arg", action="append", metavar="WORDS",
                        help="more of QEMU's command line")
    parser.add_argument("--xen-arg", action="append", metavar="WORD",
                        help="more of Xen's command line")
    parser.add_argument("--dom0-arg", action="append", metavar="WORD",
                        help="more of dom0's command line")
    parser.add_argument("--plugin", metavar="FILE[,OPTION=VALUE]", help="a TCG plugin for QEMU")
    parser.add_argument("--allow-console", action="append", metavar="REGEX",
                        help="console lines that do not fail the run")
    parser.add_argument("--keep", action="store_true", help="never remove this run's folder")


def parser():
    """Returns the parser of the command line."""
    top = argparse.ArgumentParser(
        prog="xenvm", description="Builds and runs the test bed: Xen with a Debian dom0 and its "
        "guests, emulated by QEMU.",
        epilog="Everything fetched or built is kept in $XEN_PV_RUST_CACHE, by default "
        "~/.cache/xen-pv-rust.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(function, text, **names):
        name = names.get("name", function.__name__).replace("_", "-")
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    command = add(setup, "make build root, kernel tree and images; nothing is done twice")
    command.add_argument("--update", action="store_true",
                         help="start over, with what the Debian mirror has now")
    command = add(build, "build the modules for the kernel under test")
    add_kernel_option(command)
    command.add_argument("--output", metavar="FOLDER", help="copy the modules there")
    command = add(package.deb, "build the Debian package")
    command.add_argument("--output", metavar="FOLDER", help="copy the package there")
    command = add(package.package_check, "install the Debian package in a fresh root, boot guests from it, and "
                  "remove it")
    command.add_argument("--suite", default=buildroot.SUITE, help="of Debian (default: %(default)s)")
    command.add_argument("--no-boot", action="store_true", help="boot no guest")
    command.add_argument("--keep", action="store_true", help="keep the root")
    command = add(run, "boot and run a job in dom0")
    add_run_options(command, 600)
    command.add_argument("job", metavar="JOB", help="a script, or a folder with a script `run`")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENTS")
    command = add(check.check, "run all tests")
    add_run_options(command, None)
    command.add_argument("--only", nargs="+", action="extend", metavar="NAME",
                         help="only tests whose name has this; long ones and controls, too")
    command.add_argument("--all", action="store_true",
                         help="the long tier, too: the control with the C driver, and slow tests")
    command.add_argument("--machines", type=int, metavar="N",
                         help="how many to share the tests out to (default: as many as the host has "
                         "CPUs and memory for)")
    command.add_argument("--list", action="store_true", help="only name the tests")
    command = add(demo, "the same work on the Rust and on the C driver, in one table")
    add_run_options(command, 600)
    command = add(bench.bench, "measure pairs of drivers, and count what they execute")
    add_run_options(command, 3600)
    command.add_argument("--kind", choices=["blk", "net"], default="blk",
                         help="disks or interfaces (default: %(default)s)")
    command.add_argument("--full", action="store_true",
                         help="all workloads, and more rounds; takes an hour or more")
    command.add_argument("--rounds", type=int, metavar="N",
                         help=f"how often each pair takes its turn (default: {bench.QUICK_ROUNDS}, "
                         f"with --full {bench.FULL_ROUNDS})")
    command.add_argument("--pairs", nargs="+", metavar="FRONT/BACK",
                         help="which pairs, the one to compare with first, each driver perhaps with "
                         "parameters as in rust:max_indirect_segments=64/c (default: "
                         f"{' '.join(bench.PAIRS)})")
    command.add_argument("--profile", action="store_true",
                         help="also tell which functions of kernels and modules the instructions are in")
    command.add_argument("--workloads", metavar="REGEX", help="which workloads (default: "
                         f"{', '.join(f'{kind}: {regex}' for kind, regex in bench.QUICK.items())}; "
                         "with --full all)")
    command = add(shell.shell, "a prompt in dom0, with a guest attached")
    add_run_options(command, None)
    command = add(stress_cpu, "look for faults of the emulated CPU model")
    add_run_options(command, 180)
    command.add_argument("--boots", type=int, default=20, metavar="N",
                         help="how often to boot (default: %(default)s)")
    command = add(clean, "remove builds and runs")
    command.add_argument("--cache", action="store_true", help="remove all that was fetched, too")
    return top


def interrupt(*_):
    """Turns a signal into the exception that unwinds everything."""
    raise KeyboardInterrupt


def main():
    """Runs the command line and returns the exit status."""
    arguments = parser().parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        return arguments.function(arguments)
    except Failure as failure:
        print(f"xenvm: {failure}", file=sys.stderr)
        return 1
    except (OSError, shutil.Error, subprocess.CalledProcessError) as error:
        print(f"xenvm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("xenvm: interrupted", file=sys.stderr)
        return 130
