// SPDX-License-Identifier: GPL-2.0

//! Frames that this domain grants.

use crate::bindings;
use core::num::NonZeroU32;
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// Memory that may be granted.
///
/// # Safety
///
/// The frame is this domain's, another domain may read and write it as long as the value lives, and
/// its page is one that a reference can keep from being used for something else: the other domain may
/// not let go of it.
pub unsafe trait Frame {
    /// The pseudo-physical number of the frame of 4 KiB.
    fn frame(&self) -> usize;
}

/// What the other domain may do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it.
    ReadOnly,
    /// Read and write it.
    ReadWrite,
}

/// A frame that another domain may use.
///
/// Ended by [`Reserve::end`], or dropped. A frame that the other domain still has mapped when it is
/// dropped is parked: the kernel keeps its page and reference from being used again until the
/// mapping is gone, and looks for that in the background.
#[derive(Debug)]
pub struct Grant {
    // The first eight entries of the table are reserved, so a reference is never 0.
    gref: NonZeroU32,
}

/// The other domain has a frame mapped whose access was to end. The frame is parked, see [`Grant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillMapped {
    /// The reference by which it is mapped.
    pub gref: u32,
}

static PARKED: Atomic<u64> = Atomic::new(0);

/// How many frames this module has parked so far.
pub fn parked() -> u64 {
    PARKED.load(Relaxed)
}

fn park(gref: u32) {
    PARKED.fetch_add(1, Relaxed);
    // SAFETY: `gref` is in use and the caller gives it up. Without a page given, the kernel finds
    // the page by the entry and holds a reference to it; `Frame` requires that this can be.
    unsafe { bindings::gnttab_end_foreign_access(gref, core::ptr::null_mut()) };
}

impl Grant {
    /// Ends the access for good, unless the other domain has the frame mapped. The reference is free
    /// for anybody then.
    pub fn try_end(self) -> Result<(), Self> {
        // SAFETY: The reference is in use; if its access can be ended it is free for anybody.
        if unsafe { bindings::gnttab_try_end_foreign_access(self.gref()) } == 0 {
            return Err(self);
        }
        core::mem::forget(self);
        Ok(())
    }

    /// The reference to tell the other domain.
    #[inline]
    pub fn gref(&self) -> u32 {
        self.gref.get()
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // SAFETY: The reference is in use; if its access can be ended it is free for anybody.
        if unsafe { bindings::gnttab_try_end_foreign_access(self.gref()) } == 0 {
            park(self.gref());
        }
    }
}

/// Grant references set aside.
///
/// # Invariants
///
/// `head` starts a list of `free` references that nobody else uses, linked as
/// `gnttab_alloc_grant_references` does it.
pub struct Reserve {
    head: bindings::grant_ref_t,
    free: u32,
}

impl Reserve {
    /// Sets `wanted` references aside, or fewer if the table is short of them: half as many, and so
    /// on, but not below `least`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are not even `least`, `EINVAL` if `wanted` is less than that.
    pub fn new(wanted: u16, least: u16) -> Result<Self> {
        if wanted < least {
            return Err(EINVAL);
        }
        let mut count = wanted;
        loop {
            let mut head = 0;
            // SAFETY: `head` outlives the call.
            match to_result(unsafe { bindings::gnttab_alloc_grant_references(count, &mut head) }) {
                // INVARIANT: The list has `count` references.
                Ok(()) => {
                    return Ok(Self {
                        head,
                        free: count.into(),
                    })
                }
                Err(error) if count == least => return Err(error),
                Err(_) => count = (count / 2).max(least),
            }
        }
    }

    /// How many references are left.
    #[inline]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Grants a frame to a domain, if there is a reference left. Any context.
    #[inline]
    pub fn grant(&mut self, domain: u16, frame: &impl Frame, access: Access) -> Option<Grant> {
        // SAFETY: `head` is the start of a private list by the type invariant.
        let gref = unsafe { bindings::gnttab_claim_grant_reference(&mut self.head) };
        // A negative value is an error: the list is empty.
        let gref = NonZeroU32::new(u32::try_from(gref).ok()?)?;
        // INVARIANT: One reference was taken off the list.
        self.free = self.free.saturating_sub(1);
        // SAFETY: The function has no requirement.
        let gfn = unsafe { bindings::xen_pfn_to_gfn(frame.frame()) };
        // SAFETY: The reference is this caller's alone and not in use.
        unsafe {
            bindings::gnttab_grant_foreign_access_ref(
                gref.get(),
                domain,
                gfn,
                (access == Access::ReadOnly).into(),
            )
        };
        Some(Grant { gref })
    }

    /// Ends the access to a frame and takes its reference back. Any context.
    ///
    /// # Errors
    ///
    /// The other domain may have the frame mapped. It is parked then and its reference is lost to
    /// this reserve.
    #[inline]
    pub fn end(&mut self, grant: Grant) -> Result<(), StillMapped> {
        let gref = grant.gref();
        core::mem::forget(grant);
        // SAFETY: The reference is in use, for the frame that was granted with it.
        if unsafe { bindings::gnttab_end_foreign_access_ref(gref) } == 0 {
            park(gref);
            return Err(StillMapped { gref });
        }
        // SAFETY: The reference is not in use and belongs to nobody else.
        unsafe { bindings::gnttab_release_grant_reference(&mut self.head, gref) };
        // INVARIANT: One reference was added to the list.
        self.free = self.free.saturating_add(1);
        Ok(())
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: The list is private by the type invariant, and not used again.
        unsafe { bindings::gnttab_free_grant_references(self.head) };
    }
}
