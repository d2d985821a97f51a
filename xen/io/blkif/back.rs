// SPDX-License-Identifier: GPL-2.0

//! The block protocol as a backend sees it: requests that another domain has written, in any layout.
//!
//! A request is copied out of the ring as words, and what they mean is found out in that copy. The
//! layouts differ in where the fields are, because a 32-bit domain's C compiler aligns 64-bit numbers
//! to four bytes:
//!
//! | field                          | 64 bits | 32 bits |
//! |--------------------------------|---------|---------|
//! | operation, number of segments  | 0, 1    | 0, 1    |
//! | id                             | 8       | 4       |
//! | first sector                   | 16      | 12      |
//! | segments                       | 24      | 20      |
//! | discard: flags                 | 1       | 1       |
//! | discard: number of sectors     | 24      | 20      |
//! | indirect: operation            | 1       | 1       |
//! | indirect: number of segments   | 2       | 2       |
//! | indirect: first sector         | 16      | 12      |
//! | indirect: references           | 28      | 24      |
//! | size of a slot                 | 112     | 108     |

pub use super::{
    Segment,
    Status, //
};

use super::{
    Blkif,
    Response,
    FRAME_SIZE,
    MAX_SEGMENTS,
    SECTOR_SIZE, //
};
use crate::ring::Protocol;
use core::{
    fmt,
    mem::{
        offset_of,
        size_of, //
    },
};

/// Sectors of 512 bytes in a granted frame.
const SECTORS_OF_FRAME: u8 = 8;

/// Bytes of a segment's descriptor.
pub const SEGMENT_SIZE: usize = size_of::<Segment>();

/// Segments whose descriptors fit into one frame.
pub const SEGMENTS_OF_FRAME: usize = FRAME_SIZE as usize / SEGMENT_SIZE;

/// References of descriptor frames that a request has room for.
pub const MAX_INDIRECT_FRAMES: usize = 8;

/// How a frontend lays out its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// As this domain does.
    Native,
    /// As 32-bit x86 domains do.
    X86_32,
    /// As 64-bit x86 domains do.
    X86_64,
}

impl Abi {
    /// What the frontend's `protocol` key means. A frontend without that key is an old one, which on x86
    /// was a 32-bit one. [`None`] if it is none that this domain understands.
    pub fn parse(key: Option<&[u8]>) -> Option<Self> {
        match key.map(<[u8]>::trim_ascii) {
            Some(key) if key == super::PROTOCOL.as_bytes() => Some(Self::Native),
            Some(b"x86_32-abi") => Some(Self::X86_32),
            Some(b"x86_64-abi") => Some(Self::X86_64),
            Some(_) => None,
            None if cfg!(target_arch = "x86_64") => Some(Self::X86_32),
            None => Some(Self::Native),
        }
    }

    /// The number by which logs name it.
    pub fn number(self) -> u32 {
        match self {
            Self::Native => 1,
            Self::X86_32 => 2,
            Self::X86_64 => 3,
        }
    }
}

/// Where the fields of a request are, in bytes.
#[derive(Clone, Copy)]
pub struct Offsets {
    id: usize,
    sector: usize,
    segments: usize,
    discard_sectors: usize,
    indirect_grefs: usize,
}

/// A protocol whose requests can be decoded.
pub trait Wire: Protocol {
    /// Where the fields of a request are.
    const OFFSETS: Offsets;

    /// The words of a request as bytes, of which the first [`SLOT_SIZE`](Protocol::SLOT_SIZE) count.
    fn bytes(request: &Self::Request) -> [u8; MAX_SLOT_SIZE];

    /// An answer.
    fn response(answer: Answer) -> Self::Response;
}

/// The largest size of a slot.
pub const MAX_SLOT_SIZE: usize = 112;

/// Requests of 64-bit domains.
pub struct Wide;

// SAFETY: A request is an array of integers; the response is that of `Blkif`. The sizes and alignments
// are checked by `Protocol::CHECK`.
unsafe impl Protocol for Wide {
    type Request = [u64; 14];
    type Response = Response;
    const SLOT_SIZE: usize = Blkif::SLOT_SIZE;
}

impl Wire for Wide {
    const OFFSETS: Offsets = Offsets {
        id: 8,
        sector: 16,
        segments: 24,
        discard_sectors: 24,
        indirect_grefs: 28,
    };

    #[inline]
    fn bytes(request: &Self::Request) -> [u8; MAX_SLOT_SIZE] {
        let mut bytes = [0; MAX_SLOT_SIZE];
        for (to, word) in bytes.chunks_exact_mut(8).zip(request) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[inline]
    fn response(answer: Answer) -> Response {
        Response::new(answer.id, answer.operation, answer.status())
    }
}

/// Requests of 32-bit x86 domains.
pub struct Narrow;

/// An answer for a 32-bit x86 domain.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NarrowResponse {
    id: [u32; 2],
    operation: u8,
    padding: u8,
    status: i16,
}

