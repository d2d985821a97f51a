// SPDX-License-Identifier: GPL-2.0

//! Requests and responses of the block protocol, in the layouts of both x86 ABIs.
//!
//! C header: `include/xen/interface/io/blkif.h`.

use crate::gntdev::Piece;

/// Bytes of a sector on the wire, whatever the disk's own sectors are.
pub const SECTOR: u64 = 512;

/// Segments that fit into a request.
pub const MAX_DIRECT: usize = 11;

/// Pages of segments that an indirect request can name.
pub const MAX_INDIRECT_PAGES: usize = 8;

/// Segments in one page of an indirect request.
pub const SEGMENTS_PER_PAGE: usize = 512;

/// Bytes of a segment.
pub const SEGMENT: usize = 8;

/// Bytes that any request fits into.
pub const MAX_REQUEST: usize = 112;

/// Operations.
pub mod op {
    /// Read.
    pub const READ: u8 = 0;
    /// Write.
    pub const WRITE: u8 = 1;
    /// Write after everything before, and before everything after.
    pub const WRITE_BARRIER: u8 = 2;
    /// Flush the write cache.
    pub const FLUSH: u8 = 3;
    /// Forget sectors.
    pub const DISCARD: u8 = 5;
    /// Read or write with the segments in pages of their own.
    pub const INDIRECT: u8 = 6;
}

/// Outcomes of a request.
pub mod status {
    /// Done.
    pub const OKAY: i16 = 0;
    /// Failed.
    pub const ERROR: i16 = -1;
    /// The operation is not supported.
    pub const EOPNOTSUPP: i16 = -2;
}

/// Layout of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// 64-bit x86, with padding before the id.
    X86_64,
    /// 32-bit x86, without.
    X86_32,
}

impl Abi {
    /// Reads the frontend's `protocol` key; without one the frontend is a 32-bit one.
    pub fn parse(protocol: Option<&str>) -> Option<Self> {
        match protocol {
            Some("x86_64-abi") => Some(Self::X86_64),
            None | Some("x86_32-abi") => Some(Self::X86_32),
            Some(_) => None,
        }
    }

    /// Bytes of a slot of the ring.
    pub fn slot(self) -> usize {
        match self {
            Self::X86_64 => 112,
            Self::X86_32 => 108,
        }
    }

    /// Where the id is; everything after it moves along.
    fn id(self) -> usize {
        match self {
            Self::X86_64 => 8,
            Self::X86_32 => 4,
        }
    }
}

/// A run of sectors in one granted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The grant.
    pub gref: u32,
    /// First sector in the page.
    pub first: u8,
    /// Last sector in the page.
    pub last: u8,
}

impl Segment {
    /// Reads one segment.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            gref: u32_at(bytes, 0),
            first: bytes[4],
            last: bytes[5],
        }
    }

    /// Whether the sectors are in order and in the page.
    pub fn is_sane(&self) -> bool {
        self.first <= self.last && self.last < 8
    }

    /// The bytes of the page; only for a sane segment.
    pub fn piece(&self) -> Piece {
        Piece {
            gref: self.gref,
            offset: u16::from(self.first) * SECTOR as u16,
            len: u16::from(self.last - self.first + 1) * SECTOR as u16,
        }
    }
}

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Read, write, barrier or flush, with its segments.
    Direct(Vec<Segment>),
    /// Read or write, by number of the inner operation, with segments in other pages.
    Indirect {
        /// [`op::READ`] or [`op::WRITE`].
        inner: u8,
        /// Number of segments.
        segments: usize,
        /// The pages they are in.
        pages: Vec<u32>,
    },
    /// Forget this many sectors.
    Discard {
        /// Number of sectors.
        sectors: u64,
    },
    /// Something that breaks the protocol.
    Malformed(&'static str),
}

