// SPDX-License-Identifier: GPL-2.0

//! How a packet becomes slots of the ring.
//!
//! Pure logic, tested on the host and by KUnit.

use super::groups::Change;
use crate::netif::{
    Checksum,
    Extra,
    Gso,
    Hash,
    TxFlags,
    TxRequest,
    TxSlot,
    FRAME_SIZE,
    HEADER_SIZE,
    MAX_PACKET,
    MIN_SLOTS, //
};

/// Most slots with data that a packet may have: so many every backend takes.
pub(crate) const MOST_SLOTS: usize = MIN_SLOTS;

/// Most slots that a packet may take, extra infos included.
pub(crate) const MOST_MESSAGES: usize = MOST_SLOTS + 2;

/// Slots of a [`message`].
pub(crate) const MESSAGE_SLOTS: u32 = 2;

/// What says which multicast packets are wanted: a request without data, whose response is to be called `id`, and
/// an extra info.
pub(crate) fn message(change: Change, id: u16) -> [TxSlot; 2] {
    let request = TxRequest {
        gref: 0,
        offset: 0,
        flags: TxFlags::default().with_extra_info(true),
        id,
        size: 0,
    };
    let extra = match change {
        Change::Add(address) => Extra::MulticastAdd(address),
        Change::Delete(address) => Extra::MulticastDelete(address),
    };
    [request.into(), TxSlot::from_extra(extra.to_bytes(false))]
}

/// A piece of a packet's memory that lies in one frame of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<F> {
    /// The frame.
    pub(crate) frame: F,
    /// Where in the frame it starts, in bytes.
    pub(crate) offset: u32,
    /// How long it is, in bytes. Of 0 bytes nothing is sent.
    pub(crate) length: u32,
}

impl<F> Piece<F> {
    fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn is_in_frame(&self) -> bool {
        (self.offset.checked_add(self.length)).is_some_and(|end| end <= FRAME_SIZE)
    }
}

/// What is said of a packet besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Info {
    /// Its length in bytes.
    pub(crate) length: u32,
    /// What is known of its checksum.
    pub(crate) checksum: Checksum,
    /// How it is to be cut into several.
    pub(crate) gso: Option<Gso>,
    /// The hash of its flow.
    pub(crate) hash: Option<Hash>,
}

/// Why a packet cannot be sent as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is longer than can be said.
    TooLong,
    /// It has no Ethernet header.
    NoHeader,
    /// It is in too many pieces: it must be copied to memory in one.
    Linearize,
    /// Its Ethernet header is in more than one piece: its head must be copied to the start of a page.
    CopyHead,
    /// Its pieces are not as long together as it is, or do not lie in their frames: who counted them was
    /// wrong.
    Inconsistent,
}

/// A packet that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    info: Info,
    /// Pieces that are not empty; at least one.
    pieces: usize,
}

impl Layout {
    /// How the packet whose memory is `pieces` is sent.
    ///
    /// # Errors
    ///
    /// What must be done before. A packet that had to be copied may have to be looked at again: of what
    /// is in its way only the first is told.
    pub(crate) fn new<F>(
        info: Info,
        pieces: impl Iterator<Item = Piece<F>>,
    ) -> Result<Self, Obstacle> {
        if info.length > MAX_PACKET {
            return Err(Obstacle::TooLong);
        }
        if info.length < HEADER_SIZE {
            return Err(Obstacle::NoHeader);
        }
        let (mut count, mut first, mut rest) = (0, 0, info.length);
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            if !piece.is_in_frame() {
                return Err(Obstacle::Inconsistent);
            }
            // None of them is empty, so that there is an end to it.
            rest = (rest.checked_sub(piece.length)).ok_or(Obstacle::Inconsistent)?;
            if count == 0 {
                first = piece.length;
            }
            count += 1;
        }
        if rest > 0 {
            return Err(Obstacle::Inconsistent);
        }
        if count > MOST_SLOTS {
            return Err(Obstacle::Linearize);
        }
        if first < HEADER_SIZE {
            return Err(Obstacle::CopyHead);
        }
        Ok(Self {
            info,
            pieces: count,
        })
    }

    /// How many grants and ids the packet takes.
    #[inline]
    pub(crate) fn pieces(&self) -> usize {
        self.pieces
    }

    /// How many slots the packet takes, at most [`MOST_MESSAGES`].
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        self.pieces + self.extras().count()
    }

    /// The extra infos, in order.
    fn extras(&self) -> impl Iterator<Item = Extra> {
        let gso = self.info.gso.map(Extra::Gso);
        gso.into_iter().chain(self.info.hash.map(Extra::Hash))
    }

    /// What is to be written to the slots, in order: of the first piece, the extra infos, and of the other
    /// pieces. `pieces` are those that the layout was made of.
    pub(crate) fn messages<F>(
        &self,
        pieces: impl Iterator<Item = Piece<F>>,
    ) -> impl Iterator<Item = Message<F>> {
        let (info, count) = (self.info, self.pieces);
        let mut pieces = (1..)
            .zip(pieces.filter(|piece| !piece.is_empty()))
            .take(count);
        let mut extras = self.extras().peekable();
        let has_extras = extras.peek().is_some();
        let mut is_first = true;
        core::iter::from_fn(move || {
            if !is_first {
                if let Some(extra) = extras.next() {
                    let more = extras.peek().is_some();
                    return Some(Message::Extra(extra.to_bytes(more)));
                }
            }
            let (number, piece) = pieces.next()?;
            let flags = TxFlags::default().with_more_data(number < count);
            let (flags, size) = if is_first {
                let flags = flags.with_checksum(info.checksum);
                (flags.with_extra_info(has_extras), info.length)
            } else {
                (flags, piece.length)
            };
            is_first = false;
            Some(Message::Data(Data { piece, flags, size }))
        })
    }
}

