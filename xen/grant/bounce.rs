// SPDX-License-Identifier: GPL-2.0

//! Pages that are granted in place of others.

use super::Frame;
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

// SAFETY: The page is this value's alone, and an ordinary one.
unsafe impl Frame for BouncePage {
    #[inline]
    fn frame(&self) -> usize {
        // SAFETY: The page is valid by the type invariant.
        unsafe { bindings::xen_page_to_pfn(self.page.as_ptr()) }
    }
}

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
/// domain has seen.
pub struct BouncePool {
    pages: KVec<BouncePage>,
    least: usize,
    most: usize,
}

impl BouncePool {
    /// Makes a pool of `least` pages that keeps up to `most`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(least: usize, most: usize) -> Result<Self> {
        // Pages are given back where nothing can be allocated.
        let mut pages = KVec::with_capacity(most.max(least), GFP_KERNEL)?;
        for _ in 0..least {
            let page = BouncePage::new(bindings::GFP_NOIO).ok_or(ENOMEM)?;
            pages.push(page, GFP_KERNEL)?;
        }
        Ok(Self {
            pages,
            least,
            most: most.max(least),
        })
    }

    /// Takes a page, if there is one or memory for one. Any context.
    #[inline]
    pub fn take(&mut self) -> Option<BouncePage> {
        self.pages
            .pop()
            .or_else(|| BouncePage::new(bindings::GFP_NOWAIT | bindings::__GFP_NOWARN))
    }

    /// Frees pages, but for `most` and those that were to be there from the beginning.
    pub fn shrink(&mut self, most: usize) {
        while self.pages.len() > most.max(self.least) {
            self.pages.pop();
        }
    }

    /// Gives a page back. Any context.
    #[inline]
    pub fn give(&mut self, page: BouncePage) {
        if self.pages.len() < self.most {
            // There is room for as many, so this cannot fail; the page would be freed if it did.
            let _ = self.pages.push_within_capacity(page);
        }
    }
}
