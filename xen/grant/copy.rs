// SPDX-License-Identifier: GPL-2.0

//! Copies between frames that other domains grant and pages of this one, made by Xen.

use super::{
    BouncePage,
    Frame, //
};
use crate::bindings;
use kernel::prelude::*;

/// Most copies that are made by one hypercall.
const BATCH: usize = 64;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the frame of the other domain.
    FromGrant,
    /// To the frame of the other domain.
    ToGrant,
}

/// A copy of part of a frame to the same place of a page, or back.
pub struct Copy<'a> {
    /// The other domain's reference of the frame.
    pub gref: u32,
    /// The page.
    pub page: &'a BouncePage,
    /// Where in both it starts, in bytes.
    pub offset: u32,
    /// How long it is, in bytes.
    pub length: u32,
}

/// Why a copy was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyError {
    /// The reference of the frame.
    pub gref: u32,
    /// The status, one of `GNTST_*`.
    pub status: i16,
}

/// Makes copies for one domain.
pub struct Copier {
    domain: u16,
    ops: KVec<bindings::gnttab_copy>,
    grefs: KVec<u32>,
}

// SAFETY: The operations are plain numbers once they have been made.
unsafe impl Send for Copier {}

impl Copier {
    /// Makes one for frames of `domain`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(domain: u16) -> Result<Self> {
        Ok(Self {
            domain,
            ops: KVec::with_capacity(BATCH, GFP_KERNEL)?,
            grefs: KVec::with_capacity(BATCH, GFP_KERNEL)?,
        })
    }

    /// Makes copies. Process context; a frame that its domain has paged out is waited for, half a
    /// minute at most.
    ///
    /// # Errors
    ///
    /// The first that was not made; which others were is not known.
    pub fn copy<'a>(
        &mut self,
        direction: Direction,
        copies: impl IntoIterator<Item = Copy<'a>>,
    ) -> Result<(), CopyError> {
        let mut copies = copies.into_iter().peekable();
        while copies.peek().is_some() {
            self.ops.clear();
            self.grefs.clear();
            for copy in copies.by_ref().take(BATCH) {
                // There is room for `BATCH` of both.
                let _ = self.ops.push_within_capacity(self.op(direction, &copy));
                let _ = self.grefs.push_within_capacity(copy.gref);
            }
            // SAFETY: The operations are valid, and name memory of this domain that is alive: the
            // pages are borrowed. A page that a copy goes to is written by nobody else, since it
            // belongs to whoever has it borrowed, and it holds bytes only.
            // CAST: At most `BATCH`.
            unsafe { bindings::gnttab_batch_copy(self.ops.as_mut_ptr(), self.ops.len() as c_uint) };
            for (op, gref) in self.ops.iter().zip(&self.grefs) {
                if op.status != super::OKAY {
                    return Err(CopyError {
                        gref: *gref,
                        status: op.status,
                    });
                }
            }
        }
        Ok(())
    }

    fn op(&self, direction: Direction, copy: &Copy<'_>) -> bindings::gnttab_copy {
        let mut op = bindings::gnttab_copy::default();
        // SAFETY: The operation is valid, and so is the page.
        unsafe {
            bindings::xen_set_copy_op(
                &mut op,
                copy.gref,
                self.domain,
                copy.page.frame(),
                direction == Direction::ToGrant,
                // Both parts lie within a frame, or Xen would refuse them.
                // CAST: So do the numbers fit.
                copy.offset as u16,
                copy.length as u16,
            )
        };
        op
    }
}
