// SPDX-License-Identifier: GPL-2.0

//! Requests.

use super::Operations;
use crate::{
    bindings,
    blk::{
        fitting,
        Joined,
        Piece,
        Window, //
    },
    compat,
    grant::{
        BouncePage,
        Frame,
        WritableFrame, //
    },
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Read data.
    Read,
    /// Write data. `fua`: it must be on the medium when the request ends.
    Write {
        /// Force unit access.
        fua: bool,
    },
    /// Everything that requests have written which ended before this one began must be on the medium
    /// when it ends.
    Flush,
    /// Forget what is in the request's range. `secure`: so that nobody can find it again.
    Discard {
        /// Secure erase.
        secure: bool,
    },
    /// Anything else, which the driver has not offered.
    Other,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Okay,
    /// Failed, or it is not known what became of it.
    IoError,
    /// The device does not do this.
    NotSupported,
}

impl Status {
    fn into_raw(self) -> bindings::blk_status_t {
        match self {
            // CAST: It is 0.
            Self::Okay => bindings::BLK_STS_OK as bindings::blk_status_t,
            Self::IoError => bindings::BLK_STS_IOERR,
            Self::NotSupported => bindings::BLK_STS_NOTSUPP,
        }
    }
}

/// What lies behind each `struct request`.
#[repr(C)]
pub(super) struct Pdu<T: Operations> {
    pub(super) status: bindings::blk_status_t,
    pub(super) data: T::RequestData,
}

impl<T: Operations> Default for Pdu<T> {
    fn default() -> Self {
        Self {
            status: Status::IoError.into_raw(),
            data: T::RequestData::default(),
        }
    }
}

impl<T: Operations> Pdu<T> {
    /// # Safety
    ///
    /// `rq` must be a request of a tag set made for `T`.
    #[inline]
    pub(super) unsafe fn of(rq: *mut bindings::request) -> *mut Self {
        // SAFETY: The room for it follows the request.
        unsafe { rq.add(1) }.cast()
    }
}

/// A request that the driver has begun and not yet given back.
///
/// | the request is … | by …                                       | and then belongs to … |
/// |------------------|--------------------------------------------|-----------------------|
/// | begun            | [`Operations::queue_rq`]                   | the driver            |
/// | ended            | [`end`](Self::end), dropping it            | the block layer       |
/// | completed        | [`complete`](Self::complete)               | the block layer       |
/// | requeued         | [`requeue`](Self::requeue)                 | the block layer       |
/// | given back       | [`Err`] from [`Operations::queue_rq`]      | the block layer       |
///
/// # Invariants
///
/// The request was made with `T`'s tag set, is started, and nobody else ends it.
pub struct Request<T: Operations> {
    rq: NonNull<bindings::request>,
    _operations: PhantomData<T::RequestData>,
}

// SAFETY: The owner of a request may give it back from any thread, and its data is `Send`.
unsafe impl<T: Operations> Send for Request<T> {}

impl<T: Operations> Request<T> {
    /// # Safety
    ///
    /// `rq` must be as the type invariant says, and not be NULL.
    #[inline]
    pub(super) unsafe fn from_raw(rq: *mut bindings::request) -> Self {
        // INVARIANT: By this function's requirements.
        Self {
            // SAFETY: By this function's requirements.
            rq: unsafe { NonNull::new_unchecked(rq) },
            _operations: PhantomData,
        }
    }

    /// Gives up the ownership without ending the request.
    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::request {
        ManuallyDrop::new(self).rq.as_ptr()
    }

    /// What it wants done.
    #[inline]
    pub fn op(&self) -> Op {
        // SAFETY: The request is valid by the type invariant.
        let flags = unsafe { (*self.rq.as_ptr()).cmd_flags };
        match flags & REQ_OP_MASK {
            bindings::req_op_REQ_OP_READ => Op::Read,
            bindings::req_op_REQ_OP_WRITE => Op::Write {
                fua: flags & bindings::REQ_FUA != 0,
            },
            bindings::req_op_REQ_OP_FLUSH => Op::Flush,
            bindings::req_op_REQ_OP_DISCARD => Op::Discard { secure: false },
            bindings::req_op_REQ_OP_SECURE_ERASE => Op::Discard { secure: true },
            _ => Op::Other,
        }
    }

    /// Where on the disk it starts, in units of 512 bytes.
    #[inline]
    pub fn sector(&self) -> u64 {
        // SAFETY: The request is valid by the type invariant.
        unsafe { (*self.rq.as_ptr()).__sector }
    }

    /// How long its range on the disk is, in bytes.
    #[inline]
    pub fn bytes(&self) -> u32 {
        // SAFETY: The request is valid by the type invariant.
        unsafe { (*self.rq.as_ptr()).__data_len }
    }