/// A request of the frontend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Operation, as in the slot.
    pub operation: u8,
    /// Chosen by the frontend.
    pub id: u64,
    /// First sector on the disk.
    pub sector: u64,
    /// The rest.
    pub body: Body,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | (u32::from(u16_at(bytes, at + 2)) << 16)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | (u64::from(u32_at(bytes, at + 4)) << 32)
}

impl Request {
    /// Reads the request in a private copy of a slot.
    ///
    /// # Panics
    ///
    /// Panics if `slot` is shorter than a request of this ABI.
    pub fn parse(abi: Abi, slot: &[u8]) -> Self {
        let operation = slot[0];
        let at = abi.id();
        let rest = at + 16;
        let body = match operation {
            op::READ | op::WRITE | op::WRITE_BARRIER | op::FLUSH => {
                Self::parse_direct(operation, slot[1], &slot[rest..])
            }
            op::INDIRECT => Self::parse_indirect(slot[1], u16_at(slot, 2), &slot[rest + 4..]),
            op::DISCARD => Body::Discard {
                sectors: u64_at(slot, rest),
            },
            _ => Body::Malformed("unknown operation"),
        };
        Self {
            operation,
            id: u64_at(slot, at),
            sector: u64_at(slot, at + 8),
            body,
        }
    }

    fn parse_direct(operation: u8, segments: u8, bytes: &[u8]) -> Body {
        let segments = usize::from(segments);
        if segments > MAX_DIRECT {
            return Body::Malformed("too many segments");
        }
        if segments == 0 && matches!(operation, op::READ | op::WRITE) {
            return Body::Malformed("no segment");
        }
        let segments: Vec<_> = bytes
            .chunks_exact(SEGMENT)
            .take(segments)
            .map(Segment::parse)
            .collect();
        if !segments.iter().all(Segment::is_sane) {
            return Body::Malformed("bad segment");
        }
        Body::Direct(segments)
    }

    fn parse_indirect(inner: u8, segments: u16, bytes: &[u8]) -> Body {
        let segments = usize::from(segments);
        if !matches!(inner, op::READ | op::WRITE) {
            return Body::Malformed("bad inner operation");
        }
        if segments == 0 || segments > MAX_INDIRECT_PAGES * SEGMENTS_PER_PAGE {
            return Body::Malformed("bad number of indirect segments");
        }
        let pages = segments.div_ceil(SEGMENTS_PER_PAGE);
        Body::Indirect {
            inner,
            segments,
            pages: (0..pages).map(|i| u32_at(bytes, i * 4)).collect(),
        }
    }

    /// The operation that a response to this request repeats.
    pub fn answered_operation(&self) -> u8 {
        match self.body {
            Body::Indirect { inner, .. } => inner,
            _ => self.operation,
        }
    }
}

/// A response, the same in both ABIs as far as it carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// That of the request.
    pub id: u64,
    /// That of the request, or its inner one.
    pub operation: u8,
    /// One of [`status`].
    pub status: i16,
}

