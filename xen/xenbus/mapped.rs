// SPDX-License-Identifier: GPL-2.0

//! Pages of the other end, mapped for a ring.

use super::DeviceRef;
use crate::{
    bindings,
    ring::Memory, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Pages that the other end of a device has granted for a ring, mapped one behind the other.
///
/// Dropping them unmaps them. Process context.
///
/// # Invariants
///
/// `base` is what `xenbus_map_ring_valloc` returned for `count` pages.
pub struct MappedPages {
    base: NonNull<c_void>,
    count: usize,
    dev: DeviceRef,
}

// SAFETY: The mapping belongs to this value and can be ended by any thread.
unsafe impl Send for MappedPages {}

impl MappedPages {
    /// Maps the pages of these references, at most 16.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are none or too many, `ENOMEM`, or what Xen says. The device is told if Xen
    /// refuses one.
    pub fn new(dev: &DeviceRef, grefs: &[u32]) -> Result<Self> {
        if grefs.is_empty() {
            return Err(EINVAL);
        }
        let count = c_uint::try_from(grefs.len()).map_err(|_| EINVAL)?;
        let mut base = core::ptr::null_mut();
        // SAFETY: The device is valid. The references are only read.
        to_result(unsafe {
            bindings::xenbus_map_ring_valloc(
                dev.as_raw(),
                grefs.as_ptr().cast_mut(),
                count,
                &mut base,
            )
        })?;
        // INVARIANT: The call succeeded.
        Ok(Self {
            base: NonNull::new(base).ok_or(ENOMEM)?,
            count: grefs.len(),
            dev: dev.clone(),
        })
    }
}

impl Drop for MappedPages {
    fn drop(&mut self) {
        // The error, if any, is in the log by then.
        // SAFETY: By the type invariant it is mapped, and whoever uses it has this value.
        let _ = unsafe { bindings::xenbus_unmap_ring_vfree(self.dev.as_raw(), self.base.as_ptr()) };
    }
}

// SAFETY: The pages are mapped at `base`, one behind the other, until they are dropped; the mapping
// does not move with `self`. It starts at a page.
unsafe impl Memory for MappedPages {
    fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }

    fn bytes(&self) -> usize {
        self.count * bindings::XEN_PAGE_SIZE
    }
}
