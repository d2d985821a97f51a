// SPDX-License-Identifier: GPL-2.0

//! The network protocol.
//!
//! A device has one or more queues, each with two rings. On one the frontend transmits: a request
//! names a part of a frame that it grants, and a response says that the frame is its own again. On
//! the other it receives: a request offers a frame, and a response says what has been put there. There
//! may be a [control ring](control) besides.
//!
//! A packet takes one or more slots of its ring, in this order: the first piece of its data, then
//! [`Extra`] infos if the first slot's flags say so, then the other pieces. An extra info lies in a
//! slot like any other, where there would be a request or a response, so that what a slot is can only
//! be told from the slots before it. This is why [`TxSlot`] and [`RxSlot`] are taken from the ring as
//! they are, and then asked for what they are known to be.
//!
//! | ring     | slot | the frontend writes         | the backend writes       |
//! |----------|------|-----------------------------|--------------------------|
//! | transmit | 12   | [`TxRequest`] or [`Extra`]  | [`TxResponse`]           |
//! | receive  | 8    | [`RxRequest`]               | [`RxResponse`], [`Extra`]|
//! | control  | 16   | [`control::Request`]        | [`control::Response`]    |
//!
//! A piece of data never leaves its granted frame of 4 KiB ([`FRAME_SIZE`]). Numbers are little-endian.
//!
//! Xen's public header: `xen/include/public/io/netif.h`.

mod address;
pub mod control;
mod extra;
mod flags;
mod offload;

pub use self::{
    address::parse_address,
    extra::{
        Extra,
        ExtraError,
        Gso,
        GsoKind,
        Hash, //
    },
    flags::{
        Checksum,
        RxFlags,
        TxFlags, //
    },
    offload::{
        is_on,
        OffloadKeys,
        Offloads, //
    },
};

use crate::ring::{
    Entries,
    Protocol, //
};
use core::mem::{
    align_of,
    offset_of,
    size_of, //
};

/// Size of a granted frame, in bytes.
pub const FRAME_SIZE: u32 = 4096;

/// Slots with data that every backend takes for one packet.
pub const MIN_SLOTS: usize = 18;

/// Most bytes of a packet that a frontend transmits: its length is a number of 16 bits.
pub const MAX_PACKET: u32 = 0xffff;

/// Bytes of an Ethernet header, the least that a packet has.
pub const HEADER_SIZE: u32 = 14;

/// Slots of a ring that is one page, as all rings of this protocol are.
const fn slots(slot_size: usize) -> u32 {
    // CAST: `u32` fits into `usize` on every machine that runs Linux.
    match Entries::of(FRAME_SIZE as usize, slot_size) {
        Some(entries) => entries.count(),
        None => 0,
    }
}

/// Slots of a transmit ring.
pub const TX_SLOTS: u32 = slots(Tx::SLOT_SIZE);

/// Slots of a receive ring.
pub const RX_SLOTS: u32 = slots(Rx::SLOT_SIZE);

/// How a request was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Status {
    /// The packet was not sent on, and that is nobody's fault.
    Dropped = -2,
    /// It could not be sent on.
    Error = -1,
    /// It was sent on.
    Okay = 0,
    /// The slot had an extra info, which has no answer of its own.
    Null = 1,
}

impl Status {
    /// Whatever is not one of the protocol's values is an error.
    pub const fn from_wire(status: i16) -> Self {
        match status {
            -2 => Self::Dropped,
            0 => Self::Okay,
            1 => Self::Null,
            _ => Self::Error,
        }
    }

    /// The value on the wire.
    pub const fn to_wire(self) -> i16 {
        // CAST: The discriminant is the value on the wire.
        self as i16
    }
}

/// A slot of a transmit ring as the frontend has filled it: a request, or an extra info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TxSlot {
    words: [u32; 3],
}

impl TxSlot {
    /// The request that it is, unless the slots before say that it is something else.
    #[inline]
    pub const fn request(self) -> TxRequest {
        let [gref, second, third] = self.words;
        let [a, b, c, d] = second.to_ne_bytes();
        let [e, f, g, h] = third.to_ne_bytes();
        TxRequest {
            gref: u32::from_le(gref),
            offset: u16::from_le_bytes([a, b]),
            flags: TxFlags::new(u16::from_le_bytes([c, d])),
            id: u16::from_le_bytes([e, f]),
            size: u16::from_le_bytes([g, h]),
        }
    }

