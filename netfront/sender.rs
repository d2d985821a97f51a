// SPDX-License-Identifier: GPL-2.0

//! The transmit ring of a queue: the hot path out of the guest.
//!
//! What a packet has in its head is copied into pages that stay granted to the backend, and so is a
//! packet that is small as a whole: that costs less than granting its memory and taking the grant back,
//! and the backend sees nothing else of the guest. Larger parts are granted where they are, for as long
//! as the backend has not answered.

use crate::{
    contents::{
        plan_copy,
        Data,
        Source, //
    },
    fault::Fault,
    groups::Change,
    in_flight,
    stats::TxStats,
    transmit::{
        self,
        Info,
        Layout,
        Obstacle,
        Piece as Part,
        MESSAGE_SLOTS,
        MOST_MESSAGES,
        MOST_SLOTS, //
    },
};
use kernel::prelude::*;
use xen::{
    grant::{
        Access,
        Grant,
        PersistentPage,
        PersistentPool,
        Reserve, //
    },
    io::netif::{
        Gso,
        Status,
        Tx,
        TX_SLOTS, //
    },
    net::{
        self,
        xdp::Frame,
        Features,
        TxPacket,
        View, //
    },
    ring::{
        Front,
        Pushed, //
    },
    xenbus::{
        DeviceRef,
        GrantedPages, //
    },
};

/// Slots that a packet can need.
const MAX_SLOTS: u32 = MOST_MESSAGES as u32;

/// Pages and references that a ring has from the beginning: enough for one packet of any kind, so that
/// it can always go on.
const LEAST: u32 = MAX_SLOTS;

/// Packets of up to so many bytes are copied as a whole.
const COPY_WHOLE: u32 = 2048;

/// Memory that the backend may read until it answers.
enum Loan {
    /// A copy.
    Page(PersistentPage),
    /// The packet's own memory.
    Grant(Grant),
    /// Nothing: it is no packet, but says something of multicast packets.
    Message,
}

type Slot = in_flight::Slot<Loan, TxPacket>;

/// A part that the backend may read.
struct Lent {
    loan: Loan,
    gref: u32,
}

/// What became of a packet.
pub(crate) enum Sent {
    /// It is on the ring.
    Yes,
    /// There is no room for it.
    Full(TxPacket),
    /// It was dropped, for a reason that was counted.
    Dropped,
}

/// What the backend is done with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Packets.
    pub(crate) packets: u32,
    /// ... and their bytes.
    pub(crate) bytes: u32,
    /// Whether there was any response.
    pub(crate) worked: bool,
}

/// The transmit ring of a queue that is connected.
pub(crate) struct Sender {
    ring: Front<Tx, GrantedPages>,
    slots: KVec<Slot>,
    /// Numbers of requests that are free.
    free: KVec<u16>,
    pages: PersistentPool,
    reserve: Reserve,
    domain: u16,
    /// What the backend can do.
    terms: Features,
    untrusted: bool,
    /// The parts of the packet that is just being sent, one for each request, and those of them that the
    /// backend may read already. They would be much for a stack.
    parts: KVec<Part<Source>>,
    lent: KVec<Lent>,
    /// Messages that the backend has not answered.
    messages: u32,
}

impl Sender {
    /// Makes a ring for the backend of `dev`, which can do what is in `terms`, and sees nothing but packets
    /// if it is `untrusted`.
    pub(crate) fn new(dev: &DeviceRef, terms: Features, untrusted: bool) -> Result<Self> {
        let ring = Front::new(GrantedPages::new(dev, 0)?).map_err(|_| EINVAL)?;
        // CAST: 256.
        let count = TX_SLOTS as u16;
        let mut slots = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        let mut free = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for id in 0..count {
            slots.push(Slot::new(id), GFP_KERNEL)?;
            // The lowest number is taken first.
            free.push(count - 1 - id, GFP_KERNEL)?;
        }
        let domain = dev.otherend_id();
        // Each page that stays granted has a reference, and each request may have one.
        // CAST: A packet has few slots.
        let mut reserve = Reserve::new(2 * LEAST as u16, 2 * TX_SLOTS)?;
        let pages = PersistentPool::new(
            domain,
            Access::ReadOnly,
            false,
            (LEAST, TX_SLOTS),
            &mut reserve,
        )?;
        Ok(Self {
            ring,
            slots,
            free,
            pages,
            reserve,
            domain,
            terms,
            untrusted,
            parts: KVec::with_capacity(MOST_SLOTS, GFP_KERNEL)?,
            lent: KVec::with_capacity(MOST_SLOTS, GFP_KERNEL)?,
            messages: 0,
        })
    }

