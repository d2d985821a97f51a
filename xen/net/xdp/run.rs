// SPDX-License-Identifier: GPL-2.0

//! Running a program on what a queue has received.

use super::{
    room,
    Frame,
    Program, //
};
use crate::{
    bindings,
    net::{
        PagePool,
        Poll,
        Polling,
        PoolPage,
        Received,
        Rejected,
        RxPacket,
        HEADER_LENGTH, //
    },
};
use core::ptr::{
    null_mut,
    NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Most pieces of a packet.
const MOST_PIECES: usize = 19;

/// Most bytes of one: lengths of packets are numbers of 16 bits in many places.
const MOST_BYTES: u32 = 65_535 + HEADER_LENGTH;

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

impl Action {
    /// # Safety
    ///
    /// It must be what has become of a packet, and the frame, if there is one, the caller's.
    unsafe fn from_raw(outcome: &bindings::xen_xdp_outcome) -> Self {
        match (outcome.action, NonNull::new(outcome.frame)) {
            // SAFETY: By this function's requirements.
            (bindings::xdp_action_XDP_TX, Some(frame)) => Self::Send(unsafe { Frame::new(frame) }),
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
        self.program.map_or(null_mut(), |program| program.as_raw())
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
        if !is_within || length > room() || length < HEADER_LENGTH {
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
        // SAFETY: It is what has become of this packet.
        Ok(unsafe { Action::from_raw(&outcome) })
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
        if !is_good || first.min(room()) < HEADER_LENGTH || total > MOST_BYTES {
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
        // SAFETY: It is what has become of this packet.
        Ok(unsafe { Action::from_raw(&outcome) })
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
            // SAFETY: It is what has become of this packet.
            each(result.map(|()| unsafe { Action::from_raw(&outcome) }));
        }
        Ok(())
    }

    /// To be called when some have been [redirected](Action::Redirected), after all of them.
    pub fn flush(&self) {
        // SAFETY: In a softirq, in which polling takes place.
        unsafe { bindings::xdp_do_flush() };
    }
}
