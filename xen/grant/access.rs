// SPDX-License-Identifier: GPL-2.0

//! Frames that this domain grants.

use super::{
    Quota,
    TRIM_STEP, //
};
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

/// Memory that may be granted for reading.
///
/// # Safety
///
/// The frame is this domain's, another domain may read it as long as it is not used for something else,
/// and a reference to its page keeps it from that: a grant has one.
pub unsafe trait Frame {
    /// The pseudo-physical number of the frame of 4 KiB.
    fn frame(&self) -> usize;
}

/// Memory that may be granted for writing as well.
///
/// # Safety
///
/// Another domain may write to the frame as long as [`Frame`] says that it may read it.
pub unsafe trait WritableFrame: Frame {}

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
///
/// # Invariants
///
/// `gref` gives access to `frame`, to whose page this value has a reference. The other domain cannot
/// write to memory that is used for something else, even if whoever granted it has dropped it.
#[derive(Debug)]
pub struct Grant {
    // The first eight entries of the table are reserved, so a reference is never 0.
    gref: NonZeroU32,
    access: Access,
    frame: usize,
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
        self.put_frame();
        Ok(())
    }

    /// The access has ended, or the kernel looks after what is left of it.
    #[inline]
    fn put_frame(self) {
        let frame = self.frame;
        core::mem::forget(self);
        // SAFETY: The reference is this value's by the type invariant, and the value is gone.
        unsafe { bindings::xen_put_frame(frame) };
    }

    /// The reference to tell the other domain.
    #[inline]
    pub fn gref(&self) -> u32 {
        self.gref.get()
    }

    /// What it may do.
    #[inline]
    pub fn access(&self) -> Access {
        self.access
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        // SAFETY: The reference is in use; if its access can be ended it is free for anybody.
        if unsafe { bindings::gnttab_try_end_foreign_access(self.gref()) } == 0 {
            park(self.gref());
        }
        // SAFETY: The reference is this value's by the type invariant.
        unsafe { bindings::xen_put_frame(self.frame) };
    }
}

/// Ends a list of references (`GNTTAB_LIST_END` in `drivers/xen/grant-table.c`).
const END: bindings::grant_ref_t = bindings::grant_ref_t::MAX;

/// How many references are taken from the domain's table at once.
const STEP: u32 = 32;

/// Grant references that a queue has for itself.
///
/// Some are set aside from the beginning, so that the queue can go on whatever others use up. Others
/// are taken from the domain's table when they are needed, kept for the next request, and given back
/// by [`trim`](Self::trim) when they have not been needed for a while.
///
/// # Invariants
///
/// `head` starts a list of as many references as are free by `quota`, which nobody else uses, linked
/// as `gnttab_alloc_grant_references` does it.
pub struct Reserve {
    head: bindings::grant_ref_t,
    quota: Quota,
}

impl Reserve {
    /// Sets `least` references aside. There will be up to `most`.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are not so many left.
    pub fn new(least: u16, most: u32) -> Result<Self> {
        let mut head = END;
        // The kernel's list would be the worse for being asked for nothing.
        if least > 0 {
            // SAFETY: `head` outlives the call.
            to_result(unsafe { bindings::gnttab_alloc_grant_references(least, &mut head) })?;
        }
        let mut quota = Quota::new(least.into(), most);
        quota.add(least.into());
        // INVARIANT: The list has `least` references.
        Ok(Self { head, quota })
    }

    /// How many references it has, in use or not.
    #[inline]
    pub fn owned(&self) -> u32 {
        self.quota.owned()
    }

    /// Whether it has more references than were set aside.
    #[inline]
    pub fn has_grown(&self) -> bool {
        self.quota.has_grown()
    }

    /// Takes more references from the domain's table. None may be free.
    #[cold]
    fn grow(&mut self) {
        let count = self.quota.room(STEP);
        if count == 0 || self.quota.free() != 0 {
            return;
        }
        // The last ones in the table may be fewer.
        for count in [count, 1] {
            let mut head = 0;
            // CAST: At most `STEP`.
            // SAFETY: `head` outlives the call.
            if unsafe { bindings::gnttab_alloc_grant_references(count as u16, &mut head) } == 0 {
                // INVARIANT: The old list was empty; the new one has `count` references.
                self.head = head;
                self.quota.add(count);
                return;
            }
        }
    }

