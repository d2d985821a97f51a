// SPDX-License-Identifier: GPL-2.0

//! What kind of domain this kernel runs in.
//!
//! C headers: [`include/xen/xen.h`](srctree/include/xen/xen.h),
//! [`include/xen/platform_pci.h`](srctree/include/xen/platform_pci.h)

use crate::bindings;

/// Whether the kernel runs on Xen at all.
pub fn is_xen() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_domain() }
}

/// Whether the domain has hardware-like virtualisation, with or without emulated devices.
pub fn is_hvm() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_hvm_domain() }
}

/// Whether disks may be driven through Xen: not if the user wants the emulated ones.
pub fn has_pv_disks() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_has_pv_disk_devices() }
}

/// Whether interfaces may be driven through Xen: not if the user wants the emulated ones.
pub fn has_pv_interfaces() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_has_pv_nic_devices() }
}

/// Whether there are emulated disks beside Xen's, which could be the same ones.
pub fn has_emulated_disks_too() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_has_pv_and_legacy_disk_devices() }
}

/// How many processors the domain has online.
pub fn online_cpus() -> u32 {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_online_cpus() }
}