// SAFETY: A request is an array of integers; a response is made of integers whose sizes add up to its
// size (checked below). The sizes and alignments are checked by `Protocol::CHECK`.
unsafe impl Protocol for Narrow {
    type Request = [u32; 27];
    type Response = NarrowResponse;
    const SLOT_SIZE: usize = 108;
}

impl Wire for Narrow {
    const OFFSETS: Offsets = Offsets {
        id: 4,
        sector: 12,
        segments: 20,
        discard_sectors: 20,
        indirect_grefs: 24,
    };

    #[inline]
    fn bytes(request: &Self::Request) -> [u8; MAX_SLOT_SIZE] {
        let mut bytes = [0; MAX_SLOT_SIZE];
        for (to, word) in bytes.chunks_exact_mut(4).zip(request) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[inline]
    fn response(answer: Answer) -> NarrowResponse {
        NarrowResponse {
            // CAST: The halves of the number, the lower one first as on all of x86.
            id: [answer.id as u32, (answer.id >> 32) as u32],
            operation: answer.operation,
            padding: 0,
            status: answer.status(),
        }
    }
}

const _: () = {
    assert!(size_of::<NarrowResponse>() == 8 + 1 + 1 + 2);
    assert!(offset_of!(NarrowResponse, operation) == 8);
    assert!(offset_of!(NarrowResponse, status) == 10);
    assert!(size_of::<<Narrow as Protocol>::Request>() == 108);
    assert!(size_of::<<Wide as Protocol>::Request>() == 112);
};

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The request's id.
    pub id: u64,
    /// Its operation; of an indirect one, that of what it is for.
    pub operation: u8,
    /// How it ended.
    pub status: Status,
}

impl Answer {
    fn status(self) -> i16 {
        match self.status {
            Status::Okay => 0,
            Status::Error => -1,
            Status::NotSupported => -2,
        }
    }
}

/// What is to be done with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Write it, if there is any, in order: after all before, before all after, and durably.
    WriteBarrier,
    /// Make what was written before durable, then write it, if there is any.
    FlushDiskcache,
}

impl Transfer {
    /// Whether it changes the disk.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Segments of a request itself.
#[derive(Clone, Copy, Debug)]
pub struct Segments {
    list: [Segment; MAX_SEGMENTS],
    count: usize,
}

impl Segments {
    /// All of them, in order.
    #[inline]
    pub fn as_slice(&self) -> &[Segment] {
        self.list.get(..self.count).unwrap_or(&[])
    }
}

/// What a request wants.
#[derive(Clone, Copy, Debug)]
pub enum Wish {
    /// Data in these segments.
    Direct(Transfer, Segments),
    /// Data in segments whose descriptors are in other frames.
    Indirect {
        /// [`Transfer::Read`] or [`Transfer::Write`].
        transfer: Transfer,
        /// How many segments; at least one, at most as many as the references can hold.
        count: usize,
        /// References of the frames with the descriptors, [`SEGMENTS_OF_FRAME`] in each.
        grefs: [u32; MAX_INDIRECT_FRAMES],
    },
    /// So many sectors need not be kept.
    Discard {
        /// How many, of 512 bytes.
        sectors: u64,
        /// Nobody may be able to read them again.
        secure: bool,
    },
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What the answer is to be called.
    pub id: u64,
    /// What the answer is to say was done.
    pub operation: u8,
    /// Where on the disk it starts, in sectors of 512 bytes; anything.
    pub sector: u64,
    /// What is to be done.
    pub wish: Wish,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// There is no such operation.
    Operation(u8),
    /// An operation needs data and has none, or there are more segments than there is room for.
    SegmentCount(usize),
    /// An indirect request is neither for reading nor for writing.
    IndirectOperation(u8),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operation(operation) => write!(f, "unknown operation {operation}"),
            Self::SegmentCount(count) => write!(f, "{count} segments"),
            Self::IndirectOperation(operation) => {
                write!(f, "unknown indirect operation {operation}")
            }
        }
    }
}

impl Malformed {
    /// How such a request is answered.
    pub fn status(self) -> Status {
        match self {
            Self::Operation(_) => Status::NotSupported,
            Self::SegmentCount(_) | Self::IndirectOperation(_) => Status::Error,
        }
    }
}

