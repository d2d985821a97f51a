# SPDX-License-Identifier: GPL-2.0
"""The kernel's own tests of network devices, taken from its source, with the programs that they need."""

import shutil

from . import buildroot, cache, kernel, process

# Parts of the kernel's source, which the tests find each other by.
PARTS = """
    tools/testing/selftests/drivers/net tools/testing/selftests/net/lib tools/testing/selftests/kselftest
    tools/net/ynl/pyynl Documentation/netlink/specs
""".split()

BUILD = r"""
target=$1; tests=tools/testing/selftests; headers=$target/headers
mkdir -p "$headers/bpf"
python3 scripts/bpf_doc.py --header --file include/uapi/linux/bpf.h >"$headers/bpf/bpf_helper_defs.h"
cp tools/lib/bpf/bpf_helpers.h tools/lib/bpf/bpf_endian.h "$headers/bpf/"
for name in net/lib/xdp_dummy net/lib/xdp_native; do
	clang-19 -target bpf -O2 -g -w "-I$headers" -Itools/include/uapi -I/usr/include/x86_64-linux-gnu \
		-c "$tests/$name.bpf.c" -o "$target/$tests/$name.bpf.o"
done
for name in net/lib/csum net/lib/gro net/lib/xdp_helper drivers/net/napi_id_helper; do
	"$2" -O2 -w -static -isystem tools/include/uapi -Itools/include "-I$tests" \
		"$tests/$name.c" -o "$target/$tests/$name"
done
rm -r "$headers"
"""


def build(folder):
    """Copies the tests and builds their programs."""
    source = kernel.tree() / "source"
    process.fresh_log("kernel-tests")
    for part in PARTS:
        shutil.copytree(source / part, folder / part)
    process.run(buildroot.enter(["bash", "-euc", BUILD, "build", "/srv/tests", kernel.CC],
                                [(kernel.tree(), "/srv/kernel"), (folder, "/srv/tests")], cwd=kernel.KDIR),
                "kernel-tests", "the kernel's tests do not build")


def tree():
    """Returns a folder laid out like the kernel's source, with nothing but the tests in it."""
    recipe = ["kernel-tests", 1, PARTS, BUILD, kernel.tree().name]
    return cache.piece("kernel-tests", recipe, build)