/// What a slot says of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data<F> {
    /// The piece, of which the frame must be granted.
    pub(crate) piece: Piece<F>,
    flags: TxFlags,
    size: u32,
}

impl<F> Data<F> {
    /// The request, if the frame is granted as `gref` and its response is to be called `id`.
    #[inline]
    pub(crate) fn request(&self, gref: u32, id: u16) -> TxRequest {
        TxRequest {
            gref,
            // CAST: It lies in a frame.
            offset: self.piece.offset as u16,
            flags: self.flags,
            id,
            // CAST: No packet is longer than that.
            size: self.size as u16,
        }
    }
}

/// What is to be written to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<F> {
    /// A request for a piece.
    Data(Data<F>),
    /// An extra info, see [`TxSlot::from_extra`].
    Extra([u8; Extra::SIZE]),
}

impl<F> Message<F> {
    /// The slot. `grant` grants the frame of a piece and finds an id for it.
    #[inline]
    pub(crate) fn slot<E>(
        &self,
        grant: impl FnOnce(&Piece<F>) -> Result<(u32, u16), E>,
    ) -> Result<TxSlot, E> {
        Ok(match self {
            Self::Data(data) => {
                let (gref, id) = grant(&data.piece)?;
                data.request(gref, id).into()
            }
            Self::Extra(bytes) => TxSlot::from_extra(*bytes),
        })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_transmit))]
mod tests {
    use super::*;
    use crate::netif::GsoKind;

    const GSO: Gso = Gso {
        size: 1448,
        kind: GsoKind::TcpV4,
    };

    const HASH: Hash = Hash {
        kind: 1,
        algorithm: 1,
        value: 0x1234_5678,
    };

    const fn info(length: u32) -> Info {
        Info {
            length,
            checksum: Checksum::Unknown,
            gso: None,
            hash: None,
        }
    }

    #[test]
    fn messages_of_multicast_packets() {
        for (change, kind) in [(Change::Add([1; 6]), 2), (Change::Delete([1; 6]), 3)] {
            let [first, second] = message(change, 77);
            let request = first.request();
            assert_eq!((request.id, request.size, request.gref), (77, 0, 0));
            assert!(request.flags.has_extra_info() && !request.flags.has_more_data());
            assert_eq!(second.extra(), [kind, 0, 1, 1, 1, 1, 1, 1]);
        }
    }

    /// Pieces of memory in one, of which the first starts at `offset` of its frame.
    fn linear(offset: u32, length: u32) -> impl Iterator<Item = Piece<u32>> + Clone {
        let end = offset + length;
        (0..end.div_ceil(FRAME_SIZE)).map(move |frame| {
            let start = (frame * FRAME_SIZE).max(offset);
            Piece {
                frame,
                offset: start % FRAME_SIZE,
                length: end.min((frame + 1) * FRAME_SIZE) - start,
            }
        })
    }

