// SPDX-License-Identifier: GPL-2.0

//! Putting together what was received.
//!
//! A packet is a first response, extra infos, and further responses, each in the slot of the request
//! whose buffer it is about: an extra info has used none. Everything here works on private copies of
//! slots and believes none of what is in them.
//!
//! Slots are told apart by their position in the packet: the first one is 0.
//!
//! Pure logic, tested on the host and by KUnit.

use crate::netif::{
    Checksum,
    Extra,
    ExtraError,
    Gso,
    Hash,
    RxResponse,
    RxSlot,
    FRAME_SIZE,
    HEADER_SIZE,
    MIN_SLOTS,
    RX_SLOTS, //
};
use core::fmt;

/// Bytes of a packet that its head has room for. If there are no more in its first slot, that slot is copied
/// there, and the packet may have one more.
pub(crate) const HEAD: u32 = 256;

/// Most slots with data that a packet may have.
pub(crate) const MOST_SLOTS: usize = MIN_SLOTS + 1;

/// What of a buffer belongs to the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The position of the slot whose buffer it is in.
    pub(crate) position: usize,
    /// Where in the buffer it starts, in bytes.
    pub(crate) offset: u32,
    /// Its length in bytes; it does not leave the buffer, which is a frame, and may be 0.
    pub(crate) length: u32,
}

/// A packet that can be handed on.
///
/// # Invariants
///
/// There is at least one fragment, the lengths of all add up to `length`, each lies in its frame, and
/// their positions are 0 and those behind the extra infos, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    fragments: [Fragment; MOST_SLOTS],
    count: usize,
    extras: usize,
    length: u32,
    /// What the backend says of the checksum.
    pub(crate) checksum: Checksum,
    /// How it is to be cut into several.
    pub(crate) gso: Option<Gso>,
    /// What the backend says of the flow. The kind and the algorithm may be any numbers.
    pub(crate) hash: Option<Hash>,
}

impl Packet {
    /// Its data, in order.
    #[inline]
    pub(crate) fn fragments(&self) -> &[Fragment] {
        self.fragments.get(..self.count).unwrap_or(&[])
    }

    /// How many slots it took.
    #[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
    pub(crate) fn slots(&self) -> usize {
        self.count + self.extras
    }

    /// Its length in bytes; at least that of an Ethernet header, and no more than 19 frames hold.
    #[inline]
    pub(crate) fn length(&self) -> u32 {
        self.length
    }

    /// The positions of slots whose buffers hold nothing, and can be offered again as they are.
    pub(crate) fn unused(&self) -> impl Iterator<Item = usize> + '_ {
        let empty = |fragment: &&Fragment| fragment.length == 0;
        let empty = self.fragments().iter().filter(empty);
        (1..=self.extras).chain(empty.map(|fragment| fragment.position))
    }
}

/// Why a packet is not handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// An extra info was to follow, and did not.
    MissingExtra,
    /// An extra info makes no sense.
    Extra(ExtraError),
    /// Another slot was to follow, and did not.
    MissingSlot,
    /// It has so many slots with data.
    SlotCount(usize),
    /// A piece does not lie in its buffer: where it starts, and its status.
    Piece(u16, i16),
    /// A piece does not reach to the end of the space before it: its status, and the headroom.
    Headroom(i16, u16),
    /// It has no Ethernet header.
    NoHeader,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingExtra => f.write_str("Missing extra info"),
            Self::Extra(error) => error.fmt(f),
            Self::MissingSlot => f.write_str("Need more slots"),
            Self::SlotCount(_) => f.write_str("Too many slots"),
            Self::Piece(offset, status) => write!(f, "rx->offset: {offset}, size: {status}"),
            Self::Headroom(status, headroom) => {
                write!(f, "size: {status} of which headroom: {headroom}")
            }
            Self::NoHeader => f.write_str("packet without a header"),
        }
    }
}

/// A packet that is not handed on: all its buffers can be offered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// Why; what was wrong first.
    pub(crate) reason: Reason,
    /// How many slots it took, extra infos included.
    pub(crate) slots: usize,
}

/// What slots turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it is nearly always that one")]
pub(crate) enum Outcome {
    /// A packet.
    Packet(Packet),
    /// A packet that makes no sense. What follows may be one that does.
    Rejected(Rejected),
    /// A packet of which the backend has published a part only, which it must not: the next slot that it
    /// publishes will be of this packet, but cannot be told from the first one of another.
    Incomplete(Rejected),
}

/// What extra infos have said. Of several of a kind the last one counts.
#[derive(Default)]
struct Infos {
    gso: Option<Gso>,
    hash: Option<Hash>,
    headroom: Option<u16>,
}

