// SPDX-License-Identifier: GPL-2.0

//! The ring on which a guest transmits: the hot path out of the guest.
//!
//! Packets are taken from the ring, many at once, and all of their bytes are copied by one hypercall. What
//! is copied the guest cannot change any more, and its frames are its own again at once: nothing of it
//! has to be mapped, or waits for whoever gets the packets.

use crate::{
    credit::Verdict,
    failure::Fault,
    plan::{
        self,
        Plan, //
    },
    poller::Poller,
    rules::Rules,
    stats::RxStats,
    transmit::{
        self,
        Limits,
        Outcome,
        Packet, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::{
    io::netif::{
        self,
        Status,
        Tx,
        TxResponse,
        TxSlot,
        TX_SLOTS, //
    },
    moderation::{
        packets::{
            Ahead,
            Arrivals, //
        },
        settings::Settings, //
    },
    net::{
        Imports,
        Moderator,
        Napi,
        PagePool,
        Place,
        Polling,
        ReadyList,
        Received, //
    },
    ring::{
        Back,
        Notify,
        Snapshot, //
    },
    xenbus::{
        DeviceRef,
        MappedPages, //
    },
};

/// Packets of up to so many bytes are in their head as a whole: one copy for each slot, and no page.
const COPY_WHOLE: u32 = 1600;

/// Most packets that are copied by one hypercall.
const MOST_PACKETS: u16 = 64;

/// Most copies that a packet can need: one for each slot, and one more wherever the head, a page or a frame
/// of the head ends.
const MOST_COPIES: usize = transmit::MOST_SLOTS + plan::MOST_FRAGMENTS + 4;

/// Most copies that are made by one hypercall.
const BATCH: usize = 512;

/// Fragments that the kernel's packets have room for, with each slot as one.
const FEW_SLOTS: usize = plan::MOST_FRAGMENTS;

/// A packet that is being copied.
struct Entry {
    received: Received,
    length: u32,
    /// Where its answers start, and how many there are.
    answers: (usize, usize),
}

/// What taking packets has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    /// Packets, and what else was asked for.
    pub(crate) count: u32,
    /// There may be more.
    pub(crate) more: bool,
    /// Nothing may be transmitted before so many nanoseconds have passed.
    pub(crate) wait: Option<u64>,
}

/// The transmit ring of a queue that is connected.
pub(crate) struct GuestTx {
    ring: Back<Tx, MappedPages>,
    limits: Limits,
    pool: PagePool<Poller>,
    imports: Imports,
    entries: KVec<Entry>,
    /// The answers to all slots that were taken, in order.
    answers: KVec<TxResponse>,
    ready: ReadyList,
    /// The first slot of a packet that has to wait for the rate.
    held: Option<TxSlot>,
    moderator: Moderator<Poller, Arrivals>,
}

impl GuestTx {
    /// Serves a ring.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(
        dev: &DeviceRef,
        ring: Back<Tx, MappedPages>,
        napi: &Arc<Napi<Poller>>,
        pool: PagePool<Poller>,
        limits: Limits,
    ) -> Result<Self> {
        let most = usize::from(MOST_PACKETS);
        Ok(Self {
            ring,
            limits,
            pool,
            imports: Imports::new(dev.otherend_id(), MOST_PACKETS, BATCH)?,
            entries: KVec::with_capacity(most, GFP_KERNEL)?,
            // CAST: 256.
            answers: KVec::with_capacity(TX_SLOTS as usize, GFP_KERNEL)?,
            ready: ReadyList::new(most)?,
            held: None,
            moderator: Moderator::new(napi, Arrivals::new())?,
        })
    }

    /// Takes packets off the ring, `budget` of them at most, copies them, and answers. What was copied is
    /// to be [taken](Self::take_list) afterwards. Softirq.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn take(
        &mut self,
        napi: &Polling<'_, Poller>,
        rules: &Rules,
        queue: u32,
        budget: u32,
        stats: &RxStats,
    ) -> Result<Taken, Fault> {
        let mut taken = Taken::default();
        self.moderator.end();
        while taken.count < budget {
            if !self.imports.has_room(MOST_COPIES) {
                taken.more = true;
                break;
            }
            let next = match self.held.take() {
                Some(slot) => Some(slot),
                None => self.ring.next_request().map_err(Fault::TxProducer)?,
            };
            let Some(slot) = next else {
                break;
            };
            let first = slot.request();
            if let Verdict::Wait(wait) = rules.from_guest.ask(first.size.into()) {
                self.held = Some(slot);
                stats.throttled.add(1);
                taken.wait = Some(wait);
                break;
            }
            taken.count += 1;
            match self.collect(first)? {
                Outcome::Packet(packet) => self.begin(napi, queue, &packet, stats),
                Outcome::Multicast(multicast) => {
                    let status = match rules.change_groups(multicast.change) {
                        Ok(()) => Status::Okay,
                        Err(_) => Status::Error,
                    };
                    answer(&mut self.answers, multicast.responses(status));
                }
                Outcome::Drop(dropped) => {
                    stats.malformed.add(1);
                    answer(&mut self.answers, dropped.responses());
                }
                Outcome::Fatal(fault) => return Err(Fault::Transmit(fault)),
            }
        }
        taken.more |= taken.count >= budget;
        // Each slot that was taken has an answer.
        // CAST: At most 256.
        let slots = self.answers.len() as u32;
        self.moderator.history.found(taken.count, slots);
        self.copy(stats);
        Ok(taken)
    }

    /// Takes the slots of a packet.
    fn collect(&mut self, first: netif::TxRequest) -> Result<Outcome, Fault> {
        let mut impossible = None;
        let ring = &mut self.ring;
        let next = || match ring.next_request() {
            Ok(slot) => slot,
            Err(error) => {
                impossible = Some(error);
                None
            }
        };
        let outcome = transmit::collect(first, next, self.limits);
        match impossible {
            Some(error) => Err(Fault::TxProducer(error)),
            None => Ok(outcome),
        }
    }

    /// Begins to copy a packet.
    fn begin(&mut self, napi: &Polling<'_, Poller>, queue: u32, packet: &Packet, stats: &RxStats) {
        if packet.slots().len() > FEW_SLOTS {
            stats.frag_overflow.add(1);
        }
        let length = packet.length();
        let head = if length <= COPY_WHOLE { length } else { 0 };
        let plan = Plan::new(packet, head);
        // The head is never longer than the packet.
        let behind = length.saturating_sub(plan.head());
        let draft = self
            .imports
            .begin(napi, &mut self.pool, plan.head(), behind);
        let Some(mut draft) = draft else {
            stats.no_memory.add(1);
            answer(&mut self.answers, packet.responses(Status::Dropped));
            return;
        };
        for piece in plan.copies(draft.head_start()) {
            let place = match plan.place(piece.to_offset) {
                plan::Place::Head(offset) => Place::Head(offset),
                plan::Place::Page(number, offset) => Place::Page(number, offset),
            };
            if !draft.copy(piece.gref, piece.from_offset, place, piece.length) {
                // What was not copied as a whole nobody sees.
                break;
            }
        }
        let start = self.answers.len();
        answer(&mut self.answers, packet.responses(Status::Okay));
        // As many entries as packets have room.
        let _ = self.entries.push_within_capacity(Entry {
            received: Received::from_wire(queue, packet.checksum, packet.gso, packet.hash),
            length,
            answers: (start, self.answers.len() - start),
        });
    }

    /// Copies what was begun, and writes the answers.
    fn copy(&mut self, stats: &RxStats) {
        let Self {
            imports,
            entries,
            answers,
            ready,
            ring,
            ..
        } = self;
        let mut entries = entries.drain_all();
        imports.run(|result| {
            let Some(entry) = entries.next() else {
                return;
            };
            match result {
                Ok(packet) => ready.push(packet, entry.received, entry.length),
                Err(_) => {
                    stats.copy_failed.add(1);
                    let (start, count) = entry.answers;
                    for answer in answers.iter_mut().skip(start).take(count) {
                        if answer.status() != Status::Null {
                            *answer = TxResponse::new(answer.id, Status::Error);
                        }
                    }
                }
            }
        });
        drop(entries);
        for answer in answers.drain_all() {
            // Each slot that was taken has one answer.
            let _ = ring.respond(&answer);
        }
    }

    /// Shows the guest the answers, and says whether it must be woken.
    pub(crate) fn push(&mut self) -> Notify {
        self.ring.push()
    }

    /// The packets that were copied, to be handed over and then [given back](Self::give_list).
    pub(crate) fn take_list(&mut self) -> ReadyList {
        core::mem::take(&mut self.ready)
    }

    /// Gives the empty list back.
    pub(crate) fn give_list(&mut self, list: ReadyList) {
        self.ready = list;
    }

    /// Asks for an event at one of the next requests, and says whether there is any already. Softirq.
    pub(crate) fn wait(&mut self, settings: &Settings, stats: &RxStats) -> Result<bool, Fault> {
        if self.held.is_some() || self.ring.has_requests().map_err(Fault::TxProducer)? {
            return Ok(true);
        }
        let Self {
            ring, moderator, ..
        } = self;
        let before = moderator.before();
        // The ring has no room for more requests than that: the guest must not wait for it.
        let most = (ring.entries() - ring.unanswered()) / 2;
        let Ahead { slots, was_late } = moderator.history.ask(settings, before, most);
        stats.events_expired.add(was_late.into());
        if slots > 1 {
            moderator.hold(settings);
        }
        let enough = ring
            .wait_for_requests_beyond(slots.saturating_sub(1))
            .map_err(Fault::TxProducer)?;
        stats.events_held.add((!enough && slots > 1).into());
        Ok(enough)
    }

    /// Its indices, and how many requests were taken and not answered.
    pub(crate) fn snapshot(&self) -> (Snapshot, u32) {
        (self.ring.snapshot(), self.ring.unanswered())
    }
}

/// Notes answers. There is room: no more slots can have been taken than a ring has.
fn answer(answers: &mut KVec<TxResponse>, responses: impl Iterator<Item = TxResponse>) {
    for response in responses {
        let _ = answers.push_within_capacity(response);
    }
}