    /// Checks that the slots are a packet: grants are 100 and the frame's number, ids the order.
    fn check(
        info: Info,
        layout: Layout,
        pieces: impl Iterator<Item = Piece<u32>> + Clone,
    ) -> Result<(), &'static str> {
        let ensure = |holds: bool, otherwise| if holds { Ok(()) } else { Err(otherwise) };
        let mut slots = 0;
        let mut id = 0;
        let mut rest = info.length;
        let mut first_size = 0;
        let mut more_data = true;
        let mut more_extras = false;
        let mut expected = pieces.clone().filter(|piece| piece.length > 0);
        for message in layout.messages(pieces) {
            slots += 1;
            let slot = message.slot(|piece| {
                ensure(piece.length > 0, "an empty piece")?;
                id += 1;
                Ok::<_, &'static str>((100 + piece.frame, id))
            })?;
            if more_extras {
                let (extra, more) = Extra::parse(slot.extra()).map_err(|_| "not an extra info")?;
                more_extras = more;
                match extra {
                    Extra::Gso(gso) => ensure(info.gso == Some(gso), "another GSO info")?,
                    Extra::Hash(hash) => ensure(info.hash == Some(hash), "another hash")?,
                    _ => return Err("an info that nobody wanted"),
                }
                continue;
            }
            let request = slot.request();
            let piece = expected.next().ok_or("more pieces than there are")?;
            ensure(more_data, "a slot behind the last one")?;
            ensure(request.id == id, "another id")?;
            ensure(request.gref == 100 + piece.frame, "another frame")?;
            ensure(u32::from(request.offset) == piece.offset, "another place")?;
            more_data = request.flags.has_more_data();
            if id == 1 {
                ensure(u32::from(request.size) == info.length, "another length")?;
                ensure(piece.length >= 14, "a header in pieces")?;
                ensure(
                    request.flags.checksum() == info.checksum,
                    "another checksum",
                )?;
                more_extras = request.flags.has_extra_info();
                let wanted = info.gso.is_some() || info.hash.is_some();
                ensure(more_extras == wanted, "infos that are not there")?;
                first_size = piece.length;
            } else {
                ensure(u32::from(request.size) == piece.length, "another size")?;
                let flags = TxFlags::default().with_more_data(more_data);
                ensure(request.flags == flags, "flags behind the first slot")?;
                rest = rest.checked_sub(piece.length).ok_or("too many bytes")?;
            }
        }
        ensure(!more_data && !more_extras, "an end too early")?;
        ensure(expected.next().is_none(), "pieces left behind")?;
        ensure(rest == first_size, "what is left is not the first piece")?;
        ensure(slots == layout.slots(), "not the slots that were counted")?;
        ensure(usize::from(id) == layout.pieces(), "not the pieces")?;
        ensure(layout.pieces() <= 18, "too many slots for some backends")?;
        ensure(slots <= MOST_MESSAGES, "too many slots")
    }

    #[test]
    fn a_piece_is_a_request() -> Result<(), Obstacle> {
        let pieces = linear(66, 1514);
        let layout = Layout::new(info(1514), pieces.clone())?;
        assert_eq!((layout.slots(), layout.pieces()), (1, 1));
        let mut messages = layout.messages(pieces);
        let slot = messages.next().map(|message| {
            message.slot(|piece| {
                assert_eq!(piece.frame, 0);
                Ok::<_, ()>((7, 9))
            })
        });
        let request = TxRequest {
            gref: 7,
            offset: 66,
            flags: TxFlags::default(),
            id: 9,
            size: 1514,
        };
        assert_eq!(slot, Some(Ok(request.into())));
        assert_eq!(messages.next(), None);
        Ok(())
    }

    #[test]
    fn infos_are_behind_the_first_slot() -> Result<(), &'static str> {
        for checksum in [Checksum::Unknown, Checksum::Blank, Checksum::Validated] {
            for gso in [None, Some(GSO)] {
                for hash in [None, Some(HASH)] {
                    for length in [60, 9000] {
                        let info = Info {
                            length,
                            checksum,
                            gso,
                            hash,
                        };
                        let pieces = linear(2, length);
                        let layout =
                            Layout::new(info, pieces.clone()).map_err(|_| "an obstacle")?;
                        check(info, layout, pieces)?;
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn no_grant_no_slot() -> Result<(), Obstacle> {
        let layout = Layout::new(info(60), linear(0, 60))?;
        let slot = |message: Message<u32>| message.slot(|_| Err("no grants left"));
        let mut slots = layout.messages(linear(0, 60)).map(slot);
        assert_eq!(slots.next(), Some(Err("no grants left")));
        Ok(())
    }

    #[test]
    fn lengths_that_can_be_said() -> Result<(), &'static str> {
        for length in [14, 15, 60, 4096, 4097, 65_534, 65_535] {
            for offset in [0, 1, 2048, 4082] {
                let pieces = linear(offset, length);
                let layout =
                    Layout::new(info(length), pieces.clone()).map_err(|_| "an obstacle")?;
                check(info(length), layout, pieces)?;
            }
        }
        for length in [65_536, 70_000, u32::MAX] {
            let layout = Layout::new(info(length), linear(0, 100));
            assert_eq!(layout, Err(Obstacle::TooLong));
        }
        for length in 0..14 {
            let layout = Layout::new(info(length), linear(0, length));
            assert_eq!(layout, Err(Obstacle::NoHeader));
        }
        Ok(())
    }

    #[test]
    fn headers_are_in_one_piece() {
        for offset in 0..4096 {
            let layout = Layout::new(info(60), linear(offset, 60));
            let expected = if offset <= 4082 {
                Ok(if offset <= 4036 { 1 } else { 2 })
            } else {
                Err(Obstacle::CopyHead)
            };
            assert_eq!(layout.map(|layout| layout.slots()), expected);
        }
    }

    /// So many pieces of 100 bytes each, one in each frame.
    fn scattered(count: usize) -> impl Iterator<Item = Piece<usize>> + Clone {
        (0..count).map(|frame| Piece {
            frame,
            offset: 0,
            length: 100,
        })
    }

    #[test]
    fn no_more_slots_than_backends_take() {
        for count in 1..=30 {
            let layout = Layout::new(info(100 * count as u32), scattered(count));
            let expected = if count <= 18 {
                Ok(count)
            } else {
                Err(Obstacle::Linearize)
            };
            assert_eq!(layout.map(|layout| layout.slots()), expected);
        }
    }

    #[test]
    fn empty_pieces_are_left_out() -> Result<(), &'static str> {
        let piece = |frame, length| Piece {
            frame,
            offset: 4096 - length,
            length,
        };
        let pieces = [
            piece(0, 0),
            piece(1, 60),
            piece(2, 0),
            piece(3, 40),
            piece(4, 0),
        ];
        let pieces = pieces.iter().copied();
        let layout = Layout::new(info(100), pieces.clone()).map_err(|_| "an obstacle")?;
        assert_eq!(layout.pieces(), 2);
        check(info(100), layout, pieces)
    }

    #[test]
    fn pieces_are_the_packet() {
        for (length, offset, size) in [
            (100, 0, 99),
            (100, 0, 101),
            (100, 0, 0),
            (4097, 0, 4097),
            (100, 4000, 97),
            (100, u32::MAX, 100),
            (100, 100, u32::MAX),
        ] {
            let piece = Piece {
                frame: (),
                offset,
                length: size,
            };
            let layout = Layout::new(info(length), [piece].into_iter());
            assert_eq!(layout, Err(Obstacle::Inconsistent));
        }
        // Counting ends when there are more bytes than there can be.
        let endless = core::iter::repeat(Piece {
            frame: (),
            offset: 0,
            length: 1,
        });
        let layout = Layout::new(info(65_535), endless);
        assert_eq!(layout, Err(Obstacle::Inconsistent));
    }

    #[test]
    fn whatever_memory_it_is_in() -> Result<(), &'static str> {
        let mut state = 0x1234_5678u32;
        let mut random = |limit: u32| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % limit
        };
        let mut seen = [0; 3];
        for _ in 0..3000 {
            let mut all = [Piece {
                frame: 0,
                offset: 0,
                length: 0,
            }; 24];
            let count = 1 + random(24) as usize;
            let most = [20, 300, 2700][random(3) as usize];
            let mut length = 0;
            for (frame, piece) in (0..).zip(&mut all[..count]) {
                let size = random(most);
                *piece = Piece {
                    frame,
                    offset: random(4097 - size),
                    length: size,
                };
                length += size;
            }
            let info = Info {
                length,
                checksum: Checksum::Blank,
                gso: (random(2) > 0).then_some(GSO),
                hash: (random(2) > 0).then_some(HASH),
            };
            let pieces = all.iter().copied().take(count);
            let mut full = pieces.clone().filter(|piece| piece.length > 0);
            match Layout::new(info, pieces.clone()) {
                Ok(layout) => {
                    seen[0] += 1;
                    check(info, layout, pieces)?;
                }
                Err(Obstacle::Linearize) => {
                    seen[1] += 1;
                    assert!(full.count() > 18);
                }
                Err(Obstacle::CopyHead) => {
                    seen[2] += 1;
                    assert!(full.next().is_some_and(|first| first.length < 14));
                }
                Err(Obstacle::NoHeader) => assert!(length < 14),
                Err(_) => return Err("an obstacle that is not there"),
            }
        }
        // All of that has been tried.
        for count in seen {
            assert!(count > 100);
        }
        Ok(())
    }
}