    /// How many slots the backend has not answered, or not been shown yet.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        self.ring.taken()
    }

    /// How many slots the backend has been shown and not answered.
    pub(crate) fn outstanding(&self) -> u32 {
        self.ring.outstanding()
    }

    /// The reference of the ring's page, to tell the backend.
    pub(crate) fn gref(&self) -> u32 {
        self.ring.memory().grefs().first().copied().unwrap_or(0)
    }

    /// How many packets the backend has not answered.
    pub(crate) fn in_flight(&self) -> u32 {
        // CAST: At most 256.
        self.slots.iter().filter(|slot| slot.has_packet()).count() as u32
    }

    /// Whether any packet has room.
    pub(crate) fn has_room(&self) -> bool {
        self.ring.free() >= MAX_SLOTS && self.free.len() >= MOST_SLOTS
    }

    /// Puts a packet on the ring. The backend does not see it before [`push`](Self::push).
    pub(crate) fn send(&mut self, packet: TxPacket, view: &View, stats: &mut TxStats) -> Sent {
        if view.is_strange {
            stats.oversized += 1;
            return Sent::Dropped;
        }
        let copied = self.untrusted || view.length <= COPY_WHOLE;
        let mut planned = self.plan(&packet, view, copied);
        if let Err(Obstacle::Linearize | Obstacle::CopyHead) = planned {
            stats.linearized += 1;
            planned = self.plan(&packet, view, true);
        }
        let Ok(layout) = planned else {
            stats.oversized += 1;
            return Sent::Dropped;
        };
        if !self.can_send(view, &layout) {
            stats.unsupported += 1;
            return Sent::Dropped;
        }
        // CAST: Few.
        if self.ring.free() < layout.slots() as u32 || self.free.len() < layout.pieces() {
            return Sent::Full(packet);
        }
        if !self.lend_all(&packet, stats) {
            stats.no_memory += 1;
            return Sent::Dropped;
        }
        packet.take_time();
        self.fill(Some(packet), view.length, &layout);
        Sent::Yes
    }

    /// Puts a packet of a program's on the ring, all of it copied; [`false`] if it cannot be sent now.
    pub(crate) fn send_frame(&mut self, frame: &Frame, stats: &mut TxStats) -> bool {
        let length = frame.length();
        self.parts.clear();
        if plan_copy(&mut self.parts, length).is_err() {
            return false;
        }
        let info = Info {
            length,
            ..Info::default()
        };
        let Ok(layout) = Layout::new(info, self.parts.iter().copied()) else {
            return false;
        };
        if layout.pieces() > 1 && !self.terms.contains(Features::SCATTER_GATHER) {
            return false;
        }
        // CAST: Few.
        if self.ring.free() < layout.slots() as u32 || self.free.len() < layout.pieces() {
            return false;
        }
        if !self.lend_all(frame, stats) {
            return false;
        }
        self.fill(None, length, &layout);
        true
    }

    /// Whether the backend takes such a packet. The kernel has asked for that, but it may have been for an
    /// earlier one.
    fn can_send(&self, view: &View, layout: &Layout) -> bool {
        let either = |feature: Features, other: Features| {
            self.terms.contains(feature) || self.terms.contains(other)
        };
        let segmentation = match view.gso {
            None => true,
            Some(net::Gso::TcpV4(_)) => self.terms.contains(Features::SEGMENTATION_V4),
            Some(net::Gso::TcpV6(_)) => self.terms.contains(Features::SEGMENTATION_V6),
        };
        let checksum = view.checksum != net::Checksum::Blank
            || either(Features::CHECKSUM_V4, Features::CHECKSUM_V6);
        let pieces = layout.pieces() == 1 || self.terms.contains(Features::SCATTER_GATHER);
        segmentation && checksum && pieces
    }

    /// How a packet is to be sent: copied as a whole, or its head only.
    fn plan(&mut self, packet: &TxPacket, view: &View, copied: bool) -> Result<Layout, Obstacle> {
        let head = if copied {
            view.length
        } else {
            view.head_length
        };
        let parts = &mut self.parts;
        parts.clear();
        plan_copy(parts, head)?;
        let mut add = |frame, offset, length| {
            let part = Part {
                frame,
                offset,
                length,
            };
            // There is room for as many as a packet may have.
            parts
                .push_within_capacity(part)
                .map_err(|_| Obstacle::Linearize)
        };
        let mut position = head;
        let fragments = if copied { 0 } else { view.fragments };
        for fragment in 0..fragments {
            let mut within = 0;
            while let Some(piece) = packet.piece(fragment, within) {
                let source = Source::Fragment {
                    fragment,
                    within,
                    position,
                };
                add(source, piece.offset, piece.length)?;
                position += piece.length;
                within += piece.length;
                if piece.rest == 0 {
                    break;
                }
            }
        }
        let info = Info {
            length: view.length,
            checksum: view.checksum.into(),
            gso: view.gso.map(Gso::from),
            hash: None,
        };
        Layout::new(info, self.parts.iter().copied())
    }

    /// Puts a message on the ring that says which multicast packets are wanted; [`false`] if there is no room.
    pub(crate) fn send_change(&mut self, change: Change) -> bool {
        if self.ring.free() < MESSAGE_SLOTS {
            return false;
        }
        let Some(id) = self.free.pop() else {
            return false;
        };
        in_flight::send(&mut self.slots, id, id, Loan::Message, (None, 0));
        self.messages += 1;
        for slot in transmit::message(change, id) {
            if let Some(place) = self.ring.reserve() {
                place.fill(&slot);
            }
        }
        true
    }

    /// Whether the backend has answered all messages.
    pub(crate) fn has_no_messages(&self) -> bool {
        self.messages == 0
    }

    /// Lends all parts of a packet to the backend; [`false`] if there is not enough memory.
    fn lend_all(&mut self, packet: &impl Data, stats: &mut TxStats) -> bool {
        let mut index = 0;
        while let Some(part) = self.parts.get(index).copied() {
            index += 1;
            let lent = self.lend(packet, &part, stats);
            // There is room for as many as there are parts.
            if let Some(lent) = lent {
                let _ = self.lent.push_within_capacity(lent);
                continue;
            }
            while let Some(lent) = self.lent.pop() {
                // Nobody knows the reference, so that it is not in use.
                let _ = self.take_back(lent.loan);
            }
            return false;
        }
        true
    }

    /// Lends part of a packet to the backend, if there is memory for that.
    fn lend(
        &mut self,
        packet: &impl Data,
        part: &Part<Source>,
        stats: &mut TxStats,
    ) -> Option<Lent> {
        let position = match part.frame {
            Source::Copy { position } => position,
            Source::Fragment {
                fragment,
                within,
                position,
            } => {
                let grant = packet
                    .frame(fragment, within)
                    .and_then(|frame| self.reserve.grant_for_reading(self.domain, &frame));
                if let Some(grant) = grant {
                    stats.granted += 1;
                    return Some(Lent {
                        gref: grant.gref(),
                        loan: Loan::Grant(grant),
                    });
                }
                // References are short, or it is not memory that can be lent.
                position
            }
        };
        stats.copied += 1;
        let mut page = self.pages.take(&mut self.reserve)?;
        if !packet.copy_to(position, part.length, page.page_mut(), part.offset) {
            self.pages.give(page);
            return None;
        }
        Some(Lent {
            gref: page.gref(),
            loan: Loan::Page(page),
        })
    }

    /// Ends a loan.
    fn take_back(&mut self, loan: Loan) -> Result<(), Fault> {
        match loan {
            Loan::Message => Ok(()),
            Loan::Page(page) => {
                self.pages.give(page);
                Ok(())
            }
            Loan::Grant(grant) => self.reserve.end(grant).map_err(Fault::StillMapped),
        }
    }

    /// Writes a packet's requests; one of a program's has been copied and is not kept. There is room for them,
    /// and there are numbers.
    fn fill(&mut self, mut packet: Option<TxPacket>, length: u32, layout: &Layout) {
        let mut first = None;
        let mut lent = self.lent.drain_all();
        for message in layout.messages(self.parts.iter().copied()) {
            let slot = message.slot(|_| {
                let lent = lent.next().ok_or(())?;
                let id = self.free.pop().ok_or(())?;
                let head = *first.get_or_insert(id);
                let packet = (packet.take(), length);
                in_flight::send(&mut self.slots, id, head, lent.loan, packet);
                Ok::<_, ()>((lent.gref, id))
            });
            let (Ok(slot), Some(place)) = (slot, self.ring.reserve()) else {
                return;
            };
            place.fill(&slot);
        }
    }

    /// Shows the backend what is on the ring. If an event has been asked for, it is from then on for once there
    /// are `ahead` responses, provided that this is later than before.
    #[inline]
    pub(crate) fn push(&mut self, ahead: u32) -> Pushed {
        self.ring.push_holding_off(ahead)
    }

    /// Takes responses, as many as there can be at once. `budget` is that of polling.
    pub(crate) fn reap(&mut self, budget: u32, stats: &mut TxStats) -> Result<Done, Fault> {
        let mut done = Done::default();
        for _ in 0..TX_SLOTS {
            let Some(response) = self.ring.next_response().map_err(Fault::TxProducer)? else {
                break;
            };
            done.worked = true;
            match response.status() {
                // For a slot that has no number.
                Status::Null => continue,
                Status::Okay => {}
                Status::Dropped | Status::Error if self.is_message(response.id) => {
                    stats.multicast_refused += 1;
                }
                Status::Dropped | Status::Error => stats.refused += 1,
            }
            self.answered(response.id, budget, &mut done)?;
        }
        Ok(done)
    }

    fn is_message(&self, id: u16) -> bool {
        let slot = self.slots.get(usize::from(id));
        matches!(slot.and_then(Slot::loan), Some(Loan::Message))
    }

    fn answered(&mut self, id: u16, budget: u32, done: &mut Done) -> Result<(), Fault> {
        let loan = in_flight::take_loan(&mut self.slots, id).ok_or(Fault::TxId(id))?;
        if let Loan::Message = loan {
            self.messages = self.messages.saturating_sub(1);
        }
        self.take_back(loan)?;
        let ended = in_flight::end(&mut self.slots, id).ok_or(Fault::TxId(id))?;
        for id in ended.free.into_iter().flatten() {
            // There is room for each: it was taken from there.
            let _ = self.free.push_within_capacity(id);
        }
        if let Some((packet, length)) = ended.packet {
            done.packets += 1;
            done.bytes = done.bytes.saturating_add(length);
            packet.sent(budget);
        }
        Ok(())
    }

    /// Asks for an event once there are `ahead` responses, and says whether there is any already. Otherwise
    /// `hold` is to see to it that somebody looks in time.
    pub(crate) fn wait(&mut self, ahead: u32, hold: impl FnOnce()) -> Result<bool, Fault> {
        self.ring
            .wait_for_responses_beyond(ahead.saturating_sub(1), hold)
            .map_err(Fault::TxProducer)
    }

    /// Whether there are pages or references that can be given back some time.
    pub(crate) fn has_grown(&self) -> bool {
        self.pages.has_grown() || self.reserve.has_grown()
    }

    /// Gives back pages and references that have not been needed for a while.
    pub(crate) fn trim(&mut self) -> bool {
        self.pages.trim(&mut self.reserve);
        self.reserve.trim();
        self.has_grown()
    }
}