    /// How many pieces of memory it has at most.
    #[inline]
    pub fn segments(&self) -> usize {
        // SAFETY: The request is valid by the type invariant.
        unsafe { (*self.rq.as_ptr()).nr_phys_segments }.into()
    }

    /// The number that tells it from all other requests in flight on its hardware queue, less than
    /// the tag set's depth.
    #[inline]
    pub fn tag(&self) -> usize {
        // SAFETY: The request is valid by the type invariant.
        let tag = unsafe { (*self.rq.as_ptr()).tag };
        // The block layer gives each request a tag before it hands it to a driver; were there none,
        // the value here would be one that no table has a place for.
        usize::try_from(tag).unwrap_or(usize::MAX)
    }

    /// The driver's data of the request.
    #[inline]
    pub fn data(&self) -> &T::RequestData {
        // SAFETY: The data is initialised since the tag set was made, and the owner of the request
        // is the only one to use it.
        unsafe { &(*Pdu::<T>::of(self.rq.as_ptr())).data }
    }

    /// The driver's data of the request, to be changed.
    #[inline]
    pub fn data_mut(&mut self) -> &mut T::RequestData {
        // SAFETY: As in `data`.
        unsafe { &mut (*Pdu::<T>::of(self.rq.as_ptr())).data }
    }

    /// Whether [`mark_prepared`](Self::mark_prepared) was called since the block layer made the
    /// request: then what the driver's data says is of this request, not of an earlier one.
    #[inline]
    pub fn is_prepared(&self) -> bool {
        // SAFETY: The request is valid by the type invariant.
        unsafe { (*self.rq.as_ptr()).rq_flags & bindings::RQF_DONTPREP != 0 }
    }

    /// Keeps the request as it is, together with the driver's data, when it is
    /// [requeued](Self::requeue).
    #[inline]
    pub fn mark_prepared(&mut self) {
        // SAFETY: The request is valid by the type invariant, and its owner may set this flag.
        unsafe { (*self.rq.as_ptr()).rq_flags |= bindings::RQF_DONTPREP };
    }

    /// The memory that it reads into or writes from, from its byte `skip` on, and at most `length`
    /// bytes of it. At most as many pieces as [`segments`](Self::segments) says, if the disk's are of
    /// 4 KiB.
    #[inline]
    pub fn memory(&self, skip: u32, length: u32) -> impl Iterator<Item = Memory<'_>> {
        let is_read = self.op() == Op::Read;
        Window::new(self.pieces(), skip, length).map(move |piece| Memory {
            piece,
            is_read,
            _request: PhantomData,
        })
    }

    /// How many bytes from its byte `skip` on go into a message for `most` pieces, if that must be a
    /// multiple of `unit` bytes. 0 if not even one unit does.
    pub fn fitting(&self, skip: u32, most: usize, unit: u32) -> u32 {
        fitting(Window::new(self.pieces(), skip, u32::MAX), most, unit)
    }

    #[inline]
    fn pieces(&self) -> Joined<Pieces<'_>> {
        // Others have no memory, although they may be as long as if they had.
        let bio = match self.op() {
            // SAFETY: The request is valid by the type invariant.
            Op::Read | Op::Write { .. } => unsafe { (*self.rq.as_ptr()).bio },
            Op::Flush | Op::Discard { .. } | Op::Other => core::ptr::null_mut(),
        };
        let remaining = match NonNull::new(bio) {
            // SAFETY: The request holds its bios until it ends.
            Some(bio) => unsafe { bio.as_ref() }.bi_iter,
            None => Default::default(),
        };
        Joined::new(Pieces {
            bio,
            remaining,
            _request: PhantomData,
        })
    }

    /// Ends the request here and now. Any context, but not with a lock held that a driver takes in
    /// [`Operations::queue_rq`]: whoever waited for the request may begin the next one.
    pub fn end(self, status: Status) {
        let rq = self.into_raw();
        // SAFETY: The request is valid and this was the only owner, by the type invariant.
        unsafe { bindings::blk_mq_end_request(rq, status.into_raw()) };
    }

    /// Ends the request where the block layer wants it, on the processor that began it if that is
    /// better. For interrupt handlers. Locks as for [`end`](Self::end).
    #[inline]
    pub fn complete(self, status: Status) {
        let rq = self.into_raw();
        // SAFETY: The request is valid and this was the only owner, by the type invariant.
        // `complete_callback` reads the status and ends the request.
        unsafe {
            (*Pdu::<T>::of(rq)).status = status.into_raw();
            bindings::blk_mq_complete_request(rq);
        }
    }

    /// Has the block layer hand the request to the driver once more, from the beginning. Any
    /// context; locks as for [`end`](Self::end).
    pub fn requeue(self) {
        let rq = self.into_raw();
        // SAFETY: The request is valid, started, and this was the only owner, by the type invariant.
        unsafe { bindings::blk_mq_requeue_request(rq, true) };
    }
}

