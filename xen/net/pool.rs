// SPDX-License-Identifier: GPL-2.0

//! Pages that go round: from the pool to a queue, into packets, and back.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

use super::{
    Napi,
    Poll,
    Polling, //
};
use crate::{
    bindings,
    grant::{
        Frame,
        WritableFrame, //
    },
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

/// A pool of pages for one queue.
///
/// # Invariants
///
/// `raw` is a page pool, which is destroyed with this value: the kernel keeps it until all of its pages
/// have come back.
pub struct PagePool<P: Poll> {
    raw: NonNull<bindings::page_pool>,
    // The pool looks at it to find out where a page is given back.
    napi: Arc<Napi<P>>,
}

// SAFETY: What is called here can be called by any thread.
unsafe impl<P: Poll> Send for PagePool<P> {}
// SAFETY: As above; `alloc` is called by the one only who polls.
unsafe impl<P: Poll> Sync for PagePool<P> {}

impl<P: Poll> PagePool<P> {
    /// Makes a pool for packets that `napi` receives, which keeps up to `pages` pages. It must not
    /// go as long as `napi` is enabled. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(napi: Arc<Napi<P>>, queue: u32, pages: u32) -> Result<Self> {
        // SAFETY: `napi` is valid, and lives as long as the pool.
        let raw = from_err_ptr(unsafe { bindings::xen_pool_create(napi.as_raw(), queue, pages) })?;
        // INVARIANT: It was just made.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            napi,
        })
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::page_pool {
        self.raw.as_ptr()
    }

    #[inline]
    pub(super) fn napi(&self) -> &Napi<P> {
        &self.napi
    }

    /// Whether it is for packets that `polling` brings.
    #[inline]
    pub(super) fn belongs_to(&self, polling: &Polling<'_, P>) -> bool {
        let polled: &Napi<P> = polling;
        core::ptr::eq(polled, &*self.napi)
    }

    /// Takes a page, zeroed unless it was used before; [`None`] also if `polling` is another one than the
    /// pool is for.
    #[inline]
    pub fn alloc(&self, polling: &Polling<'_, P>) -> Option<PoolPage> {
        if !self.belongs_to(polling) {
            return None;
        }
        // SAFETY: The pool is valid, and nobody else takes from it now: that takes being polled.
        let page = NonNull::new(unsafe { bindings::xen_pool_alloc(self.raw.as_ptr()) })?;
        // INVARIANT: It was just taken from a pool.
        Some(PoolPage { page })
    }
}

impl<P: Poll> Drop for PagePool<P> {
    fn drop(&mut self) {
        // SAFETY: The pool is valid, and no page is taken from it any more. Whoever is just giving one of
        // its pages back may have seen the NAPI, which is not freed before they have done so.
        unsafe {
            bindings::page_pool_destroy(self.raw.as_ptr());
            bindings::xen_net_synchronize();
        }
    }
}

/// A page of a [`PagePool`]. Dropped, it goes back there.
///
/// # Invariants
///
/// `page` is a page of a pool's, to which this value has a reference.
pub struct PoolPage {
    page: NonNull<bindings::page>,
}

// SAFETY: Pages can be used and given back by any thread.
unsafe impl Send for PoolPage {}

impl PoolPage {
    /// The page; the reference to it is the caller's now.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<bindings::page> {
        core::mem::ManuallyDrop::new(self).page
    }

    /// # Safety
    ///
    /// `page` must be from [`into_raw`](Self::into_raw), and the reference the caller's.
    #[inline]
    pub(super) unsafe fn from_raw(page: NonNull<bindings::page>) -> Self {
        // INVARIANT: By this function's requirements.
        Self { page }
    }
}

// SAFETY: The page is this value's alone, and an ordinary one.
unsafe impl Frame for PoolPage {
    #[inline]
    fn frame(&self) -> usize {
        // SAFETY: The page is valid by the type invariant.
        unsafe { bindings::xen_page_to_pfn(self.page.as_ptr()) }
    }
}

// SAFETY: As above.
unsafe impl WritableFrame for PoolPage {}

impl Drop for PoolPage {
    fn drop(&mut self) {
        // The page knows its pool, which the kernel keeps as long as one of its pages is away. If
        // somebody else has a reference, as a parked grant has, the page does not go back.
        // SAFETY: The page is a pool's, and the reference this value's, by the type invariant.
        unsafe { bindings::xen_pool_put(self.page.as_ptr()) };
    }
}
