// SPDX-License-Identifier: GPL-2.0

//! Programs that users have packets seen by before the network stack does (XDP).
//!
//! A program sees packets that lie in pages of a page pool, in one piece or in several, with room in front and
//! behind for what it may want to add. It says what is to become of each: the network stack gets it, or it is
//! sent by the same interface or by another one, or dropped.
//!
//! C header: [`include/net/xdp.h`](srctree/include/net/xdp.h)

use super::{
    PagePool,
    Poll,
    Polling,
    PoolPage,
    Received,
    Rejected,
    Rtnl,
    RxPacket, //
};
use crate::{
    bindings,
    grant::{
        BouncePage,
        Frame as _, //
    },
};
use core::{
    cell::UnsafeCell,
    ffi::CStr,
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Bytes that are free in front of a packet that a program sees.
// CAST: 256.
pub const HEADROOM: u16 = bindings::XDP_PACKET_HEADROOM as u16;

/// Most pieces of a packet.
const MOST_PIECES: usize = 19;

/// Most bytes of one: lengths of packets are numbers of 16 bits in many places.
const MOST_BYTES: u32 = 65_535 + super::HEADER_LENGTH;

/// Bytes of a packet that a program sees in one piece.
pub fn room() -> u32 {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_xdp_room() }
}

/// A program, which cannot go as long as it is borrowed.
///
/// # Invariants
///
/// It is a valid program of the kernel's.
#[repr(transparent)]
pub struct Program(Opaque<bindings::bpf_prog>);

// SAFETY: Programs can be run and given back by any thread.
unsafe impl Send for Program {}
// SAFETY: As above.
unsafe impl Sync for Program {}

impl Program {
    /// # Safety
    ///
    /// `raw` must be NULL, or a program that stays valid for `'a`.
    unsafe fn from_raw<'a>(raw: *mut bindings::bpf_prog) -> Option<&'a Self> {
        // SAFETY: By this function's requirements; the type is transparent.
        unsafe { raw.cast::<Self>().as_ref() }
    }

    /// Whether it can do with packets that lie in several pieces.
    pub fn has_frags(&self) -> bool {
        // SAFETY: The program is valid by the type invariant.
        unsafe { bindings::xen_xdp_has_frags(self.0.get()) }
    }
}

/// Why an interface cannot run a program.
pub struct Refusal {
    /// What the caller is told.
    pub errno: Error,
    /// What users are told.
    pub message: &'static CStr,
}

/// The place of an interface's program.
///
/// # Invariants
///
/// `raw` is NULL, or a program to which this value has a reference.
pub struct ProgramSlot {
    raw: UnsafeCell<*mut bindings::bpf_prog>,
}

// SAFETY: The pointer is read and exchanged as a whole; programs can be used by any thread.
unsafe impl Send for ProgramSlot {}
// SAFETY: As above.
unsafe impl Sync for ProgramSlot {}

impl ProgramSlot {
    /// Without a program.
    pub const fn new() -> Self {
        Self {
            raw: UnsafeCell::new(null_mut()),
        }
    }

    fn load(&self) -> *mut bindings::bpf_prog {
        // SAFETY: The pointer to the field is valid.
        unsafe { bindings::xen_xdp_program(self.raw.get()) }
    }

    /// Whether there is a program just now. Any context.
    #[inline]
    pub fn is_set(&self) -> bool {
        !self.load().is_null()
    }

    /// The program, as long as it cannot be exchanged.
    pub fn get<'a>(&'a self, _rtnl: &'a Rtnl) -> Option<&'a Program> {
        // SAFETY: The slot has a reference, and is changed only with the lock of rtnl held.
        unsafe { Program::from_raw(self.load()) }
    }

