// SPDX-License-Identifier: GPL-2.0

//! Frames that other domains grant, mapped.

use super::Access;
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Most frames that are mapped or unmapped by one hypercall.
const BATCH: usize = 64;

/// Why frames could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// There is no memory for it.
    NoMemory,
    /// This domain has as many frames mapped as Xen lets it (`gnttab_max_maptrack_frames`): it can
    /// be tried again once something has been unmapped.
    NoSpace,
    /// Xen refuses to map this reference, with one of its status codes.
    Refused {
        /// The reference.
        gref: u32,
        /// The status, one of `GNTST_*`.
        status: i16,
    },
}

/// A frame of another domain that is mapped at a page of this one.
///
/// To be given back to a [`Mapper`], which unmaps many at once. Dropped, it is unmapped by itself,
/// which may sleep.
///
/// # Invariants
///
/// `page` is from `gnttab_alloc_pages` and this value's alone; the frame is mapped at it, and `handle`
/// is what Xen calls that.
pub struct Mapping {
    page: NonNull<bindings::page>,
    handle: bindings::grant_handle_t,
    gref: u32,
}

// SAFETY: A mapping can be used and ended by any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// The reference by which it was mapped.
    #[inline]
    pub fn gref(&self) -> u32 {
        self.gref
    }

    #[inline]
    pub(crate) fn page(&self) -> *mut bindings::page {
        self.page.as_ptr()
    }

    /// Whether somebody else still has a reference to the page: a network disk may be sending it once
    /// more although it has been told that it arrived. It must not be unmapped before that is done.
    #[inline]
    pub fn is_shared(&self) -> bool {
        // SAFETY: The page is valid by the type invariant.
        unsafe { bindings::xen_page_is_shared(self.page.as_ptr()) }
    }

    fn unmap_op(&self) -> bindings::gnttab_unmap_grant_ref {
        let mut op = bindings::gnttab_unmap_grant_ref::default();
        // SAFETY: The page is valid by the type invariant.
        unsafe {
            bindings::xen_set_unmap_op(
                &mut op,
                self.page.as_ptr(),
                bindings::GNTMAP_host_map,
                self.handle,
            )
        };
        op
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let mut op = self.unmap_op();
        let mut page = self.page.as_ptr();
        let mut item = bindings::gntab_unmap_queue_data {
            unmap_ops: &mut op,
            pages: &mut page,
            count: 1,
            ..Default::default()
        };
        // SAFETY: The frame is mapped by the type invariant, and nobody unmaps it but this. The call
        // waits until that is done.
        let result = to_result(unsafe { bindings::gnttab_unmap_refs_sync(&mut item) });
        if result.is_ok() {
            // SAFETY: The page is this value's, and nothing is mapped at it any more.
            unsafe { bindings::gnttab_free_pages(1, &mut page) };
        }
        // Otherwise the frame may still be mapped, and the page must not be used for anything.
    }
}

/// Maps and unmaps frames of one domain, and keeps pages to map them at.
///
/// # Invariants
///
/// `spare` are pages from `gnttab_alloc_pages` that belong to this value and at which nothing is
/// mapped.
pub struct Mapper {
    domain: u16,
    spare: KVec<NonNull<bindings::page>>,
    map_ops: KVec<bindings::gnttab_map_grant_ref>,
    unmap_ops: KVec<bindings::gnttab_unmap_grant_ref>,
    pages: KVec<*mut bindings::page>,
}

// SAFETY: Pages and operations can be used by any thread that has this value.
unsafe impl Send for Mapper {}