    /// The bytes of the extra info that it is, if the slots before say so.
    #[inline]
    pub const fn extra(self) -> [u8; Extra::SIZE] {
        let [first, second, _] = self.words;
        let [a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h] = second.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// A slot with an extra info, see [`Extra::to_bytes`].
    #[inline]
    pub const fn from_extra(bytes: [u8; Extra::SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            words: [
                u32::from_ne_bytes([a, b, c, d]),
                u32::from_ne_bytes([e, f, g, h]),
                0,
            ],
        }
    }
}

impl From<TxRequest> for TxSlot {
    #[inline]
    fn from(request: TxRequest) -> Self {
        let [a, b] = request.offset.to_le_bytes();
        let [c, d] = request.flags.bits().to_le_bytes();
        let [e, f] = request.id.to_le_bytes();
        let [g, h] = request.size.to_le_bytes();
        Self {
            words: [
                request.gref.to_le(),
                u32::from_ne_bytes([a, b, c, d]),
                u32::from_ne_bytes([e, f, g, h]),
            ],
        }
    }
}

/// A piece of a packet that the frontend transmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TxRequest {
    /// Grant reference of the frame that it is in.
    pub gref: u32,
    /// Where in the frame it starts, in bytes; anything, if the frontend is not honest.
    pub offset: u16,
    /// What is said of it, and what follows.
    pub flags: TxFlags,
    /// What the response is to be called.
    pub id: u16,
    /// Its length in bytes, but in the first slot of a packet the length of all of it.
    pub size: u16,
}

/// The answer to a slot of a transmit ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TxResponse {
    /// The request's id, if the backend is honest; of an extra info nothing.
    pub id: u16,
    /// See [`Status::from_wire`].
    pub status: i16,
}

impl TxResponse {
    /// The answer to the request `id`.
    pub const fn new(id: u16, status: Status) -> Self {
        Self {
            id,
            status: status.to_wire(),
        }
    }

    /// The answer to an extra info.
    pub const fn null() -> Self {
        Self::new(0, Status::Null)
    }

    /// How the request was met.
    pub const fn status(self) -> Status {
        Status::from_wire(self.status)
    }
}

/// A frame that the frontend offers for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RxRequest {
    /// What the response is to be called. Linux' frontend does not look at that: the response must
    /// be in the slot of the request.
    pub id: u16,
    padding: u16,
    /// Grant reference of the frame.
    pub gref: u32,
}

impl RxRequest {
    /// Offers the frame that is granted as `gref`.
    pub const fn new(id: u16, gref: u32) -> Self {
        Self {
            id,
            padding: 0,
            gref,
        }
    }
}

/// A slot of a receive ring as the backend has filled it: a response, or an extra info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RxSlot {
    words: [u32; 2],
}

impl RxSlot {
    /// The response that it is, unless the slots before say that it is something else.
    #[inline]
    pub const fn response(self) -> RxResponse {
        let [a, b, c, d, e, f, g, h] = self.extra();
        RxResponse {
            id: u16::from_le_bytes([a, b]),
            offset: u16::from_le_bytes([c, d]),
            flags: RxFlags::new(u16::from_le_bytes([e, f])),
            status: i16::from_le_bytes([g, h]),
        }
    }

    /// The bytes of the extra info that it is, if the slots before say so.
    #[inline]
    pub const fn extra(self) -> [u8; Extra::SIZE] {
        let [first, second] = self.words;
        let [a, b, c, d] = first.to_ne_bytes();
        let [e, f, g, h] = second.to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// A slot with an extra info, see [`Extra::to_bytes`].
    #[inline]
    pub const fn from_extra(bytes: [u8; Extra::SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self {
            words: [
                u32::from_ne_bytes([a, b, c, d]),
                u32::from_ne_bytes([e, f, g, h]),
            ],
        }
    }
}

impl From<RxResponse> for RxSlot {
    #[inline]
    fn from(response: RxResponse) -> Self {
        let [a, b] = response.id.to_le_bytes();
        let [c, d] = response.offset.to_le_bytes();
        let [e, f] = response.flags.bits().to_le_bytes();
        let [g, h] = response.status.to_le_bytes();
        Self::from_extra([a, b, c, d, e, f, g, h])
    }
}

/// A piece of a packet that the frontend receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RxResponse {
    /// The request's id, if the backend is honest.
    pub id: u16,
    /// Where in the frame it starts, in bytes; anything, if the backend is not honest.
    pub offset: u16,
    /// What is said of it, and what follows.
    pub flags: RxFlags,
    /// Its length in bytes; less than 0 if there is none for something went wrong.
    pub status: i16,
}

/// What is spoken on a transmit ring.
pub struct Tx;

// SAFETY: Both types are made of integers whose sizes add up to the type's size (checked below), so
// there is no padding and any bits are valid. The sizes and alignments are checked by
// `Protocol::CHECK`.
unsafe impl Protocol for Tx {
    type Request = TxSlot;
    type Response = TxResponse;
    const SLOT_SIZE: usize = 12;
}

/// What is spoken on a receive ring.
pub struct Rx;

// SAFETY: As for `Tx`.
unsafe impl Protocol for Rx {
    type Request = RxRequest;
    type Response = RxSlot;
    const SLOT_SIZE: usize = 8;
}

const _: () = {
    assert!(TX_SLOTS == 256);
    assert!(RX_SLOTS == 256);

    assert!(size_of::<TxRequest>() == 4 + 2 + 2 + 2 + 2);
    assert!(offset_of!(TxRequest, offset) == 4);
    assert!(offset_of!(TxRequest, flags) == 6);
    assert!(offset_of!(TxRequest, id) == 8);
    assert!(offset_of!(TxRequest, size) == 10);
    assert!(size_of::<TxSlot>() == size_of::<TxRequest>());
    assert!(align_of::<TxSlot>() == align_of::<TxRequest>());

    assert!(size_of::<TxResponse>() == 2 + 2);
    assert!(offset_of!(TxResponse, status) == 2);

    assert!(size_of::<RxRequest>() == 2 + 2 + 4);
    assert!(offset_of!(RxRequest, gref) == 4);

    assert!(size_of::<RxResponse>() == 2 + 2 + 2 + 2);
    assert!(offset_of!(RxResponse, offset) == 2);
    assert!(offset_of!(RxResponse, flags) == 4);
    assert!(offset_of!(RxResponse, status) == 6);
    assert!(size_of::<RxSlot>() == size_of::<RxResponse>());
};

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif))]
mod tests {
    use super::*;

