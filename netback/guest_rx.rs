// SPDX-License-Identifier: GPL-2.0

//! The ring on which a guest receives: the hot path into the guest.
//!
//! Packets are copied from where they are to the frames that the guest has offered, many by one hypercall.
//! A packet is begun only if the guest has offered enough frames for all of it.

use crate::{
    backlog::Waiting,
    delivery::Delivery,
    failure::Fault,
    stall::Stall,
    stats::TxStats, //
};
use kernel::prelude::*;
use xen::{
    io::netif::{
        Rx,
        RxFlags,
        RxResponse,
        RxSlot,
        Status,
        RX_SLOTS, //
    },
    net::{
        Export,
        Exports, //
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

/// Copies that are made by one hypercall, unless a single packet needs more.
const BATCH: usize = 64;

/// Most packets that are copied before the guest is told.
const MOST_PACKETS: usize = 64;

/// The receive ring of a queue that is connected.
pub(crate) struct GuestRx {
    ring: Back<Rx, MappedPages>,
    exports: Exports,
    /// The answers to all requests that were taken, in order, and the ids of those to whose frames something
    /// is copied.
    answers: KVec<(RxSlot, Option<u16>)>,
    /// So many requests were there when it was last looked, and have not been taken.
    known: u32,
    /// Whether the guest still offers frames.
    pub(crate) stall: Stall,
    /// There have been too few requests for the next packet: so many are needed.
    pub(crate) lacking: Option<u32>,
}

impl GuestRx {
    /// Serves a ring.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(dev: &DeviceRef, ring: Back<Rx, MappedPages>) -> Result<Self> {
        // CAST: 256.
        let slots = RX_SLOTS as u16;
        Ok(Self {
            ring,
            exports: Exports::new(dev.otherend_id(), MOST_PACKETS, slots, 2 * BATCH)?,
            answers: KVec::with_capacity(slots.into(), GFP_KERNEL)?,
            known: 0,
            stall: Stall::default(),
            lacking: None,
        })
    }

    /// How many requests there are, and whether there are more than when it was last looked. Softirq.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn look(&mut self) -> Result<(u32, bool), Fault> {
        let pending = self.ring.pending().map_err(Fault::RxProducer)?;
        let news = pending > self.known;
        self.known = pending;
        Ok((pending, news))
    }

    /// Whether there is room for another packet of so many slots before a [`flush`](Self::flush).
    pub(crate) fn has_room(&self, slots: u32) -> bool {
        // CAST: At most 256.
        self.exports.has_room(slots as usize) && self.exports.copies() < BATCH
    }

    /// Has a packet copied, for which there are enough requests.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn put(&mut self, waiting: Waiting, delivery: &Delivery) -> Result<(), Fault> {
        let Self {
            ring,
            exports,
            answers,
            known,
            ..
        } = self;
        let length = waiting.what.length;
        let added = exports.add(waiting.packet, |export| {
            let mut filler = Filler {
                ring,
                answers,
                known,
                delivery,
                length,
            };
            filler.fill(export)
        });
        // The caller has made sure of the room.
        added.unwrap_or(Ok(()))
    }

    /// Copies, and shows the guest what it has received. Says whether the guest must be woken. `budget` is
    /// that of polling.
    pub(crate) fn flush(&mut self, budget: u32, stats: &TxStats) -> Notify {
        let Self {
            ring,
            exports,
            answers,
            ..
        } = self;
        let mut answers = answers.drain_all();
        exports.finish(budget, |filled| {
            let Some((slot, id)) = answers.next() else {
                return;
            };
            let slot = match id {
                Some(id) if !filled => {
                    stats.copy_failed.add(1);
                    failed(slot, id)
                }
                _ => slot,
            };
            // Each request that was taken has one answer.
            let _ = ring.respond(&slot);
        });
        drop(answers);
        ring.push()
    }

    /// Asks for an event once there are so many requests, and says whether there are already.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn wait_for(&mut self, requests: u32) -> Result<bool, Fault> {
        self.ring
            .wait_for_requests_beyond(requests.saturating_sub(1))
            .map_err(Fault::RxProducer)
    }

    /// Its indices.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.ring.snapshot()
    }
}

/// An answer that says nothing.
const NOTHING: RxResponse = RxResponse {
    id: 0,
    offset: 0,
    flags: RxFlags::new(0),
    status: 0,
};

/// The same answer, but that something went wrong. What follows is still part of the packet.
fn failed(slot: RxSlot, id: u16) -> RxSlot {
    RxResponse {
        id,
        status: Status::Error.to_wire(),
        ..slot.response()
    }
    .into()
}

/// Who fills the frames of one packet.
struct Filler<'a> {
    ring: &'a mut Back<Rx, MappedPages>,
    answers: &'a mut KVec<(RxSlot, Option<u16>)>,
    known: &'a mut u32,
    delivery: &'a Delivery,
    length: u32,
}

impl Filler<'_> {
    fn fill(&mut self, export: &mut Export<'_>) -> Result<(), Fault> {
        let mut done = 0;
        while done < self.length {
            let Some((id, gref)) = self.next()? else {
                break;
            };
            let wanted = self.delivery.room().min(self.length - done);
            let filled = export.fill(gref, self.delivery.headroom(), wanted);
            if filled != Ok(wanted) {
                // Part of the packet is not in memory. The guest must not wait for it.
                self.note(failed(RxSlot::from(NOTHING), id), Some(id));
                break;
            }
            self.note(self.delivery.response(id, done, wanted), Some(id));
            if done == 0 {
                for slot in self.delivery.extras() {
                    // The frame stays as it is.
                    if self.next()?.is_none() || !export.skip() {
                        break;
                    }
                    self.note(slot, None);
                }
            }
            done += wanted;
        }
        Ok(())
    }

    /// Takes a request: its id, and the reference of its frame.
    fn next(&mut self) -> Result<Option<(u16, u32)>, Fault> {
        let request = self.ring.next_request().map_err(Fault::RxProducer)?;
        *self.known = self.known.saturating_sub(1);
        Ok(request.map(|request| (request.id, request.gref)))
    }

    fn note(&mut self, slot: RxSlot, id: Option<u16>) {
        // There is room for as many as a ring has requests.
        let _ = self.answers.push_within_capacity((slot, id));
    }
}