impl<T: Operations> Drop for Request<T> {
    fn drop(&mut self) {
        // Nobody knows what became of it. The waiter must not wait for ever.
        // SAFETY: As in `end`.
        unsafe { bindings::blk_mq_end_request(self.rq.as_ptr(), Status::IoError.into_raw()) };
    }
}

const REQ_OP_MASK: u32 = (1 << bindings::REQ_OP_BITS) - 1;

/// A piece of a request's memory.
///
/// # Invariants
///
/// The piece is memory that a request in flight reads into, if `is_read`, or writes from.
pub struct Memory<'a> {
    piece: Piece,
    is_read: bool,
    _request: PhantomData<&'a ()>,
}

impl Memory<'_> {
    /// Where in its frame it starts, in bytes.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.piece.offset
    }

    /// How long it is, in bytes.
    #[inline]
    pub fn length(&self) -> u32 {
        self.piece.length
    }

    /// The memory as something that may be granted, unless its page cannot be held by a reference:
    /// slabs are used again whoever still has them mapped.
    #[inline]
    pub fn held(&self) -> Option<Held<'_>> {
        // SAFETY: The frame is one of the kernel's by the type invariant.
        unsafe { bindings::xen_frame_can_be_held(self.piece.frame) }.then_some(Held {
            frame: self.piece.frame,
            _memory: PhantomData,
        })
    }

    /// Copies it into a page, at the same place within the page.
    #[inline]
    pub fn copy_to(&self, page: &mut BouncePage) {
        let Piece {
            frame,
            offset,
            length,
        } = self.piece;
        // SAFETY: Both are memory of a frame's size, which the piece does not leave, by the type
        // invariant.
        unsafe { bindings::xen_copy_frame(page.frame(), frame, offset, length) };
    }

    /// Copies it out of a page, from the same place within the page. Nothing happens if the request
    /// is no read.
    #[inline]
    pub fn copy_from(&self, page: &BouncePage) {
        if !self.is_read {
            return;
        }
        let Piece {
            frame,
            offset,
            length,
        } = self.piece;
        // SAFETY: As in `copy_to`. By the type invariant the request reads into its memory, so it may be
        // written.
        unsafe { bindings::xen_copy_frame(frame, page.frame(), offset, length) };
    }
}

/// A frame of a request's memory that may be granted. Made by [`Memory::held`].
pub struct Held<'a> {
    frame: usize,
    _memory: PhantomData<&'a ()>,
}

// SAFETY: The frame has memory of a request in flight, which its owner has given for reading or
// writing until the request ends. `Memory::held` has checked the page.
unsafe impl Frame for Held<'_> {
    #[inline]
    fn frame(&self) -> usize {
        self.frame
    }
}

// SAFETY: As above.
unsafe impl WritableFrame for Held<'_> {}

/// The memory of a request, frame by frame.
struct Pieces<'a> {
    bio: *mut bindings::bio,
    remaining: bindings::bvec_iter,
    _request: PhantomData<&'a ()>,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        // CAST: 4096.
        const FRAME_SIZE: u32 = bindings::XEN_PAGE_SIZE as u32;

        while self.remaining.bi_size == 0 {
            // SAFETY: The request holds its bios, which are linked, until it ends; the iterator
            // borrows it.
            self.bio = unsafe { self.bio.as_ref() }?.bi_next;
            // SAFETY: As above.
            self.remaining = unsafe { self.bio.as_ref() }?.bi_iter;
        }
        // SAFETY: As above. Something remains of this bio, so its table has an entry at the index,
        // and that has more than is done of it.
        let vec = unsafe { &*(*self.bio).bi_io_vec.add(self.remaining.bi_idx as usize) };
        let done = compat::offset(&self.remaining);
        let start = vec.bv_offset.wrapping_add(done);
        // SAFETY: The page is valid, and what belongs to the entry follows it frame by frame.
        let first = unsafe { bindings::xen_page_to_pfn(vec.bv_page) };
        let offset = start % FRAME_SIZE;
        let length = vec
            .bv_len
            .wrapping_sub(done)
            .min(self.remaining.bi_size)
            .min(FRAME_SIZE - offset);

        if length == 0 {
            // No bio has an empty entry; were there one, this must not go on for ever.
            return None;
        }
        self.remaining.bi_size -= length;
        if done.wrapping_add(length) == vec.bv_len {
            self.remaining.bi_idx += 1;
            compat::set_offset(&mut self.remaining, 0);
        } else {
            compat::set_offset(&mut self.remaining, done.wrapping_add(length));
        }
        Some(Piece {
            frame: first.wrapping_add((start / FRAME_SIZE) as usize),
            offset,
            length,
        })
    }
}
