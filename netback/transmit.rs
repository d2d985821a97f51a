// SPDX-License-Identifier: GPL-2.0

//! Taking apart what a guest transmits.
//!
//! A packet is a first request, extra infos, and further requests. The first request's size is that of
//! the whole packet; its own piece is what the others leave of that. Everything here works on private
//! copies of slots and believes none of what is in them.
//!
//! Each slot that is taken is answered once: a request under its own id, an extra info with
//! [`Status::Null`].
//!
//! Pure logic, tested on the host and by KUnit.

use crate::netif::{
    Checksum,
    Extra,
    ExtraError,
    Gso,
    Hash,
    Status,
    TxRequest,
    TxResponse,
    TxSlot,
    FRAME_SIZE,
    HEADER_SIZE,
    MIN_SLOTS,
    TX_SLOTS, //
};
use core::fmt;

/// Most slots with data that a packet may have behind its first one.
const MOST_FURTHER: usize = MIN_SLOTS;

/// Most slots with data that a packet may have.
pub(crate) const MOST_SLOTS: usize = MOST_FURTHER + 1;

/// Most slots that there can be behind the first one of a packet.
const RING_REST: usize = TX_SLOTS as usize - 1;

/// From how many slots on a packet is taken for an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    fatal_slots: usize,
}

impl Limits {
    /// `fatal_slots` is the most slots behind the first one that a frontend may use in error; fewer
    /// than a packet may have, or more than a ring has, are as if that had been said.
    pub(crate) fn new(fatal_slots: u32) -> Self {
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        Self {
            fatal_slots: (fatal_slots as usize).clamp(MOST_FURTHER, RING_REST),
        }
    }
}

/// A piece of a packet in a frame of the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot {
    /// What the response is to be called.
    pub(crate) id: u16,
    /// Grant reference of the frame.
    pub(crate) gref: u32,
    /// Where in the frame it starts, in bytes.
    pub(crate) offset: u32,
    /// Its length in bytes; it does not leave the frame, and may be 0.
    pub(crate) size: u32,
}

/// A packet that can be sent on.
///
/// # Invariants
///
/// There is at least one slot, the sizes of all add up to `length`, and each lies in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    slots: [Slot; MOST_SLOTS],
    count: usize,
    extras: usize,
    length: u32,
    /// What the guest says of the checksum.
    pub(crate) checksum: Checksum,
    /// How it is to be cut into several.
    pub(crate) gso: Option<Gso>,
    /// What the guest says of the flow. The kind and the algorithm may be any numbers.
    pub(crate) hash: Option<Hash>,
}

impl Packet {
    /// Its slots with data, in order.
    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.get(..self.count).unwrap_or(&[])
    }

    /// How many extra infos it had: so many slots are to be answered with [`TxResponse::null`].
    #[inline]
    #[allow(dead_code, reason = "the tests look at it")]
    pub(crate) fn extras(&self) -> usize {
        self.extras
    }

    /// Its length in bytes; at least that of an Ethernet header, and less than 64 KiB.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// The answers to all of its slots, in order, if they are all met alike.
    pub(crate) fn responses(&self, status: Status) -> impl Iterator<Item = TxResponse> + '_ {
        responses(self.slots().iter().map(|slot| slot.id), self.extras, status)
    }
}

/// The answer to the first slot, those to the extra infos, and those to the others.
fn responses(
    mut ids: impl Iterator<Item = u16>,
    extras: usize,
    status: Status,
) -> impl Iterator<Item = TxResponse> {
    let answer = move |id| TxResponse::new(id, status);
    let first = ids.next().map(answer);
    first
        .into_iter()
        .chain(core::iter::repeat(TxResponse::null()).take(extras))
        .chain(ids.map(answer))
}

/// What a guest wants to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// What is sent to this address.
    Add([u8; 6]),
    /// No longer what is sent to this address.
    Delete([u8; 6]),
}

/// A request that is for no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multicast {
    /// What is to change.
    pub(crate) change: Change,
    id: u16,
    extras: usize,
}

impl Multicast {
    /// The answers to all of its slots, in order.
    pub(crate) fn responses(&self, status: Status) -> impl Iterator<Item = TxResponse> {
        responses(core::iter::once(self.id), self.extras, status)
    }
}

