// SPDX-License-Identifier: GPL-2.0

//! The control ring: by it a frontend says which packet is to come by which queue.
//!
//! The backend makes a hash of each packet's flow and finds the queue in a table. Each request has one
//! response, with the request's id and operation; they may come in any order. What a request's words
//! mean depends on the operation:
//!
//! | operation               | words                        | word of the response              |
//! |-------------------------|------------------------------|-----------------------------------|
//! | `GET_HASH_FLAGS`        |                              | hash kinds that there are         |
//! | `SET_HASH_FLAGS`        | hash kinds                   |                                   |
//! | `SET_HASH_KEY`          | reference, bytes             |                                   |
//! | `GET_HASH_MAPPING_SIZE` |                              | most entries of the table         |
//! | `SET_HASH_MAPPING_SIZE` | entries                      |                                   |
//! | `SET_HASH_MAPPING`      | reference, entries, offset   |                                   |
//! | `SET_HASH_ALGORITHM`    | algorithm                    |                                   |
//! | `GET_GREF_MAPPING_SIZE` | queue                        | most frames that stay mapped      |
//! | `ADD_GREF_MAPPING`      | queue, reference, entries    |                                   |
//! | `DEL_GREF_MAPPING`      | queue, reference, entries    |                                   |
//!
//! A table's entry is a queue's number, of 32 bits.

use super::slots;
use crate::ring::Protocol;
use core::mem::{
    offset_of,
    size_of, //
};

/// Slots of a control ring.
pub const SLOTS: u32 = slots(Control::SLOT_SIZE);

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Operation {
    /// Says which kinds of hashes there are.
    GetHashFlags = 1,
    /// Chooses kinds of hashes.
    SetHashFlags = 2,
    /// Sets the key of the hash.
    SetHashKey = 3,
    /// Says how large the table can be.
    GetHashMappingSize = 4,
    /// Makes a new table, of zeros.
    SetHashMappingSize = 5,
    /// Fills a part of the table.
    SetHashMapping = 6,
    /// Chooses the algorithm of the hash.
    SetHashAlgorithm = 7,
    /// Says how many frames of a queue can stay mapped.
    GetGrefMappingSize = 8,
    /// Has frames of a queue stay mapped.
    AddGrefMapping = 9,
    /// Has frames of a queue no longer stay mapped.
    DeleteGrefMapping = 10,
}

impl Operation {
    /// [`None`] if there is no such operation.
    pub const fn from_wire(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::GetHashFlags,
            2 => Self::SetHashFlags,
            3 => Self::SetHashKey,
            4 => Self::GetHashMappingSize,
            5 => Self::SetHashMappingSize,
            6 => Self::SetHashMapping,
            7 => Self::SetHashAlgorithm,
            8 => Self::GetGrefMappingSize,
            9 => Self::AddGrefMapping,
            10 => Self::DeleteGrefMapping,
            _ => return None,
        })
    }
}

/// How a request was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// It was done.
    Success = 0,
    /// The backend does not do that, or not now.
    NotSupported = 1,
    /// It makes no sense.
    InvalidParameter = 2,
    /// It is too large.
    BufferOverflow = 3,
}

impl Status {
    /// [`None`] if it is none of the protocol's values.
    pub const fn from_wire(status: u32) -> Option<Self> {
        Some(match status {
            0 => Self::Success,
            1 => Self::NotSupported,
            2 => Self::InvalidParameter,
            3 => Self::BufferOverflow,
            _ => return None,
        })
    }
}

/// How hashes are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HashAlgorithm {
    /// Not at all.
    #[default]
    None = 0,
    /// By that of Toeplitz.
    Toeplitz = 1,
}

impl HashAlgorithm {
    /// [`None`] if there is no such algorithm.
    pub const fn from_wire(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Toeplitz,
            _ => return None,
        })
    }
}

/// What a hash is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashKind {
    /// The addresses of an IPv4 packet.
    Ipv4 = 0,
    /// ... and the ports of its TCP header.
    Ipv4Tcp = 1,
    /// The addresses of an IPv6 packet.
    Ipv6 = 2,
    /// ... and the ports of its TCP header.
    Ipv6Tcp = 3,
}

