# SPDX-License-Identifier: GPL-2.0
"""The test bed of xen-pv-rust."""