const READ: u8 = super::Operation::Read as u8;
const WRITE: u8 = super::Operation::Write as u8;
const WRITE_BARRIER: u8 = super::Operation::WriteBarrier as u8;
const FLUSH_DISKCACHE: u8 = super::Operation::FlushDiskcache as u8;
const DISCARD: u8 = 5;
const INDIRECT: u8 = 6;

/// Flag of a discard: nobody may be able to read the sectors again.
const DISCARD_SECURE: u8 = 1;

/// The `N` bytes at an offset; zeros where there are none, which is nowhere in a request.
#[inline]
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    if let Some(found) = bytes.get(offset..).and_then(|rest| rest.get(..N)) {
        field.copy_from_slice(found);
    }
    field
}

fn segment(bytes: [u8; SEGMENT_SIZE]) -> Segment {
    let [g0, g1, g2, g3, first_sector, last_sector, ..] = bytes;
    Segment {
        gref: u32::from_le_bytes([g0, g1, g2, g3]),
        first_sector,
        last_sector,
        padding: 0,
    }
}

/// The segments whose descriptors these bytes are, as many as there are whole ones. Nothing of them
/// has been checked.
pub fn segments(bytes: &[u8]) -> impl Iterator<Item = Segment> + '_ {
    bytes
        .chunks_exact(SEGMENT_SIZE)
        .map(|bytes| segment(field(bytes, 0)))
}

impl Segment {
    /// Where in its frame it starts and how long it is, both in bytes. [`None`] if it does not lie in
    /// one frame.
    #[inline]
    pub fn span(&self) -> Option<(u32, u32)> {
        if self.first_sector > self.last_sector || self.last_sector >= SECTORS_OF_FRAME {
            return None;
        }
        let count = u32::from(self.last_sector - self.first_sector) + 1;
        Some((
            u32::from(self.first_sector) * SECTOR_SIZE,
            count * SECTOR_SIZE,
        ))
    }
}

/// Finds out what a request wants. Of what that is, nothing is checked against the disk.
///
/// # Errors
///
/// The answer, and what is wrong.
pub fn decode<W: Wire>(request: &W::Request) -> Result<Request, (Answer, Malformed)> {
    let bytes = W::bytes(request);
    let at = W::OFFSETS;
    let [operation, second, third, fourth] = field(&bytes, 0);
    let id = u64::from_le_bytes(field(&bytes, at.id));
    let sector = u64::from_le_bytes(field(&bytes, at.sector));

    let refuse = |operation, malformed: Malformed| {
        let answer = Answer {
            id,
            operation,
            status: malformed.status(),
        };
        Err((answer, malformed))
    };
    let accept = |operation, wish| {
        Ok(Request {
            id,
            operation,
            sector,
            wish,
        })
    };

    let transfer = match operation {
        READ => Transfer::Read,
        WRITE => Transfer::Write,
        WRITE_BARRIER => Transfer::WriteBarrier,
        FLUSH_DISKCACHE => Transfer::FlushDiskcache,
        DISCARD => {
            let wish = Wish::Discard {
                sectors: u64::from_le_bytes(field(&bytes, at.discard_sectors)),
                secure: second & DISCARD_SECURE != 0,
            };
            return accept(operation, wish);
        }
        INDIRECT => {
            let transfer = match second {
                READ => Transfer::Read,
                WRITE => Transfer::Write,
                _ => return refuse(second, Malformed::IndirectOperation(second)),
            };
            let count = usize::from(u16::from_le_bytes([third, fourth]));
            if count == 0 || count > MAX_INDIRECT_FRAMES * SEGMENTS_OF_FRAME {
                return refuse(second, Malformed::SegmentCount(count));
            }
            let mut grefs = [0; MAX_INDIRECT_FRAMES];
            for (index, gref) in grefs.iter_mut().enumerate() {
                *gref = u32::from_le_bytes(field(&bytes, at.indirect_grefs + index * 4));
            }
            let wish = Wish::Indirect {
                transfer,
                count,
                grefs,
            };
            return accept(second, wish);
        }
        _ => return refuse(operation, Malformed::Operation(operation)),
    };

    let count = usize::from(second);
    let may_be_empty = matches!(transfer, Transfer::WriteBarrier | Transfer::FlushDiskcache);
    if count > MAX_SEGMENTS || (count == 0 && !may_be_empty) {
        return refuse(operation, Malformed::SegmentCount(count));
    }
    let mut list = [Segment::default(); MAX_SEGMENTS];
    for (index, place) in list.iter_mut().take(count).enumerate() {
        *place = segment(field(&bytes, at.segments + index * SEGMENT_SIZE));
    }
    accept(operation, Wish::Direct(transfer, Segments { list, count }))
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
mod tests;