    /// The bytes of a message in memory, which are those on the wire.
    fn bytes<T: Copy, const SIZE: usize>(message: T) -> [u8; SIZE] {
        const { assert!(size_of::<T>() == SIZE) };
        // SAFETY: Both have the same size, and messages have no padding.
        unsafe { core::mem::transmute_copy(&message) }
    }

    const TX: TxRequest = TxRequest {
        gref: 0xdead_beef,
        offset: 0x1122,
        flags: TxFlags::new(0x3344),
        id: 0x5566,
        size: 0x7788,
    };

    const TX_BYTES: [u8; 12] = [
        0xef, 0xbe, 0xad, 0xde, 0x22, 0x11, 0x44, 0x33, 0x66, 0x55, 0x88, 0x77,
    ];

    #[test]
    fn transmit_requests_on_the_wire() {
        assert_eq!(bytes::<_, 12>(TX), TX_BYTES);
        assert_eq!(bytes::<_, 12>(TxSlot::from(TX)), TX_BYTES);
        assert_eq!(TxSlot::from(TX).request(), TX);
    }

    #[test]
    fn transmit_slots_hold_extra_infos() {
        let extra = [1, 2, 3, 4, 5, 6, 7, 8];
        let slot = TxSlot::from_extra(extra);
        assert_eq!(slot.extra(), extra);
        // Nothing of this kernel's memory goes to the other domain.
        let wire = [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0];
        assert_eq!(bytes::<_, 12>(slot), wire);
        let start = [0xef, 0xbe, 0xad, 0xde, 0x22, 0x11, 0x44, 0x33];
        assert_eq!(TxSlot::from(TX).extra(), start);
    }

    #[test]
    fn transmit_responses_on_the_wire() {
        for (status, low, high) in [
            (Status::Dropped, 0xfe, 0xff),
            (Status::Error, 0xff, 0xff),
            (Status::Okay, 0, 0),
            (Status::Null, 1, 0),
        ] {
            let response = TxResponse::new(0x1234, status);
            assert_eq!(bytes::<_, 4>(response), [0x34, 0x12, low, high]);
            assert_eq!(response.status(), status);
            assert_eq!(Status::from_wire(status.to_wire()), status);
        }
        assert_eq!(bytes::<_, 4>(TxResponse::null()), [0, 0, 1, 0]);
        for junk in [2, 3, -3, i16::MIN, i16::MAX] {
            assert_eq!(Status::from_wire(junk), Status::Error);
        }
    }

    #[test]
    fn receive_requests_on_the_wire() {
        let request = RxRequest::new(0x1234, 0xdead_beef);
        let wire = [0x34, 0x12, 0, 0, 0xef, 0xbe, 0xad, 0xde];
        assert_eq!(bytes::<_, 8>(request), wire);
    }

    #[test]
    fn receive_responses_on_the_wire() {
        let response = RxResponse {
            id: 0x1122,
            offset: 0x3344,
            flags: RxFlags::new(0x5566),
            status: -2,
        };
        let wire = [0x22, 0x11, 0x44, 0x33, 0x66, 0x55, 0xfe, 0xff];
        assert_eq!(bytes::<_, 8>(response), wire);
        let slot = RxSlot::from(response);
        assert_eq!(bytes::<_, 8>(slot), wire);
        assert_eq!(slot.response(), response);
        assert_eq!(slot.extra(), wire);
        assert_eq!(RxSlot::from_extra(wire), slot);
    }

    #[test]
    fn a_packet_fits_into_the_least_slots() {
        // However it lies in memory: a page begins and ends in the midst of a frame.
        assert!(MAX_PACKET.div_ceil(FRAME_SIZE) as usize + 1 < MIN_SLOTS);
    }
}
