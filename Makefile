# SPDX-License-Identifier: GPL-2.0
#
# A front to the kernel's build system, whose targets all work here as well.
# make -C <kernel tree> M=$PWD modules does the same without this file.

KDIR ?= /lib/modules/$(shell uname -r)/build
INSTALL_MOD_DIR ?= updates
export INSTALL_MOD_DIR

kernel-make = $(MAKE) -C $(KDIR) M=$(CURDIR)
xenvm := selftests/bootstrap.sh

.PHONY: modules
modules: preflight
	$(kernel-make) modules

# The kernel leaves depmod out where a tree was only prepared and has no System.map.
.PHONY: modules_install
modules_install: preflight
	$(kernel-make) modules_install
	depmod $(if $(INSTALL_MOD_PATH),-b $(INSTALL_MOD_PATH)) $$(cat $(KDIR)/include/config/kernel.release)

.PHONY: preflight
preflight:
	@scripts/preflight.sh $(KDIR)

.PHONY: clean
clean:
	$(kernel-make) clean

.PHONY: rustdoc
rustdoc: modules
	scripts/rustdoc.sh

# Tests; what they need is fetched and kept outside of this tree.
.PHONY: check check-all demo shell stress-cpu bench deb package-check
check demo shell stress-cpu bench deb package-check:
	$(xenvm) $@ $(ARGS)

# With the C driver as control, and the slow tests.
check-all:
	$(xenvm) check --all $(ARGS)

.PHONY: host-check
host-check:
	selftests/bootstrap.sh --only-programs
	selftests/host/run $(ARGS)

# What finds mistakes that tests do not look for; with the Rust of this machine.
.PHONY: fuzz miri sanitize
fuzz:
	selftests/fuzz/run $(ARGS)

miri:
	selftests/host/run --miri $(ARGS)

sanitize:
	selftests/host/run --address $(ARGS)

.PHONY: kunit
kunit:
	selftests/bootstrap.sh --only-programs
	selftests/kunit/run $(ARGS)

.PHONY: builds tree-check
builds tree-check:
	selftests/bootstrap.sh --only-programs
	selftests/$(@:-check=)/run $(ARGS)

# The drivers as part of a kernel's source.
.PHONY: in-tree
in-tree:
	scripts/kernel_tree.sh $(TREE)

.PHONY: style
style:
	scripts/style.sh

.PHONY: help
help:
	@echo 'Building, with KDIR=<build tree of the kernel> (default: the running kernel):'
	@echo '  modules          - build the modules (default)'
	@echo '  preflight        - only say what a build would lack'
	@echo '  modules_install  - install them, by default where depmod prefers them (updates)'
	@echo '  clean            - remove what was built'
	@echo '  rustdoc          - build the documentation of the crate xen in rustdoc/'
	@echo '  in-tree TREE=... - lay the drivers into the source tree of a kernel'
	@echo '  CLIPPY=1         - have the modules checked by Clippy as well'
	@echo '  Every other target is handed to the kernel.'
	@echo
	@echo 'Testing, with ARGS=<more arguments>:'
	@echo '  check            - the tests, on Xen in an emulated machine'
	@echo '  check-all        - those of the C driver as control and the slow ones, too'
	@echo '  host-check       - the unit tests, without any kernel'
	@echo '  fuzz             - fuzz what takes peers'\'' data apart (ARGS="[TARGET] [--seconds N]")'
	@echo '  miri             - the unit tests, interpreted by Miri'
	@echo '  sanitize         - the unit tests, with AddressSanitizer'
	@echo '  kunit            - the unit tests, in a debug kernel'
	@echo '  builds           - the modules for all kernels'
	@echo '  tree-check       - the drivers in a kernel'\''s tree, as modules and built in'
	@echo '  demo             - show the drivers at work'
	@echo '  shell            - a shell in dom0'
	@echo '  stress-cpu       - look for faults of the emulated CPU'
	@echo '  bench            - measure against the C drivers, and count instructions'
	@echo '  deb              - build the Debian package'
	@echo '  package-check    - install it in a fresh Debian root, boot guests from it, and remove it'
	@echo '  style            - formatting and the rules of the project'

# Anything else is the kernel's.
%: preflight
	$(kernel-make) $@

# This file is not to be made by the rule above.
Makefile: ;