impl HashKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Ipv4, Self::Ipv4Tcp, Self::Ipv6, Self::Ipv6Tcp];

    /// [`None`] if there is no such kind.
    pub const fn from_wire(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Ipv4,
            1 => Self::Ipv4Tcp,
            2 => Self::Ipv6,
            3 => Self::Ipv6Tcp,
            _ => return None,
        })
    }

    /// Its bit in hash flags.
    pub const fn flag(self) -> u32 {
        // CAST: The discriminant is the number of the bit.
        1 << self as u32
    }

    /// Whether ports are a part of it, so that it tells flows between the same two machines apart.
    pub const fn has_ports(self) -> bool {
        matches!(self, Self::Ipv4Tcp | Self::Ipv6Tcp)
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    /// What the response is to be called.
    pub id: u16,
    /// See [`Operation::from_wire`].
    pub operation: u16,
    /// What it means depends on the operation.
    pub words: [u32; 3],
}

impl Request {
    /// A request with these words, those that it does not need being 0.
    pub const fn new(id: u16, operation: Operation, words: [u32; 3]) -> Self {
        Self {
            id,
            // CAST: The discriminant is the value on the wire.
            operation: operation as u16,
            words,
        }
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Response {
    /// The request's id, if the backend is honest.
    pub id: u16,
    /// The request's operation, if the backend is honest.
    pub operation: u16,
    /// See [`Status::from_wire`].
    pub status: u32,
    /// What was asked for, if that is a number.
    pub word: u32,
}

impl Response {
    /// The answer to `request`.
    pub const fn new(request: &Request, status: Status, word: u32) -> Self {
        Self {
            id: request.id,
            operation: request.operation,
            // CAST: The discriminant is the value on the wire.
            status: status as u32,
            word,
        }
    }

    /// Whether it is the answer to `request`.
    pub const fn answers(&self, request: &Request) -> bool {
        self.id == request.id && self.operation == request.operation
    }
}

/// What is spoken on a control ring.
pub struct Control;

// SAFETY: Both types are made of integers whose sizes add up to the type's size (checked below), so
// there is no padding and any bits are valid. The sizes and alignments are checked by
// `Protocol::CHECK`.
unsafe impl Protocol for Control {
    type Request = Request;
    type Response = Response;
    const SLOT_SIZE: usize = 16;
}

const _: () = {
    assert!(SLOTS == 128);

    assert!(size_of::<Request>() == 2 + 2 + 3 * 4);
    assert!(offset_of!(Request, operation) == 2);
    assert!(offset_of!(Request, words) == 4);

    assert!(size_of::<Response>() == 2 + 2 + 4 + 4);
    assert!(offset_of!(Response, operation) == 2);
    assert!(offset_of!(Response, status) == 4);
    assert!(offset_of!(Response, word) == 8);
};

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif_control))]
mod tests {
    use super::*;

    #[test]
    fn every_operation() {
        for number in 0..=u16::MAX {
            let operation = Operation::from_wire(number);
            assert_eq!(operation.is_some(), (1..=10).contains(&number));
            if let Some(operation) = operation {
                let request = Request::new(7, operation, [1, 2, 3]);
                assert_eq!(request.operation, number);
            }
        }
    }

    #[test]
    fn answers_name_their_request() {
        for (number, status) in [
            (0, Status::Success),
            (1, Status::NotSupported),
            (2, Status::InvalidParameter),
            (3, Status::BufferOverflow),
        ] {
            let request = Request {
                id: 0x1234,
                operation: 0xffff,
                words: [0; 3],
            };
            let response = Response::new(&request, status, 0x5678);
            let expected = Response {
                id: 0x1234,
                operation: 0xffff,
                status: number,
                word: 0x5678,
            };
            assert_eq!(response, expected);
            assert_eq!(Status::from_wire(number), Some(status));
        }
        for junk in [4, 5, u32::MAX] {
            assert_eq!(Status::from_wire(junk), None);
        }
    }

    #[test]
    fn hashes() {
        let mut all = 0;
        for (number, kind) in (0u8..).zip(HashKind::ALL) {
            assert_eq!(HashKind::from_wire(number), Some(kind));
            assert_eq!(kind.flag(), 1 << number);
            assert_eq!(kind.has_ports(), number & 1 != 0);
            all |= kind.flag();
        }
        assert_eq!(all, 0xf);
        for junk in 4..=u8::MAX {
            assert_eq!(HashKind::from_wire(junk), None);
        }
        assert_eq!(HashAlgorithm::from_wire(0), Some(HashAlgorithm::None));
        assert_eq!(HashAlgorithm::from_wire(1), Some(HashAlgorithm::Toeplitz));
        for junk in [2, 256, u32::MAX] {
            assert_eq!(HashAlgorithm::from_wire(junk), None);
        }
    }
}