impl Infos {
    fn note(&mut self, extra: Extra) {
        match extra {
            Extra::Gso(gso) => self.gso = Some(gso),
            Extra::Hash(hash) => self.hash = Some(hash),
            Extra::Xdp { headroom } => self.headroom = Some(headroom),
            // They are for whoever sends.
            Extra::MulticastAdd(_) | Extra::MulticastDelete(_) => {}
        }
    }

    /// What of a buffer belongs to the packet: where it starts, and its length.
    ///
    /// Linux' backend counts the space that it has left before the data as data, of every slot, and says
    /// that it starts where the space does. Who says that the data starts elsewhere means it.
    fn piece(&self, response: RxResponse) -> Result<(u32, u32), Reason> {
        let out = Reason::Piece(response.offset, response.status);
        let status = u32::try_from(response.status).map_err(|_| out)?;
        let offset = u32::from(response.offset);
        // Neither is more than 16 bits.
        if offset + status > FRAME_SIZE {
            return Err(out);
        }
        match self.headroom {
            Some(headroom) if offset == 0 => match status.checked_sub(headroom.into()) {
                Some(length) => Ok((headroom.into(), length)),
                None => Err(Reason::Headroom(response.status, headroom)),
            },
            _ => Ok((offset, status)),
        }
    }
}

/// Takes slots, and no more than a ring has.
struct Source<N> {
    next: N,
    taken: usize,
}

impl<N: FnMut() -> Option<RxSlot>> Source<N> {
    fn next(&mut self) -> Option<RxSlot> {
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        if self.taken >= RX_SLOTS as usize {
            return None;
        }
        let slot = (self.next)()?;
        self.taken += 1;
        Some(slot)
    }
}

/// What a program can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Bytes of a packet in its first piece.
    pub(crate) room: u32,
    /// It knows packets of several pieces.
    pub(crate) has_frags: bool,
}

/// Whether a program can see a packet where it is. None sees one that is to be cut up.
pub(crate) fn is_seen(packet: &Packet, sight: Sight) -> bool {
    let is_one = packet.fragments().len() == 1 && packet.length() <= sight.room;
    packet.gso.is_none() && (is_one || sight.has_frags)
}

/// Takes the slots that belong to the packet that begins with `first`.
///
/// `next` takes the next slot that the backend has published, and has none when it has been asked for all
/// of them. No more slots are taken than belong to the packet, whatever is wrong with it.
pub(crate) fn collect(first: RxResponse, next: impl FnMut() -> Option<RxSlot>) -> Outcome {
    let mut source = Source { next, taken: 1 };
    let mut infos = Infos::default();
    // What was wrong first.
    let mut wrong = None;
    let mut more = first.flags.has_extra_info();
    while more {
        let Some(slot) = source.next() else {
            return Outcome::Incomplete(Rejected {
                reason: wrong.unwrap_or(Reason::MissingExtra),
                slots: source.taken,
            });
        };
        let bytes = slot.extra();
        more = Extra::has_more(bytes);
        match Extra::parse(bytes) {
            Ok((extra, _)) => infos.note(extra),
            Err(error) => wrong = wrong.or(Some(Reason::Extra(error))),
        }
    }
    let extras = source.taken - 1;

    let mut fragments = [Fragment::default(); MOST_SLOTS];
    let (mut count, mut length) = (0, 0);
    let mut response = first;
    loop {
        match infos.piece(response) {
            Ok((offset, size)) => {
                // At most 256 slots of a frame.
                length = size.saturating_add(length);
                if let Some(place) = fragments.get_mut(count) {
                    *place = Fragment {
                        position: if count == 0 { 0 } else { extras + count },
                        offset,
                        length: size,
                    };
                }
            }
            Err(reason) => wrong = wrong.or(Some(reason)),
        }
        count += 1;
        if !response.flags.has_more_data() {
            break;
        }
        let Some(slot) = source.next() else {
            return Outcome::Incomplete(Rejected {
                reason: wrong.unwrap_or(Reason::MissingSlot),
                slots: source.taken,
            });
        };
        response = slot.response();
    }

    let [head, ..] = fragments;
    if count > MIN_SLOTS + usize::from(head.length <= HEAD) {
        wrong = wrong.or(Some(Reason::SlotCount(count)));
    }
    if length < HEADER_SIZE {
        wrong = wrong.or(Some(Reason::NoHeader));
    }
    if let Some(reason) = wrong {
        return Outcome::Rejected(Rejected {
            reason,
            slots: source.taken,
        });
    }
    // INVARIANT: All pieces were found to lie in their frames, and are no more than there is room for.
    Outcome::Packet(Packet {
        fragments,
        count,
        extras,
        length,
        checksum: first.flags.checksum(),
        gso: infos.gso,
        hash: infos.hash,
    })
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
mod tests;
