// SPDX-License-Identifier: GPL-2.0

//! The receive ring of a queue: the hot path into the guest.
//!
//! The backend fills pages that are granted to it. A small packet is copied out of its page, which then
//! is offered again as it is; the pages of a larger one become part of the packet, and new ones take their
//! place.

use crate::{
    fault::Fault,
    poller::Poller,
    queue::Polled,
    receive::{
        self,
        Outcome,
        Rejected,
        Sight, //
    },
    stats::RxStats,
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::Arc, //
};
use xen::{
    compat::EPROTO,
    grant::{
        Access,
        Grant,
        Reserve, //
    },
    io::netif::{
        self,
        Rx,
        RxRequest,
        RX_SLOTS, //
    },
    net::{
        xdp::{
            self,
            Action,
            Frame,
            Program,
            Runner,
            RxQueue, //
        },
        Polling,
        PoolPage,
        Received,
        RxPacket, //
    },
    ring::{
        Front,
        Notify, //
    },
    xenbus::{
        DeviceRef,
        GrantedPages, //
    },
};

/// Packets of up to so many bytes are copied out of their pages.
const COPY_WHOLE: u32 = 256;

/// Room in the head of a larger packet: its headers are copied there.
const HEAD: u32 = 256;

/// Packets that polling asks for at once.
const BUDGET: usize = 64;

/// With fewer pages than this the backend may not be able to send a packet at all.
const LEAST: u32 = netif::MIN_SLOTS as u32 + 1;

/// A page that the backend may fill.
///
/// Fields are dropped in this order: the grant ends before the page is used for something else.
struct Buffer {
    grant: Grant,
    page: PoolPage,
}

/// The data of a packet.
enum Contents {
    /// It is ready for the network stack.
    Packet(RxPacket),
    /// It is in a page, from an offset on, as programs see it.
    Page(PoolPage, u32),
    /// It is in parts of several pages: each with its offset and its length.
    Pieces(KVec<(PoolPage, u32, u32)>),
}

/// A packet that is to be handed to the network stack, or to a program.
struct Ready {
    contents: Contents,
    received: Received,
    length: u32,
}

/// Packets that are to be handed over: not under any lock of this driver's, since the stack may want to send
/// something at once, or to know the interface's numbers.
pub(crate) struct ReadyList {
    packets: KVec<Ready>,
    pages: Arc<RxQueue<Poller>>,
}

impl ReadyList {
    /// Hands them over, to the program first if there is one. `send` sends what it wants to be sent.
    pub(crate) fn hand_over(
        &mut self,
        napi: &Polling<'_, Poller>,
        program: Option<&Program>,
        mut send: impl FnMut(Frame),
    ) -> RxStats {
        let mut stats = RxStats::default();
        // The pages are this polling's.
        let Some(runner) = Runner::new(program, &self.pages, napi) else {
            return stats;
        };
        for ready in self.packets.drain_all() {
            let Ready {
                contents,
                received,
                length,
            } = ready;
            let mut acted = |action: Result<Action>| match action {
                Ok(Action::Passed) => stats.xdp.passed += 1,
                Ok(Action::Send(frame)) => {
                    stats.xdp.sent += 1;
                    send(frame);
                }
                Ok(Action::Redirected) => stats.xdp.redirected += 1,
                Ok(Action::Dropped) => stats.xdp.dropped += 1,
                Ok(Action::Aborted) => stats.xdp.aborted += 1,
                Err(ENOMEM) => stats.no_memory += 1,
                // Its checksum is to be made, and it has none.
                Err(EPROTO) => stats.rejected += 1,
                Err(_) => stats.xdp.unfit += 1,
            };
            let result = match contents {
                Contents::Page(page, offset) => runner
                    .run_page(page, offset, length, &received)
                    .map(|action| {
                        acted(Ok(action));
                        false
                    }),
                Contents::Pieces(pieces) => {
                    acted(runner.run_pieces(pieces.into_iter(), &received));
                    Ok(false)
                }
                Contents::Packet(packet) if program.is_some() => {
                    stats.xdp.copied += 1;
                    runner.run_packet(packet, &received, acted).map(|()| false)
                }
                Contents::Packet(packet) => packet.receive(napi, &received),
            };
            match result {
                Ok(fixed_up) => {
                    stats.packets += 1;
                    stats.bytes += u64::from(length);
                    stats.gso_checksum_fixup += u64::from(fixed_up);
                }
                Err(_) => stats.rejected += 1,
            }
        }
        if stats.xdp.redirected > 0 {
            runner.flush();
        }
        stats
    }
}

/// The receive ring of a queue that is connected.
pub(crate) struct Receiver {
    ring: Front<Rx, GrantedPages>,
    /// The pages that the backend has, by the slots of their requests.
    buffers: KVec<Option<Buffer>>,
    /// Pages that it has given back unused.
    spare: KVec<Buffer>,
    /// Packets that were made since they were last taken.
    ready: KVec<Ready>,
    reserve: Reserve,
    pages: Arc<RxQueue<Poller>>,
    domain: u16,
}

