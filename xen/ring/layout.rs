// SPDX-License-Identifier: GPL-2.0

//! Where the words and slots of a ring are in memory.

use super::{
    Entries,
    Index, //
};
use crate::memory;
use core::{
    marker::PhantomData,
    mem::{
        align_of,
        size_of, //
    },
    ptr::NonNull, //
};

/// What is spoken on a ring.
///
/// # Safety
///
/// - `Request` and `Response` accept every bit pattern and have no padding.
/// - Their sizes are at most [`SLOT_SIZE`](Self::SLOT_SIZE), their alignments at most 8, and
///   `SLOT_SIZE` is a multiple of both alignments.
pub unsafe trait Protocol {
    /// What the frontend sends.
    type Request: Copy;

    /// What the backend answers.
    type Response: Copy;

    /// Bytes from one slot to the next.
    const SLOT_SIZE: usize;

    /// Evaluated whenever a ring of the protocol is made.
    const CHECK: () = {
        assert!(size_of::<Self::Request>() <= Self::SLOT_SIZE);
        assert!(size_of::<Self::Response>() <= Self::SLOT_SIZE);
        assert!(align_of::<Self::Request>() <= 8 && align_of::<Self::Response>() <= 8);
        assert!(Self::SLOT_SIZE % align_of::<Self::Request>() == 0);
        assert!(Self::SLOT_SIZE % align_of::<Self::Response>() == 0);
    };
}

/// Owner of the memory of a ring: pages granted to a backend, pages mapped from a frontend.
///
/// # Safety
///
/// [`base`](Self::base) is aligned to 64 bytes, always the same, and valid for reads and writes of
/// [`bytes`](Self::bytes) bytes as long as the owner lives, even if the owner is moved.
pub unsafe trait Memory {
    /// Start of the ring.
    fn base(&self) -> NonNull<u8>;

    /// Its size.
    fn bytes(&self) -> usize;
}

/// Access to the words and slots of one ring.
///
/// # Invariants
///
/// Behind `memory.base()` there are the header and `entries` slots of `P`.
pub struct Layout<P, M> {
    entries: Entries,
    memory: M,
    _protocol: PhantomData<fn() -> P>,
}

const REQ_PROD: usize = 0;
const REQ_EVENT: usize = 4;
const RSP_PROD: usize = 8;
const RSP_EVENT: usize = 12;

impl<P: Protocol, M: Memory> Layout<P, M> {
    /// Lays a ring of `P` into `memory`; gives the memory back if it is too small for one slot.
    pub fn new(memory: M) -> Result<Self, M> {
        let () = P::CHECK;
        // INVARIANT: `Entries::of` counts no more slots than fit.
        match Entries::of(memory.bytes(), P::SLOT_SIZE) {
            Some(entries) => Ok(Self {
                entries,
                memory,
                _protocol: PhantomData,
            }),
            None => Err(memory),
        }
    }

    /// The owner of the memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Number of slots.
    #[inline]
    pub fn entries(&self) -> Entries {
        self.entries
    }

    #[inline]
    fn word(&self, offset: usize) -> *mut u32 {
        // SAFETY: The header lies within the memory by the type invariant.
        unsafe { self.memory.base().as_ptr().add(offset) }.cast()
    }

    #[inline]
    fn load(&self, offset: usize) -> Index {
        // SAFETY: `word` is in the header, aligned because the base is, and all accesses to the
        // header go through this type.
        Index::new(unsafe { memory::load(self.word(offset)) })
    }

    #[inline]
    fn store(&self, offset: usize, index: Index) {
        // SAFETY: As in `load`.
        unsafe { memory::store(self.word(offset), index.raw()) };
    }

    /// Index up to which requests are published.
    #[inline]
    pub(super) fn req_prod(&self) -> Index {
        self.load(REQ_PROD)
    }

    /// Publishes requests up to `index`. Frontend only.
    #[inline]
    pub(super) fn set_req_prod(&self, index: Index) {
        self.store(REQ_PROD, index);
    }

    /// Where the backend wants an event.
    #[inline]
    pub(super) fn req_event(&self) -> Index {
        self.load(REQ_EVENT)
    }

    /// Asks for an event when requests pass `index`. Backend only.
    #[inline]
    pub(super) fn set_req_event(&self, index: Index) {
        self.store(REQ_EVENT, index);
    }

    /// Index up to which responses are published.
    #[inline]
    pub(super) fn rsp_prod(&self) -> Index {
        self.load(RSP_PROD)
    }

    /// Publishes responses up to `index`. Backend only.
    #[inline]
    pub(super) fn set_rsp_prod(&self, index: Index) {
        self.store(RSP_PROD, index);
    }

    /// Where the frontend wants an event.
    #[inline]
    pub(super) fn rsp_event(&self) -> Index {
        self.load(RSP_EVENT)
    }

    /// Asks for an event when responses pass `index`. Frontend only.
    #[inline]
    pub(super) fn set_rsp_event(&self, index: Index) {
        self.store(RSP_EVENT, index);
    }

    #[inline]
    fn slot(&self, index: Index) -> *mut u8 {
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        let offset = Entries::HEADER + self.entries.slot(index) as usize * P::SLOT_SIZE;
        // SAFETY: `Entries::slot` is less than the number of slots, which fit by the invariant.
        unsafe { self.memory.base().as_ptr().add(offset) }
    }

    #[inline]
    pub(super) fn read_request(&self, index: Index) -> P::Request {
        // SAFETY: `slot` is within the memory; its alignment follows from that of the base (64) and
        // the requirements of `Protocol`, which also say that any bits are a valid request.
        unsafe { memory::copy_out(self.slot(index).cast::<P::Request>()) }
    }

    #[inline]
    pub(super) fn write_request(&self, index: Index, request: &P::Request) {
        // SAFETY: As in `read_request`; a request has no padding.
        unsafe { memory::copy_in(self.slot(index).cast::<P::Request>(), request) };
    }

    #[inline]
    pub(super) fn read_response(&self, index: Index) -> P::Response {
        // SAFETY: As in `read_request`.
        unsafe { memory::copy_out(self.slot(index).cast::<P::Response>()) }
    }

    #[inline]
    pub(super) fn write_response(&self, index: Index, response: &P::Response) {
        // SAFETY: As in `write_request`.
        unsafe { memory::copy_in(self.slot(index).cast::<P::Response>(), response) };
    }
}

// SAFETY: The memory may be used from any thread that has the owner; access to it takes place
// through `&self` as atomics or as copies that the halves of the ring order by `&mut self`.
unsafe impl<P, M: Send> Send for Layout<P, M> {}
