// SPDX-License-Identifier: GPL-2.0

//! Packets that programs want to be sent.

use crate::{
    bindings,
    grant::{
        BouncePage,
        Frame as _, //
    },
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

/// A packet that a program wants to be sent. Dropped, its memory goes back to where it is from.
///
/// # Invariants
///
/// It is valid, and belongs to this value.
pub struct Frame(NonNull<bindings::xdp_frame>);

// SAFETY: Frames can be given back by any thread.
unsafe impl Send for Frame {}

impl Frame {
    /// # Safety
    ///
    /// It must be valid, and belong to the caller.
    pub(super) unsafe fn new(raw: NonNull<bindings::xdp_frame>) -> Self {
        // INVARIANT: By this function's requirements.
        Self(raw)
    }

    /// Its bytes.
    #[inline]
    pub fn length(&self) -> u32 {
        // SAFETY: The frame is valid.
        unsafe { bindings::xen_xdp_frame_length(self.0.as_ptr()) }
    }

    /// Copies bytes from a position on to an offset of a page; [`false`] if the frame has not as many, or the
    /// page no room there.
    #[inline]
    #[must_use]
    pub fn copy_to(&self, position: u32, length: u32, page: &mut BouncePage, offset: u32) -> bool {
        let end = offset.checked_add(length);
        // CAST: A page is small.
        if end.is_none_or(|end| end > bindings::XEN_PAGE_SIZE as u32) {
            return false;
        }
        let (frame, to) = (self.0.as_ptr(), page.frame());
        // SAFETY: The frame and the page are valid, and the page has room.
        unsafe { bindings::xen_xdp_frame_copy(frame, position, to, offset, length) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: The frame is valid, and this value's.
        unsafe { bindings::xdp_return_frame(self.0.as_ptr()) };
    }
}

/// Packets that programs of other interfaces want to be sent by this one.
pub struct Frames<'a> {
    rest: &'a [*mut bindings::xdp_frame],
}

impl<'a> Frames<'a> {
    /// # Safety
    ///
    /// All must be valid. Those that are sent belong to this value, the others to the caller.
    pub(in crate::net) unsafe fn new(frames: &'a [*mut bindings::xdp_frame]) -> Self {
        Self { rest: frames }
    }

    /// Gives away one after the other, until `send` could not send one.
    pub fn send_each(&mut self, mut send: impl FnMut(&Frame) -> bool) {
        while let [first, rest @ ..] = self.rest {
            let Some(frame) = NonNull::new(*first) else {
                return;
            };
            // INVARIANT: It is valid, and this value's once it has been sent.
            let frame = ManuallyDrop::new(Frame(frame));
            if !send(&frame) {
                return;
            }
            self.rest = rest;
            drop(ManuallyDrop::into_inner(frame));
        }
    }

    /// How many have not been sent.
    pub(in crate::net) fn left(&self) -> usize {
        self.rest.len()
    }
}