impl Receiver {
    /// Makes a ring for the backend of `dev`, without any page.
    pub(crate) fn new(dev: &DeviceRef, pages: Arc<RxQueue<Poller>>) -> Result<Self> {
        let ring = Front::new(GrantedPages::new(dev, 0)?).map_err(|_| EINVAL)?;
        // CAST: 256.
        let count = RX_SLOTS as usize;
        let mut buffers = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            buffers.push(None, GFP_KERNEL)?;
        }
        // CAST: A packet has few slots.
        Ok(Self {
            ring,
            buffers,
            spare: KVec::with_capacity(count, GFP_KERNEL)?,
            ready: KVec::with_capacity(BUDGET, GFP_KERNEL)?,
            reserve: Reserve::new(LEAST as u16, RX_SLOTS)?,
            pages,
            domain: dev.otherend_id(),
        })
    }

    /// How many pages the backend has.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.ring.taken()
    }

    /// The reference of the ring's page, to tell the backend.
    pub(crate) fn gref(&self) -> u32 {
        self.ring.memory().grefs().first().copied().unwrap_or(0)
    }

    /// Offers the backend as many pages as there is room for, and says whether it has too few.
    pub(crate) fn refill(&mut self, napi: &Polling<'_, Poller>, stats: &mut RxStats) -> bool {
        while self.ring.free() > 0 {
            let Some(buffer) = self.spare.pop().or_else(|| self.make(napi)) else {
                stats.no_page += 1;
                return self.ring.taken() < LEAST;
            };
            // CAST: Less than 256.
            let id = self.ring.request_slot() as u16;
            let request = RxRequest::new(id, buffer.grant.gref());
            let Some(place) = self.buffers.get_mut(usize::from(id)) else {
                return false;
            };
            *place = Some(buffer);
            if let Some(slot) = self.ring.reserve() {
                slot.fill(&request);
            }
        }
        false
    }

    fn make(&mut self, napi: &Polling<'_, Poller>) -> Option<Buffer> {
        let page = self.pages.alloc(napi)?;
        let grant = self.reserve.grant(self.domain, &page, Access::ReadWrite)?;
        Some(Buffer { grant, page })
    }

    /// Shows the backend the pages, and says whether it must be woken.
    pub(crate) fn push(&mut self) -> Notify {
        self.ring.push()
    }

    /// Asks for an event once there are `ahead` responses, and says whether there is any already. Otherwise
    /// `hold` is to see to it that somebody looks in time.
    pub(crate) fn wait(&mut self, ahead: u32, hold: impl FnOnce()) -> Result<bool, Fault> {
        self.ring
            .wait_for_responses_beyond(ahead.saturating_sub(1), hold)
            .map_err(Fault::RxProducer)
    }

    /// Makes packets of what the backend has written, `budget` of them at most. If they are for a program, as
    /// `seen` says, they are left in their pages as far as it can see them there.
    pub(crate) fn receive(
        &mut self,
        napi: &Polling<'_, Poller>,
        queue: u32,
        budget: u32,
        seen: Option<Sight>,
        stats: &mut RxStats,
    ) -> Result<Polled, Fault> {
        let mut polled = Polled::default();
        // CAST: It is few.
        let budget = budget.min(BUDGET as u32);
        while polled.packets < budget {
            let first_slot = self.ring.response_slot();
            let Some(first) = self.ring.next_response().map_err(Fault::RxProducer)? else {
                break;
            };
            let mut impossible = None;
            let outcome = receive::collect(first.response(), || {
                self.ring
                    .next_response()
                    .map_err(|error| impossible = Some(error))
                    .ok()?
            });
            if let Some(impossible) = impossible {
                return Err(Fault::RxProducer(impossible));
            }
            polled.packets += 1;
            polled.worked = true;
            match outcome {
                Outcome::Packet(packet) => {
                    if seen.is_some_and(|sight| receive::is_seen(&packet, sight)) {
                        self.leave(napi, queue, first_slot, &packet, stats)?;
                    } else {
                        self.deliver(napi, queue, first_slot, &packet, stats)?;
                    }
                }
                Outcome::Rejected(rejected) | Outcome::Incomplete(rejected) => {
                    stats.malformed += 1;
                    self.reject(napi, first_slot, &rejected);
                }
            }
        }
        Ok(polled)
    }

    /// A packet makes no sense.
    fn reject(&mut self, napi: &Polling<'_, Poller>, first_slot: u32, rejected: &Rejected) {
        napi.netdev().warn(fmt!("{}", rejected.reason));
        for position in 0..rejected.slots {
            self.recover(first_slot, position);
        }
    }

    /// The packets that were made, to be handed over and then [given back](Self::give_list).
    pub(crate) fn take_list(&mut self) -> ReadyList {
        ReadyList {
            packets: core::mem::take(&mut self.ready),
            pages: self.pages.clone(),
        }
    }

    /// Gives the empty list back.
    pub(crate) fn give_list(&mut self, list: ReadyList) {
        self.ready = list.packets;
    }

    /// The page of a slot, by its position in a packet, if the backend has one there.
    fn take(&mut self, first_slot: u32, position: usize) -> Option<Buffer> {
        // CAST: Less than 256.
        let slot = (first_slot as usize).wrapping_add(position) % (RX_SLOTS as usize);
        self.buffers.get_mut(slot)?.take()
    }

    /// Keeps a page to be offered again as it is.
    fn keep(&mut self, buffer: Buffer) {
        // There is room for all that the ring can have. If there were not, the page would be freed.
        let _ = self.spare.push_within_capacity(buffer);
    }

    /// Takes the page of a slot back from the backend, to be offered again.
    fn recover(&mut self, first_slot: u32, position: usize) {
        if let Some(buffer) = self.take(first_slot, position) {
            self.keep(buffer);
        }
    }

    /// Makes a packet of what the backend has written.
    fn deliver(
        &mut self,
        napi: &Polling<'_, Poller>,
        queue: u32,
        first_slot: u32,
        packet: &receive::Packet,
        stats: &mut RxStats,
    ) -> Result<(), Fault> {
        for position in packet.unused() {
            self.recover(first_slot, position);
        }
        let length = packet.length();
        let is_small = length <= COPY_WHOLE;
        let mut made = None;
        if napi.netdev().is_running() {
            made = RxPacket::new(napi, if is_small { COPY_WHOLE } else { HEAD });
            stats.no_memory += u64::from(made.is_none());
        } else {
            stats.down += 1;
        }
        for fragment in packet.fragments() {
            // One without any data has been dealt with.
            let Some(buffer) = self.take(first_slot, fragment.position) else {
                continue;
            };
            let Some(rx_packet) = &mut made else {
                self.keep(buffer);
                continue;
            };
            // What is small is copied to the head, as long as nothing is behind that.
            let is_first = fragment.position == 0;
            let fits = if is_small || (is_first && fragment.length <= HEAD) {
                let fits = rx_packet.put(&buffer.page, fragment.offset, fragment.length);
                self.keep(buffer);
                fits
            } else {
                let Buffer { grant, page } = buffer;
                // The page must not change any more.
                self.reserve.end(grant).map_err(Fault::StillMapped)?;
                let (offset, length) = (fragment.offset, fragment.length);
                let headers = if is_first {
                    rx_packet.put_headers(napi, &page, offset, length, HEAD)
                } else {
                    Some(0)
                };
                // Never more than there is.
                match headers.and_then(|headers| Some((headers, length.checked_sub(headers)?))) {
                    Some((_, 0)) => true,
                    Some((headers, rest)) => rx_packet.add(page, offset + headers, rest).is_ok(),
                    None => false,
                }
            };
            if !fits {
                stats.malformed += 1;
                made = None;
            }
        }
        let Some(rx_packet) = made else {
            return Ok(());
        };
        stats.copied += u64::from(is_small);
        self.queue_up(queue, Contents::Packet(rx_packet), packet, stats);
        Ok(())
    }

    /// Leaves a packet in its pages, for a program.
    fn leave(
        &mut self,
        napi: &Polling<'_, Poller>,
        queue: u32,
        first_slot: u32,
        packet: &receive::Packet,
        stats: &mut RxStats,
    ) -> Result<(), Fault> {
        for position in packet.unused() {
            self.recover(first_slot, position);
        }
        let is_running = napi.netdev().is_running();
        stats.down += u64::from(!is_running);
        let mut pieces = KVec::new();
        for fragment in packet.fragments() {
            // One without any data has been dealt with.
            let Some(buffer) = self.take(first_slot, fragment.position) else {
                continue;
            };
            if !is_running {
                self.keep(buffer);
                continue;
            }
            let Buffer { grant, page } = buffer;
            // The page must not change any more.
            self.reserve.end(grant).map_err(Fault::StillMapped)?;
            if packet.fragments().len() == 1 && packet.length() <= xdp::room() {
                self.queue_up(queue, Contents::Page(page, fragment.offset), packet, stats);
                return Ok(());
            }
            let piece = (page, fragment.offset, fragment.length);
            if pieces.push(piece, GFP_ATOMIC | __GFP_NOWARN).is_err() {
                stats.no_memory += 1;
                pieces.clear();
                // The other pages are still to be taken back.
                for fragment in packet.fragments() {
                    self.recover(first_slot, fragment.position);
                }
                return Ok(());
            }
        }
        if is_running {
            self.queue_up(queue, Contents::Pieces(pieces), packet, stats);
        }
        Ok(())
    }

    fn queue_up(
        &mut self,
        queue: u32,
        contents: Contents,
        packet: &receive::Packet,
        stats: &mut RxStats,
    ) {
        let ready = Ready {
            contents,
            received: Received::from_wire(queue, packet.checksum, packet.gso, packet.hash),
            length: packet.length(),
        };
        // There is room for as many as are asked for at once.
        if self.ready.push_within_capacity(ready).is_err() {
            stats.no_memory += 1;
        }
    }
}