impl Mapper {
    /// Makes one for frames of `domain`, without any page yet. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(domain: u16) -> Result<Self> {
        Ok(Self {
            domain,
            spare: KVec::new(),
            map_ops: KVec::with_capacity(BATCH, GFP_KERNEL)?,
            unmap_ops: KVec::with_capacity(BATCH, GFP_KERNEL)?,
            pages: KVec::with_capacity(BATCH, GFP_KERNEL)?,
        })
    }

    /// How many pages it keeps.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Gives pages back to the kernel, but for `most`. Process context.
    pub fn shrink(&mut self, most: usize) {
        while self.spare.len() > most {
            self.pages.clear();
            while self.spare.len() > most && self.pages.len() < BATCH {
                let Some(page) = self.spare.pop() else { break };
                // There is room for `BATCH`.
                let _ = self.pages.push_within_capacity(page.as_ptr());
            }
            // SAFETY: The pages are this value's, and nothing is mapped at them, by the invariant.
            // CAST: At most `BATCH`.
            unsafe {
                bindings::gnttab_free_pages(self.pages.len() as c_int, self.pages.as_mut_ptr())
            };
        }
    }

    fn take_page(&mut self) -> Result<NonNull<bindings::page>, MapError> {
        if let Some(page) = self.spare.pop() {
            return Ok(page);
        }
        let mut page = core::ptr::null_mut();
        // SAFETY: There is room for one page.
        to_result(unsafe { bindings::gnttab_alloc_pages(1, &mut page) })
            .map_err(|_| MapError::NoMemory)?;
        NonNull::new(page).ok_or(MapError::NoMemory)
    }

    /// Takes a page back at which nothing is mapped.
    fn give_page(&mut self, page: NonNull<bindings::page>) {
        // INVARIANT: The caller has made sure that nothing is mapped at it.
        if self.spare.push(page, GFP_KERNEL).is_err() {
            let mut page = page.as_ptr();
            // SAFETY: The page is this value's, and nothing is mapped at it.
            unsafe { bindings::gnttab_free_pages(1, &mut page) };
        }
    }

    /// Maps the frames of all these references, in this order, and adds them to `mappings`. Process
    /// context; a frame that its domain has paged out is waited for, half a minute at most.
    ///
    /// # Errors
    ///
    /// Then none of them is mapped.
    pub fn map(
        &mut self,
        grefs: impl IntoIterator<Item = u32>,
        access: Access,
        mappings: &mut KVec<Mapping>,
    ) -> Result<(), MapError> {
        let before = mappings.len();
        let mut grefs = grefs.into_iter().peekable();
        while grefs.peek().is_some() {
            if let Err(error) = self.map_batch(&mut grefs, access, mappings) {
                self.unmap_from(mappings, before);
                return Err(error);
            }
        }
        Ok(())
    }

    fn map_batch(
        &mut self,
        grefs: &mut impl Iterator<Item = u32>,
        access: Access,
        mappings: &mut KVec<Mapping>,
    ) -> Result<(), MapError> {
        let flags = match access {
            Access::ReadOnly => bindings::GNTMAP_host_map | bindings::GNTMAP_readonly,
            Access::ReadWrite => bindings::GNTMAP_host_map,
        };
        self.map_ops.clear();
        self.pages.clear();
        let mut result = Ok(());
        for gref in grefs.take(BATCH) {
            let page = match self.take_page() {
                Ok(page) => page,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let mut op = bindings::gnttab_map_grant_ref::default();
            // SAFETY: The page is valid.
            unsafe { bindings::xen_set_map_op(&mut op, page.as_ptr(), flags, gref, self.domain) };
            // There is room for `BATCH` of both.
            let _ = self.map_ops.push_within_capacity(op);
            let _ = self.pages.push_within_capacity(page.as_ptr());
        }
        // What is mapped must find a place.
        if mappings.reserve(self.pages.len(), GFP_KERNEL).is_err() {
            result = Err(MapError::NoMemory);
        }
        if result.is_ok() {
            // The result says no more than the statuses, which are an error from the start.
            // SAFETY: The operations and pages are valid, and nothing is mapped at the pages.
            let _ = unsafe {
                bindings::gnttab_map_refs(
                    self.map_ops.as_mut_ptr(),
                    core::ptr::null_mut(),
                    self.pages.as_mut_ptr(),
                    // CAST: At most `BATCH`.
                    self.pages.len() as c_uint,
                )
            };
        }
        for index in 0..self.pages.len() {
            let (Some(op), Some(page)) = (self.map_ops.get(index), self.pages.get(index)) else {
                break;
            };
            let (status, handle, gref) = (op.status, op.handle, op.ref_);
            let Some(page) = NonNull::new(*page) else {
                continue;
            };
            if result.is_ok() || status == super::OKAY {
                if status == super::OKAY {
                    // INVARIANT: Xen has just mapped the frame at the page.
                    let _ = mappings.push_within_capacity(Mapping { page, handle, gref });
                    continue;
                }
                result = Err(match status {
                    super::NO_SPACE | super::NO_DEVICE_SPACE => MapError::NoSpace,
                    _ => MapError::Refused { gref, status },
                });
            }
            self.give_page(page);
        }
        result
    }

    /// Unmaps all these frames. Process context. A page that [`is_shared`](Mapping::is_shared) is
    /// waited for.
    pub fn unmap(&mut self, mappings: &mut KVec<Mapping>) {
        self.unmap_from(mappings, 0);
    }

    fn unmap_from(&mut self, mappings: &mut KVec<Mapping>, keep: usize) {
        while mappings.len() > keep {
            self.unmap_ops.clear();
            self.pages.clear();
            while mappings.len() > keep && self.pages.len() < BATCH {
                let Some(mapping) = mappings.pop() else { break };
                if mapping.is_shared() {
                    // The slow way, which waits.
                    drop(mapping);
                    continue;
                }
                let mapping = core::mem::ManuallyDrop::new(mapping);
                // There is room for `BATCH` of both.
                let _ = self.unmap_ops.push_within_capacity(mapping.unmap_op());
                let _ = self.pages.push_within_capacity(mapping.page.as_ptr());
            }
            // SAFETY: The frames are mapped at these pages by the invariant of `Mapping`, and nobody
            // else unmaps them since they were taken apart here.
            let result = to_result(unsafe {
                bindings::gnttab_unmap_refs(
                    self.unmap_ops.as_mut_ptr(),
                    core::ptr::null_mut(),
                    self.pages.as_mut_ptr(),
                    // CAST: At most `BATCH`.
                    self.pages.len() as c_uint,
                )
            });
            if result.is_err() {
                // Xen does not refuse this. If it did, the frames could still be mapped, and these
                // pages must not be used for anything.
                continue;
            }
            for index in 0..self.pages.len() {
                if let Some(page) = self.pages.get(index).copied().and_then(NonNull::new) {
                    self.give_page(page);
                }
            }
        }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.shrink(0);
    }
}
