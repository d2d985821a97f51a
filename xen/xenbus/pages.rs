// SPDX-License-Identifier: GPL-2.0

//! Pages granted to the other end for a ring.

use super::DeviceRef;
use crate::{
    bindings,
    grant,
    ring::Memory, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Largest power of two of pages that the bus can grant as one ring.
const MAX_ORDER: u32 = 4;

const MAX_PAGES: usize = 1 << MAX_ORDER;

/// Zeroed pages, granted to the other end of a device.
///
/// Dropping them ends the access. A page that the other end still has mapped is freed once it has
/// unmapped it. Process context.
///
/// # Invariants
///
/// `base` is what `xenbus_setup_ring` returned for `count` pages, and the first `count` references
/// are those it filled in.
pub struct GrantedPages {
    base: NonNull<c_void>,
    count: usize,
    grefs: [bindings::grant_ref_t; MAX_PAGES],
}

// SAFETY: The pages belong to this value; ending their access can be done by any thread.
unsafe impl Send for GrantedPages {}

impl GrantedPages {
    /// Allocates and grants 2 to the power of `order` pages of 4 KiB.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `order` is above 4, `ENOMEM`, `ENOSPC` if there are no grant
    /// references left. The device is told of all but the first.
    pub fn new(dev: &DeviceRef, order: u32) -> Result<Self> {
        if order > MAX_ORDER {
            return Err(EINVAL);
        }
        let count = 1usize << order;
        let mut grefs = [grant::INVALID; MAX_PAGES];
        let mut base = core::ptr::null_mut();
        // SAFETY: The device is valid, and there is room for `count` references.
        to_result(unsafe {
            bindings::xenbus_setup_ring(
                dev.as_raw(),
                bindings::GFP_NOIO,
                &mut base,
                // CAST: At most 16.
                count as c_uint,
                grefs.as_mut_ptr(),
            )
        })?;
        let base = NonNull::new(base).ok_or(ENOMEM)?;
        // INVARIANT: The call was for `count` pages and succeeded.
        Ok(Self { base, count, grefs })
    }

    /// The references to tell the other end, one for each page in order.
    pub fn grefs(&self) -> &[bindings::grant_ref_t] {
        self.grefs.get(..self.count).unwrap_or(&[])
    }
}

impl Drop for GrantedPages {
    fn drop(&mut self) {
        let mut base = self.base.as_ptr();
        // SAFETY: By the type invariant these are the pages and references of one ring, and nobody
        // uses them any more since whoever does has this value.
        unsafe {
            bindings::xenbus_teardown_ring(
                &mut base,
                // CAST: At most 16.
                self.count as c_uint,
                self.grefs.as_mut_ptr(),
            )
        };
    }
}

// SAFETY: The pages are mapped at `base`, one behind the other, until they are dropped; the mapping
// does not move with `self`. It starts at a page.
unsafe impl Memory for GrantedPages {
    fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }

    fn bytes(&self) -> usize {
        self.count * bindings::XEN_PAGE_SIZE
    }
}