/// Why a packet is not sent on, though its frontend may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has more slots than a packet may have.
    SlotCount,
    /// A slot is larger than what is left of the packet. Some frontends do that with packets of 64 KiB
    /// and more, whose length does not fit into the first request.
    SlotSize,
    /// It has no Ethernet header.
    NoHeader,
}

/// A packet that is not sent on: its slots are to be answered, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Why.
    pub(crate) reason: Reason,
    ids: [u16; RING_REST + 1],
    count: usize,
    extras: usize,
}

impl Dropped {
    fn new(reason: Reason, slots: &[Slot], extras: usize) -> Self {
        let mut ids = [0; RING_REST + 1];
        for (place, slot) in ids.iter_mut().zip(slots) {
            *place = slot.id;
        }
        Self {
            reason,
            ids,
            count: slots.len(),
            extras,
        }
    }

    /// Takes the slots that the packet has beyond those that it may have.
    fn take_others(
        &mut self,
        mut next: impl FnMut() -> Option<TxSlot>,
        limits: Limits,
    ) -> Result<(), Fault> {
        for (count, place) in self.ids.iter_mut().enumerate().skip(self.count) {
            let request = next().ok_or(Fault::MissingSlot(count - 1))?.request();
            if count > limits.fatal_slots {
                break;
            }
            *place = slot(request, request.size.into())?.id;
            self.count = count + 1;
            if !request.flags.has_more_data() {
                return Ok(());
            }
        }
        Err(Fault::TooManySlots(limits.fatal_slots))
    }

    /// The answers to all of its slots, in order.
    pub(crate) fn responses(&self) -> impl Iterator<Item = TxResponse> + '_ {
        let ids = self.ids.iter().take(self.count).copied();
        responses(ids, self.extras, Status::Error)
    }
}

/// A frontend has broken the protocol: nothing of its ring makes sense any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// An extra info was to follow, and did not.
    MissingExtra,
    /// An extra info makes no sense.
    Extra(ExtraError),
    /// Another slot was to follow behind so many.
    MissingSlot(usize),
    /// A packet has more slots than the limit, which is this, behind its first one.
    TooManySlots(usize),
    /// A piece does not lie in its frame: where it starts, and its size.
    CrossesPage(u32, u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingExtra => f.write_str("Missing extra info"),
            Self::Extra(error) => error.fmt(f),
            Self::MissingSlot(count) => {
                write!(f, "Asked for {count} slots but exceeds this limit")
            }
            Self::TooManySlots(limit) => {
                write!(
                    f,
                    "Malicious frontend using {limit} slots, threshold {limit}"
                )
            }
            Self::CrossesPage(offset, size) => {
                write!(f, "Cross page boundary, offset: {offset}, size: {size}")
            }
        }
    }
}

impl From<ExtraError> for Fault {
    fn from(error: ExtraError) -> Self {
        Self::Extra(error)
    }
}

/// What slots turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A packet.
    Packet(Packet),
    /// No packet, but a change of what the guest receives.
    Multicast(Multicast),
    /// A packet that cannot be sent on.
    Drop(Dropped),
    /// The frontend must not be served any longer.
    Fatal(Fault),
}

/// What extra infos have said. Of several of a kind the last one counts.
#[derive(Default)]
struct Infos {
    count: usize,
    gso: Option<Gso>,
    hash: Option<Hash>,
    add: Option<[u8; 6]>,
    delete: Option<[u8; 6]>,
}

impl Infos {
    fn collect(next: &mut impl FnMut() -> Option<TxSlot>) -> Result<Self, Fault> {
        let mut infos = Self::default();
        // No ring holds more, whatever `next` says.
        for _ in 0..RING_REST {
            let slot = next().ok_or(Fault::MissingExtra)?;
            let (extra, more) = Extra::parse(slot.extra())?;
            infos.count += 1;
            match extra {
                Extra::Gso(gso) => infos.gso = Some(gso),
                Extra::Hash(hash) => infos.hash = Some(hash),
                Extra::MulticastAdd(address) => infos.add = Some(address),
                Extra::MulticastDelete(address) => infos.delete = Some(address),
                // It is for whoever receives.
                Extra::Xdp { .. } => {}
            }
            if !more {
                return Ok(infos);
            }
        }
        Err(Fault::MissingExtra)
    }