    /// The program, for packets that are just being polled. It stays the same for this batch.
    #[inline]
    pub fn polled<'a, P: Poll>(&'a self, _polling: &'a Polling<'_, P>) -> Option<&'a Program> {
        // SAFETY: A program is freed when all have left softirqs that could see it, and polling takes place
        // in one.
        unsafe { Program::from_raw(self.load()) }
    }

    /// # Safety
    ///
    /// `raw` must be NULL, or a program to which the caller gives a reference away.
    unsafe fn set(&self, raw: *mut bindings::bpf_prog) {
        // INVARIANT: The reference is this value's now.
        // SAFETY: The pointer to the field is valid.
        let old = unsafe { bindings::xen_xdp_exchange(self.raw.get(), raw) };
        if !old.is_null() {
            // SAFETY: The reference was this value's. The program is freed when nobody runs it any more.
            unsafe { bindings::bpf_prog_put(old) };
        }
    }
}

impl Default for ProgramSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProgramSlot {
    fn drop(&mut self) {
        // SAFETY: There is no program.
        unsafe { self.set(null_mut()) };
    }
}

/// Another program that an interface is to run, or none.
///
/// # Invariants
///
/// `raw` is NULL, or a program that is valid for `'a`, to which the caller of the driver has a reference that
/// the driver gets if it takes the program.
pub struct Offer<'a> {
    raw: *mut bindings::bpf_prog,
    _program: PhantomData<&'a Program>,
}

impl Offer<'_> {
    /// The program.
    pub fn program(&self) -> Option<&Program> {
        // SAFETY: It is valid by the type invariant.
        unsafe { Program::from_raw(self.raw) }
    }

    /// Puts it in the place of the one that was there. From now on packets are seen by it.
    pub fn take(self, slot: &ProgramSlot, _rtnl: &Rtnl) {
        // SAFETY: The caller of the driver does not want its reference back, since this value is not there
        // any more, see `setup`.
        unsafe { slot.set(self.raw) };
    }
}

