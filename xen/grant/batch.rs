// SPDX-License-Identifier: GPL-2.0

//! Copies to and from frames of another domain where nobody may sleep.

use crate::bindings;
use kernel::prelude::*;

/// Copies to be made by one hypercall, for one domain. Any context.
pub(crate) struct CopyBatch {
    domain: u16,
    ops: KVec<bindings::gnttab_copy>,
}

// SAFETY: The operations are plain numbers; `run` says who must see to the memory that they name.
unsafe impl Send for CopyBatch {}

impl CopyBatch {
    /// With room for `most` copies. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(domain: u16, most: usize) -> Result<Self> {
        Ok(Self {
            domain,
            ops: KVec::with_capacity(most, GFP_KERNEL)?,
        })
    }

    /// How many copies there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ops.len()
    }

    /// How many more there can be.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.ops.capacity() - self.ops.len()
    }

    /// Adds a copy from the frame of the other domain that `gref` names to one of this domain's; [`false`]
    /// if there is no room. Xen refuses what does not lie in its frame.
    #[inline]
    #[must_use]
    pub(crate) fn push_import(
        &mut self,
        (gref, from): (u32, u16),
        (pfn, to): (usize, u16),
        length: u16,
    ) -> bool {
        let mut op = bindings::gnttab_copy::default();
        // SAFETY: The operation is valid.
        unsafe { bindings::xen_set_import_op(&mut op, gref, self.domain, from, pfn, to, length) };
        self.ops.push_within_capacity(op).is_ok()
    }

    /// Adds a copy the other way. The frame may be one that a third domain grants and that is mapped.
    #[inline]
    #[must_use]
    pub(crate) fn push_export(
        &mut self,
        (pfn, from): (usize, u16),
        (gref, to): (u32, u16),
        length: u16,
    ) -> bool {
        let mut op = bindings::gnttab_copy::default();
        // SAFETY: The operation is valid.
        unsafe { bindings::xen_set_export_op(&mut op, pfn, from, gref, self.domain, to, length) };
        self.ops.push_within_capacity(op).is_ok()
    }

    /// Makes the copies. A copy of a frame that its domain has paged out is not made: it could be waited for
    /// only by sleeping.
    ///
    /// # Safety
    ///
    /// The frames of this domain that the copies name must be alive, and those that are copied to hold
    /// nothing but bytes which nobody has a reference to.
    #[inline]
    pub(crate) unsafe fn run(&mut self) {
        if self.ops.is_empty() {
            return;
        }
        // SAFETY: The operations are valid, and so is the memory that they name, by this function's
        // requirements.
        // CAST: There is room for a few hundred.
        unsafe { bindings::xen_copy_at_once(self.ops.as_mut_ptr(), self.ops.len() as c_uint) };
    }

    /// Whether each of the copies was made, in the order in which they were added.
    #[inline]
    pub(crate) fn results(&self) -> impl Iterator<Item = bool> + '_ {
        self.ops.iter().map(|op| op.status == super::OKAY)
    }

    /// Forgets them.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.ops.clear();
    }
}