impl Response {
    /// Returns the words of the slot; padding is zero.
    pub fn words(&self) -> [u32; 3] {
        // CAST: Cut into halves on purpose, and the status is kept bit by bit.
        [
            self.id as u32,
            (self.id >> 32) as u32,
            u32::from(self.operation) | (u32::from(self.status as u16) << 16),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a slot from pieces at places.
    fn slot(abi: Abi, pieces: &[(usize, &[u8])]) -> Vec<u8> {
        let mut slot = vec![0; abi.slot()];
        for (at, bytes) in pieces {
            slot[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        slot
    }

    #[test]
    fn a_write_in_both_layouts() {
        let segment = [0x11, 0x22, 0, 0, 1, 7, 0, 0];
        let id = 0x0102_0304_0506_0708u64.to_le_bytes();
        let sector = 99u64.to_le_bytes();
        let layouts = [
            (Abi::X86_64, [8, 16, 24, 32]),
            (Abi::X86_32, [4, 12, 20, 28]),
        ];
        for (abi, [at_id, at_sector, at_first, at_second]) in layouts {
            let pieces: [(usize, &[u8]); 5] = [
                (0, &[op::WRITE, 2]),
                (at_id, &id),
                (at_sector, &sector),
                (at_first, &segment),
                (at_second, &segment),
            ];
            let request = Request::parse(abi, &slot(abi, &pieces));
            assert_eq!(request.id, 0x0102_0304_0506_0708);
            assert_eq!(request.sector, 99);
            let expected = Segment {
                gref: 0x2211,
                first: 1,
                last: 7,
            };
            assert_eq!(request.body, Body::Direct(vec![expected; 2]));
            let piece = expected.piece();
            assert_eq!((piece.offset, piece.len), (512, 7 * 512));
        }
    }

    #[test]
    fn an_indirect_read_in_both_layouts() {
        for (abi, at_pages) in [(Abi::X86_64, 28), (Abi::X86_32, 24)] {
            let pieces: [(usize, &[u8]); 2] = [
                (0, &[op::INDIRECT, op::READ, 0x01, 0x02]),
                (at_pages, &[5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0]),
            ];
            let request = Request::parse(abi, &slot(abi, &pieces));
            let expected = Body::Indirect {
                inner: op::READ,
                segments: 513,
                pages: vec![5, 6],
            };
            assert_eq!(request.body, expected);
            assert_eq!(request.answered_operation(), op::READ);
        }
    }

    #[test]
    fn a_discard_in_both_layouts() {
        for (abi, at) in [(Abi::X86_64, 24), (Abi::X86_32, 20)] {
            let pieces: [(usize, &[u8]); 2] = [(0, &[op::DISCARD, 1]), (at, &[0, 1])];
            let request = Request::parse(abi, &slot(abi, &pieces));
            assert_eq!(request.body, Body::Discard { sectors: 256 });
        }
    }

    #[test]
    fn the_last_direct_segment_is_inside() {
        for abi in [Abi::X86_64, Abi::X86_32] {
            let mut bytes = slot(abi, &[(0, &[op::READ, MAX_DIRECT as u8])]);
            bytes[abi.slot() - SEGMENT] = 42;
            match Request::parse(abi, &bytes).body {
                Body::Direct(segments) => assert_eq!(segments[10].gref, 42),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn broken_requests() {
        let cases: [&[u8]; 6] = [
            &[op::READ, 0],
            &[op::READ, 12],
            &[4, 1],
            &[op::INDIRECT, op::FLUSH, 1, 0],
            &[op::INDIRECT, op::READ, 0, 0],
            &[op::INDIRECT, op::READ, 1, 0x10],
        ];
        for case in cases {
            let request = Request::parse(Abi::X86_64, &slot(Abi::X86_64, &[(0, case)]));
            assert!(matches!(request.body, Body::Malformed(_)), "{case:?}");
        }
        let empty_flush = slot(Abi::X86_64, &[(0, &[op::FLUSH, 0])]);
        let request = Request::parse(Abi::X86_64, &empty_flush);
        assert_eq!(request.body, Body::Direct(Vec::new()));
        for (first, last) in [(3, 2), (0, 8)] {
            let segment = [0, 0, 0, 0, first, last, 0, 0];
            let pieces: [(usize, &[u8]); 2] = [(0, &[op::READ, 1]), (24, &segment)];
            let request = Request::parse(Abi::X86_64, &slot(Abi::X86_64, &pieces));
            assert_eq!(request.body, Body::Malformed("bad segment"));
        }
    }

    #[test]
    fn a_response_as_words() {
        let response = Response {
            id: 0x1_0000_0002,
            operation: op::FLUSH,
            status: status::EOPNOTSUPP,
        };
        assert_eq!(response.words(), [2, 1, 0xfffe_0003]);
    }

    #[test]
    fn protocols() {
        assert_eq!(Abi::parse(Some("x86_64-abi")), Some(Abi::X86_64));
        assert_eq!(Abi::parse(None), Some(Abi::X86_32));
        assert_eq!(Abi::parse(Some("arm-abi")), None);
    }
}