    fn change(&self) -> Option<Change> {
        self.add
            .map(Change::Add)
            .or(self.delete.map(Change::Delete))
    }
}

/// Takes the slots that belong to the packet that begins with `first`.
///
/// `next` takes the next slot that the frontend has published, and has none when it has been asked for
/// all of them. No more slots are taken than belong to the packet.
pub(crate) fn collect(
    first: TxRequest,
    next: impl FnMut() -> Option<TxSlot>,
    limits: Limits,
) -> Outcome {
    match try_collect(first, next, limits) {
        Ok(outcome) => outcome,
        Err(fault) => Outcome::Fatal(fault),
    }
}

/// A piece of a packet, if it lies in its frame.
fn slot(request: TxRequest, size: u32) -> Result<Slot, Fault> {
    let offset = u32::from(request.offset);
    // Neither is more than 16 bits.
    if offset + size > FRAME_SIZE {
        return Err(Fault::CrossesPage(offset, size));
    }
    Ok(Slot {
        id: request.id,
        gref: request.gref,
        offset,
        size,
    })
}

fn try_collect(
    first: TxRequest,
    mut next: impl FnMut() -> Option<TxSlot>,
    limits: Limits,
) -> Result<Outcome, Fault> {
    let infos = if first.flags.has_extra_info() {
        Infos::collect(&mut next)?
    } else {
        Infos::default()
    };
    if let Some(change) = infos.change() {
        // Nothing else of the request means anything.
        return Ok(Outcome::Multicast(Multicast {
            change,
            id: first.id,
            extras: infos.count,
        }));
    }

    let length = u32::from(first.size);
    // What the slots so far leave for the first one.
    let mut rest = length;
    let mut reason = None;
    let mut slots = [Slot::default(); MOST_SLOTS];
    let [head, further @ ..] = &mut slots;
    head.id = first.id;
    let mut further = further.iter_mut();
    let mut count = 1;
    let mut more = first.flags.has_more_data();
    while more {
        let Some(place) = further.next() else {
            let reason = reason.unwrap_or(Reason::SlotCount);
            return drop_long(reason, &slots, infos.count, next, limits);
        };
        let request = next().ok_or(Fault::MissingSlot(count - 1))?.request();
        let size = u32::from(request.size);
        match rest.checked_sub(size) {
            Some(left) => rest = left,
            None => reason = Some(Reason::SlotSize),
        }
        *place = slot(request, size)?;
        count += 1;
        more = request.flags.has_more_data();
    }

    if length < HEADER_SIZE {
        reason = reason.or(Some(Reason::NoHeader));
    }
    if let Some(reason) = reason {
        let used = slots.get(..count).unwrap_or(&[]);
        return Ok(drop_short(reason, used, infos.count));
    }
    *head = slot(first, rest)?;
    // INVARIANT: The first slot has what the others leave of the length, and all were found to lie in
    // their frames.
    Ok(Outcome::Packet(Packet {
        slots,
        count,
        extras: infos.count,
        length,
        checksum: first.flags.checksum(),
        gso: infos.gso,
        hash: infos.hash,
    }))
}

/// Drops a packet all of whose slots have been taken. Apart, so that packets that are not dropped need no
/// stack for that.
#[cold]
#[inline(never)]
fn drop_short(reason: Reason, slots: &[Slot], extras: usize) -> Outcome {
    Outcome::Drop(Dropped::new(reason, slots, extras))
}

/// Drops a packet that has more slots than have been taken.
#[cold]
#[inline(never)]
fn drop_long(
    reason: Reason,
    slots: &[Slot],
    extras: usize,
    next: impl FnMut() -> Option<TxSlot>,
    limits: Limits,
) -> Result<Outcome, Fault> {
    let mut dropped = Dropped::new(reason, slots, extras);
    dropped.take_others(next, limits)?;
    Ok(Outcome::Drop(dropped))
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
mod tests;