    /// Grants a frame to a domain, if there is a reference left. Any context.
    #[inline]
    pub fn grant(
        &mut self,
        domain: u16,
        frame: &impl WritableFrame,
        access: Access,
    ) -> Option<Grant> {
        self.grant_frame(domain, frame.frame(), access)
    }

    /// Grants a frame to a domain that may only read it, if there is a reference left. Any context.
    #[inline]
    pub fn grant_for_reading(&mut self, domain: u16, frame: &impl Frame) -> Option<Grant> {
        self.grant_frame(domain, frame.frame(), Access::ReadOnly)
    }

    /// `frame` is one that [`Frame`] has told, and of a [`WritableFrame`] unless it is for reading.
    #[inline]
    fn grant_frame(&mut self, domain: u16, frame: usize, access: Access) -> Option<Grant> {
        if self.quota.free() == 0 {
            self.grow();
        }
        if !self.quota.lend() {
            return None;
        }
        // INVARIANT: One reference is taken off the list.
        // SAFETY: `head` is the start of a private list by the type invariant.
        let gref = unsafe { bindings::gnttab_claim_grant_reference(&mut self.head) };
        // A negative value is an error: the list is empty.
        let gref = NonZeroU32::new(u32::try_from(gref).ok()?)?;
        // SAFETY: `Frame` requires that there can be a reference. The caller has the page.
        unsafe { bindings::xen_get_frame(frame) };
        // SAFETY: The function has no requirement.
        let gfn = unsafe { bindings::xen_pfn_to_gfn(frame) };
        // SAFETY: The reference is this caller's alone and not in use.
        unsafe {
            bindings::gnttab_grant_foreign_access_ref(
                gref.get(),
                domain,
                gfn,
                (access == Access::ReadOnly).into(),
            )
        };
        // INVARIANT: Both was just done.
        Some(Grant {
            gref,
            access,
            frame,
        })
    }

    /// Ends the access to a frame and takes its reference back. Any context.
    ///
    /// # Errors
    ///
    /// The other domain may have the frame mapped. It is parked then and its reference is lost to
    /// this reserve.
    #[inline]
    pub fn end(&mut self, grant: Grant) -> Result<(), StillMapped> {
        self.try_end(grant).map_err(|grant| {
            let gref = grant.gref();
            park(gref);
            grant.put_frame();
            self.quota.lose();
            StillMapped { gref }
        })
    }

    /// Ends the access to a frame and takes its reference back, unless the other domain has the frame
    /// mapped: then nothing has changed. Any context.
    #[inline]
    pub fn try_end(&mut self, grant: Grant) -> Result<(), Grant> {
        let gref = grant.gref();
        // SAFETY: The reference is in use, for the frame that was granted with it.
        if unsafe { bindings::gnttab_end_foreign_access_ref(gref) } == 0 {
            return Err(grant);
        }
        grant.put_frame();
        // SAFETY: The reference is not in use and belongs to nobody else.
        unsafe { bindings::gnttab_release_grant_reference(&mut self.head, gref) };
        // INVARIANT: One reference was added to the list.
        self.quota.give_back();
        Ok(())
    }

    /// A reference that was lent by [`grant`](Self::grant) has been ended elsewhere, and is anybody's.
    #[inline]
    pub fn forgo(&mut self) {
        self.quota.lose();
    }

    /// Gives references back to the domain that have not been needed since the last call, but
    /// not too many at once. Any context.
    pub fn trim(&mut self) {
        for _ in 0..self.quota.left_over(TRIM_STEP) {
            // SAFETY: `head` is the start of a private list by the type invariant.
            let gref = unsafe { bindings::gnttab_claim_grant_reference(&mut self.head) };
            let Ok(gref) = u32::try_from(gref) else {
                return;
            };
            // INVARIANT: One reference was taken off the list.
            self.quota.drop_free();
            // SAFETY: The reference is not in use and belongs to nobody else.
            unsafe { bindings::gnttab_free_grant_reference(gref) };
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: The list is private by the type invariant, and not used again.
        unsafe { bindings::gnttab_free_grant_references(self.head) };
    }
}