/// Has a driver look at another program.
///
/// # Safety
///
/// `command` must be valid, and what the kernel hands over to a driver with the lock of rtnl held.
pub(super) unsafe fn setup(
    command: *mut bindings::netdev_bpf,
    set: impl FnOnce(Offer<'_>, &Rtnl) -> Result<(), Refusal>,
) -> Result {
    let mut raw = null_mut();
    // SAFETY: The command is valid.
    if !unsafe { bindings::xen_xdp_wants_program(command, &mut raw) } {
        return Err(EINVAL);
    }
    // INVARIANT: The caller has a reference, which it keeps if this returns an error.
    let offer = Offer {
        raw,
        _program: PhantomData,
    };
    set(offer, &Rtnl::held()).map_err(|refusal| {
        // SAFETY: The command is valid, and the text is static.
        unsafe { bindings::xen_xdp_refuse(command, refusal.message.as_char_ptr()) };
        refusal.errno
    })
}

/// The receiving side of a queue, as programs and those know it to whom they send packets: with the pool that
/// all of its pages are from.
///
/// # Invariants
///
/// `info` is registered, for `pool`.
#[pin_data(PinnedDrop)]
pub struct RxQueue<P: Poll> {
    #[pin]
    info: Opaque<bindings::xdp_rxq_info>,
    pool: PagePool<P>,
}

// SAFETY: What is called here can be called by any thread.
unsafe impl<P: Poll> Send for RxQueue<P> {}
// SAFETY: As above.
unsafe impl<P: Poll> Sync for RxQueue<P> {}

impl<P: Poll> RxQueue<P> {
    /// For queue `index` of an interface. Its last reference must be dropped in process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(pool: PagePool<P>, index: u32) -> Result<Arc<Self>> {
        let napi = pool.napi().as_raw();
        let raw = pool.as_raw();
        Arc::pin_init(
            try_pin_init!(Self {
                info <- Opaque::try_ffi_init(|slot: *mut bindings::xdp_rxq_info| {
                    // SAFETY: The slot is valid, and all zeroes is what a new one is. The NAPI was added to
                    // its interface, and lives as long as the pool, which lives longer than the slot.
                    to_result(unsafe {
                        slot.write_bytes(0, 1);
                        bindings::xen_xdp_register(slot, napi, index, raw)
                    })
                }),
                pool,
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Takes a page, zeroed unless it was used before.
    #[inline]
    pub fn alloc(&self, polling: &Polling<'_, P>) -> Option<PoolPage> {
        self.pool.alloc(polling)
    }
}

#[pinned_drop]
impl<P: Poll> PinnedDrop for RxQueue<P> {
    fn drop(self: Pin<&mut Self>) {
        // The pool is dropped after that.
        // SAFETY: It is registered by the type invariant.
        unsafe { bindings::xdp_rxq_info_unreg(self.info.get()) };
    }
}

/// What has become of a packet.
pub enum Action {
    /// The network stack has it.
    Passed,
    /// It is to be sent by the same interface.
    Send(Frame),
    /// Another interface, or a program, has it.
    Redirected,
    /// It was dropped.
    Dropped,
    /// It was dropped because the program wanted something that cannot be, or failed.
    Aborted,
}

impl From<bindings::xen_xdp_outcome> for Action {
    fn from(outcome: bindings::xen_xdp_outcome) -> Self {
        match (outcome.action, NonNull::new(outcome.frame)) {
            // INVARIANT: The frame is the caller's.
            (bindings::xdp_action_XDP_TX, Some(frame)) => Self::Send(Frame(frame)),
            (bindings::xdp_action_XDP_PASS, _) => Self::Passed,
            (bindings::xdp_action_XDP_REDIRECT, _) => Self::Redirected,
            (bindings::xdp_action_XDP_DROP, _) => Self::Dropped,
            _ => Self::Aborted,
        }
    }
}

/// Runs a program, if there is one, on packets that a queue has received.
pub struct Runner<'a, P: Poll> {
    program: Option<&'a Program>,
    queue: &'a RxQueue<P>,
    polling: &'a Polling<'a, P>,
}

impl<'a, P: Poll> Runner<'a, P> {
    /// For packets that `polling` has brought, with pages of `queue`; [`None`] if that is another one's.
    pub fn new(
        program: Option<&'a Program>,
        queue: &'a RxQueue<P>,
        polling: &'a Polling<'a, P>,
    ) -> Option<Self> {
        queue.pool.belongs_to(polling).then_some(Self {
            program,
            queue,
            polling,
        })
    }

    fn program(&self) -> *mut bindings::bpf_prog {
        self.program.map_or(null_mut(), |program| program.0.get())
    }

    /// On a packet of one piece, which is the part of a page from `offset` on, `length` bytes, no more than
    /// there is [`room`] for. Nobody else writes to the page.
    ///
    /// # Errors
    ///
    /// It is not as long as that, or its checksum is to be made, and it has none.
    pub fn run_page(
        &self,
        page: PoolPage,
        offset: u32,
        length: u32,
        received: &Received,
    ) -> Result<Action, Rejected> {
        let end = offset.checked_add(length);
        // CAST: A page is small.
        let is_within = end.is_some_and(|end| end <= bindings::XEN_PAGE_SIZE as u32);
        if !is_within || length > room() || length < super::HEADER_LENGTH {
            return Err(Rejected(EINVAL));
        }
        let mut outcome = bindings::xen_xdp_outcome::default();
        // SAFETY: All are valid; the page is a whole one of the queue's pool, whose reference is given up,
        // and the packet lies in it and is no longer than the room that there is for one.
        to_result(unsafe {
            bindings::xen_xdp_run_page(
                self.program(),
                self.queue.info.get(),
                self.polling.as_raw(),
                page.into_raw().as_ptr(),
                offset,
                length,
                &received.as_raw(),
                &mut outcome,
            )
        })
        .map_err(Rejected)?;
        Ok(outcome.into())
    }

    /// On a packet of several pieces, which are parts of pages of this queue: each with its page, its offset there
    /// and its length. The program must know such packets. Nobody else writes to the pages.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory for it, or if it is in too many pieces; others if its checksum is to be made
    /// and it has none, or if a part does not lie in its page.
    pub fn run_pieces(
        &self,
        pieces: impl Iterator<Item = (PoolPage, u32, u32)>,
        received: &Received,
    ) -> Result<Action> {
        let mut parts: [bindings::xen_xdp_piece; MOST_PIECES] = Default::default();
        let mut count = 0;
        let mut is_good = self.program.is_none_or(Program::has_frags);
        let mut total = 0u32;
        for (page, offset, length) in pieces {
            let end = offset.checked_add(length);
            // CAST: A page is small.
            is_good &= end.is_some_and(|end| end <= bindings::XEN_PAGE_SIZE as u32);
            total = total.saturating_add(length);
            let Some(part) = parts.get_mut(count) else {
                is_good = false;
                // The page goes back.
                continue;
            };
            part.page = page.into_raw().as_ptr();
            part.offset = offset;
            part.length = length;
            count += 1;
        }
        let first = parts.first().map_or(0, |part| part.length);
        if !is_good || first.min(room()) < super::HEADER_LENGTH || total > MOST_BYTES {
            for part in parts.iter().take(count) {
                if let Some(page) = NonNull::new(part.page) {
                    // SAFETY: It was given up above.
                    drop(unsafe { PoolPage::from_raw(page) });
                }
            }
            return Err(EINVAL);
        }
        let mut outcome = bindings::xen_xdp_outcome::default();
        // SAFETY: All are valid; the pages are whole ones of the queue's pool, whose references are given up, and
        // the parts lie in them. The pool is this polling's, and nobody else takes from it.
        to_result(unsafe {
            bindings::xen_xdp_run_pieces(
                self.program(),
                self.queue.info.get(),
                self.polling.as_raw(),
                self.queue.pool.as_raw(),
                parts.as_ptr(),
                // CAST: It is small.
                count as u32,
                &received.as_raw(),
                &mut outcome,
            )
        })?;
        Ok(outcome.into())
    }

    /// On any packet. It is copied, and first cut up if it is to be: `each` is told what has become of the
    /// packets that it was made of, or that one was dropped because there was no memory for it, or because it is
    /// in several pieces and the program cannot do with those.
    ///
    /// # Errors
    ///
    /// Its headers are not what is said of them. There were no packets.
    pub fn run_packet(
        &self,
        packet: RxPacket,
        received: &Received,
        mut each: impl FnMut(Result<Action>),
    ) -> Result<(), Rejected> {
        let raw = received.as_raw();
        let mut verdict = bindings::xen_skb_verdict::default();
        let napi = self.polling.as_raw();
        // SAFETY: All are valid, and the packet is given up.
        let mut list =
            unsafe { bindings::xen_xdp_cut(napi, packet.into_raw(), &raw, &mut verdict) };
        to_result(verdict.error).map_err(Rejected)?;
        while !list.is_null() {
            let mut outcome = bindings::xen_xdp_outcome::default();
            // SAFETY: All are valid; the pool is this polling's, and nobody else takes from it.
            let result = to_result(unsafe {
                bindings::xen_xdp_run_next(
                    self.program(),
                    self.queue.info.get(),
                    napi,
                    self.queue.pool.as_raw(),
                    &mut list,
                    &raw,
                    &mut outcome,
                )
            });
            each(result.map(|()| outcome.into()));
        }
        Ok(())
    }

    /// To be called when some have been [redirected](Action::Redirected), after all of them.
    pub fn flush(&self) {
        // SAFETY: In a softirq, in which polling takes place.
        unsafe { bindings::xdp_do_flush() };
    }
}

/// A packet that a program wants to be sent. Dropped, its memory goes back to where it is from.
///
/// # Invariants
///
/// It is valid, and belongs to this value.
pub struct Frame(NonNull<bindings::xdp_frame>);

// SAFETY: Frames can be given back by any thread.
unsafe impl Send for Frame {}

impl Frame {
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
    pub(super) unsafe fn new(frames: &'a [*mut bindings::xdp_frame]) -> Self {
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
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }
}
