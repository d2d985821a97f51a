// SPDX-License-Identifier: GPL-2.0

//! Pages that are granted in place of others.

use super::{
    Frame,
    Quota,
    WritableFrame,
    TRIM_STEP, //
};
use crate::bindings;
use core::ptr::NonNull;
use kernel::prelude::*;

/// A page that is granted in place of memory which must not be: because another domain is not to see
/// what else is in that memory's page, or because the page could be used for something else while the
/// other domain still has it mapped.
///
/// # Invariants
///
/// `page` is a page of order 0 to which this value has a reference.
pub struct BouncePage {
    page: NonNull<bindings::page>,
}

// SAFETY: Pages can be used and freed by any thread.
unsafe impl Send for BouncePage {}

impl BouncePage {
    /// Allocates a page. Process context.
    pub fn with_patience() -> Option<Self> {
        Self::new(bindings::GFP_NOIO)
    }

    /// Allocates a page if there is memory. Any context.
    pub(super) fn without_waiting() -> Option<Self> {
        Self::new(bindings::GFP_NOWAIT | bindings::__GFP_NOWARN)
    }

    fn new(gfp: bindings::gfp_t) -> Option<Self> {
        // SAFETY: The function has no requirement.
        let page = unsafe { bindings::alloc_pages(gfp | bindings::__GFP_ZERO, 0) };
        // INVARIANT: It was just allocated.
        Some(Self {
            page: NonNull::new(page)?,
        })
    }

    #[inline]
    pub(crate) fn page(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// Whether somebody else still has a reference to the page, who may read it.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // SAFETY: The page is valid by the type invariant.
        unsafe { bindings::xen_page_is_shared(self.page.as_ptr()) }
    }

    /// Copies what is at `offset` of the page, as much as there is room for; [`false`] if the page has
    /// not as much.
    #[must_use]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let end = offset.checked_add(into.len());
        if end.is_none_or(|end| end > bindings::XEN_PAGE_SIZE) {
            return false;
        }
        // CAST: Both are at most 4096.
        let (offset, length) = (offset as c_uint, into.len() as c_uint);
        // SAFETY: The page is valid by the type invariant, and so is `into`, for as many bytes.
        unsafe { bindings::xen_read_frame(into.as_mut_ptr().cast(), self.frame(), offset, length) };
        true
    }
}

impl BouncePage {
    /// Writes bytes at an offset; [`false`] if the page does not have room for them there.
    #[inline]
    #[must_use]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        match offset.checked_add(bytes.len()) {
            Some(end) if end <= bindings::XEN_PAGE_SIZE => {}
            _ => return false,
        }
        // CAST: Less than a page.
        // SAFETY: The page is this value's, and the bytes end before the end of its first frame.
        unsafe {
            bindings::xen_copy_to_frame(
                self.frame(),
                offset as c_uint,
                bytes.as_ptr().cast(),
                bytes.len() as c_uint,
            )
        };
        true
    }
}

// SAFETY: The page is this value's alone, and an ordinary one.
unsafe impl Frame for BouncePage {
    #[inline]
    fn frame(&self) -> usize {
        // SAFETY: The page is valid by the type invariant.
        unsafe { bindings::xen_page_to_pfn(self.page.as_ptr()) }
    }
}

// SAFETY: As above.
unsafe impl WritableFrame for BouncePage {}

impl Drop for BouncePage {
    fn drop(&mut self) {
        // If its grant is parked, the grant has a reference of its own.
        // SAFETY: The reference is this value's by the type invariant.
        unsafe { bindings::__free_pages(self.page.as_ptr(), 0) };
    }
}

/// Bounce pages of one queue.
///
/// Some are there from the beginning, so that the queue can go on when there is no memory. They are
/// zeroed when they are allocated; later a page may hold what it held before, which the same other
/// domain has seen. Those left over are given back by [`trim`](Self::trim).
///
/// # Invariants
///
/// As many pages are in `pages` as are free by `quota`, and there is room for all that may be.
pub struct BouncePool {
    pages: KVVec<BouncePage>,
    quota: Quota,
}

impl BouncePool {
    /// Makes a pool that has `least` pages and will have up to `most`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(least: u32, most: u32) -> Result<Self> {
        // Pages are given back where nothing can be allocated.
        let mut pages = KVVec::with_capacity(most.max(least) as usize, GFP_KERNEL)?;
        for _ in 0..least {
            pages.push(BouncePage::with_patience().ok_or(ENOMEM)?, GFP_KERNEL)?;
        }
        let mut quota = Quota::new(least, most);
        quota.add(least);
        // INVARIANT: Both are `least`.
        Ok(Self { pages, quota })
    }

    /// Whether there are more pages than there must be.
    #[inline]
    pub fn has_grown(&self) -> bool {
        self.quota.has_grown()
    }

    /// Takes a page: one that is free, or a new one if there may be more and there is memory. Any
    /// context.
    #[inline]
    pub fn take(&mut self) -> Option<BouncePage> {
        self.take_or_make(BouncePage::without_waiting)
    }

    /// The same, but waits until there is memory, without having anything written to a disk for it.
    /// Process context.
    pub fn take_waiting(&mut self) -> Option<BouncePage> {
        self.take_or_make(BouncePage::with_patience)
    }

    #[inline]
    fn take_or_make(&mut self, make: fn() -> Option<BouncePage>) -> Option<BouncePage> {
        let page = match self.pages.pop() {
            Some(page) => page,
            None if self.quota.room(1) == 0 => return None,
            None => {
                let page = make()?;
                self.quota.add(1);
                page
            }
        };
        // INVARIANT: One less is in `pages`, or the new one is not.
        let _ = self.quota.lend();
        Some(page)
    }

    /// Frees pages until no more than `most` are free, or there are no more than there must be.
    /// Any context.
    pub fn shrink(&mut self, most: usize) {
        while self.pages.len() > most && self.quota.has_grown() {
            // INVARIANT: One less is in `pages`.
            self.quota.drop_free();
            drop(self.pages.pop());
        }
    }

    /// Gives a page back. Any context.
    #[inline]
    pub fn give(&mut self, page: BouncePage) {
        // INVARIANT: One more is in `pages`. There is room, or the page is freed.
        match self.pages.push_within_capacity(page) {
            Ok(()) => self.quota.give_back(),
            Err(_) => self.quota.lose(),
        }
    }

    /// A page does not come back: its grant is parked, or somebody else still has it. Any context.
    #[inline]
    pub fn forgo(&mut self) {
        self.quota.lose();
    }

    /// Frees pages that have not been needed since the last call, but not too many at once.
    /// Any context.
    pub fn trim(&mut self) {
        for _ in 0..self.quota.left_over(TRIM_STEP) {
            // INVARIANT: One less is in `pages`.
            self.quota.drop_free();
            drop(self.pages.pop());
        }
    }
}
