// SPDX-License-Identifier: GPL-2.0

//! The block protocol.
//!
//! All sizes and positions on the wire are in units of 512 bytes ([`SECTOR_SIZE`]) whatever the
//! disk's sector size is; data is in granted frames of 4 KiB ([`FRAME_SIZE`]). Layouts are those of
//! 64-bit domains (`x86_64-abi`, `arm-abi`).
//!
//! Xen's public header: `xen/include/public/io/blkif.h`.

pub mod back;

use crate::ring::{
    Entries,
    Protocol, //
};
use core::mem::{
    offset_of,
    size_of, //
};

/// Unit of positions and lengths on the wire, in bytes.
pub const SECTOR_SIZE: u32 = 512;

/// Size of a granted frame, in bytes.
pub const FRAME_SIZE: u32 = 4096;

/// Segments that fit into a request itself.
pub const MAX_SEGMENTS: usize = 11;

/// Segments that fit into a frame of an indirect request.
pub const SEGMENTS_PER_FRAME: usize = FRAME_SIZE as usize / size_of::<Segment>();

/// Most frames of segments that an indirect request can have.
pub const MAX_INDIRECT_FRAMES: usize = 8;

/// Most segments that an indirect request can have.
pub const MAX_INDIRECT_SEGMENTS: usize = MAX_INDIRECT_FRAMES * SEGMENTS_PER_FRAME;

/// How many frames a request with so many segments needs for them: none if they fit into the request.
pub const fn indirect_frames(segments: usize) -> usize {
    if segments <= MAX_SEGMENTS {
        0
    } else {
        segments.div_ceil(SEGMENTS_PER_FRAME)
    }
}

/// What the frontend calls the layout in its `protocol` key.
pub const PROTOCOL: &str = if cfg!(target_arch = "x86_64") {
    "x86_64-abi"
} else {
    "arm-abi"
};

/// How many requests a ring of 2 to the power of `order` pages holds.
pub const fn ring_slots(order: u32) -> u32 {
    // CAST: At most 16 pages of 4 KiB.
    let bytes = (FRAME_SIZE as usize) << order;
    match Entries::of(bytes, Blkif::SLOT_SIZE) {
        Some(entries) => entries.count(),
        None => 0,
    }
}

/// Largest ring order that the protocol's implementations use.
pub const MAX_RING_ORDER: u32 = 4;

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// Read into the segments.
    Read = 0,
    /// Write the segments.
    Write = 1,
    /// Write the segments, if any, after everything written before has reached the medium, and
    /// answer when these have too (`feature-barrier`).
    WriteBarrier = 2,
    /// Answer when everything written before has reached the medium (`feature-flush-cache`).
    FlushDiskcache = 3,
    /// Forget what is in a range of sectors (`feature-discard`).
    Discard = 5,
    /// Read or write segments that are listed in frames of their own
    /// (`feature-max-indirect-segments`).
    Indirect = 6,
}

/// What a response says, once checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Okay,
    /// Failed.
    Error,
    /// The backend cannot do this operation after all.
    NotSupported,
}

impl Status {
    /// Whatever is not one of the protocol's values is an error.
    pub const fn from_wire(status: i16) -> Self {
        match status {
            0 => Self::Okay,
            -2 => Self::NotSupported,
            _ => Self::Error,
        }
    }
}

/// Part of a granted frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    /// Grant reference of the frame.
    pub gref: u32,
    first_sector: u8,
    last_sector: u8,
    padding: u16,
}

impl Segment {
    /// The `length` bytes at `offset` of the frame granted as `gref`.
    ///
    /// [`None`] unless they are whole sectors within one frame.
    pub const fn new(gref: u32, offset: u32, length: u32) -> Option<Self> {
        if offset >= FRAME_SIZE || length == 0 || length > FRAME_SIZE - offset {
            return None;
        }
        if offset % SECTOR_SIZE != 0 || length % SECTOR_SIZE != 0 {
            return None;
        }
        let first = offset / SECTOR_SIZE;
        let last = first + length / SECTOR_SIZE - 1;
        // CAST: Both are less than 8.
        Some(Self {
            gref,
            first_sector: first as u8,
            last_sector: last as u8,
            padding: 0,
        })
    }

    /// The segment as it is in a frame of an indirect request.
    #[inline]
    pub const fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let [a, b, c, d] = self.gref.to_ne_bytes();
        [a, b, c, d, self.first_sector, self.last_sector, 0, 0]
    }

    /// First and last sector within the frame, both inclusive.
    pub const fn sectors(&self) -> (u8, u8) {
        (self.first_sector, self.last_sector)
    }
}

/// What follows the position in a request.
///
/// All of it is integers without padding, the same number of bytes in each variant, so that whichever
/// was written, reading another one gives some integers.
#[derive(Clone, Copy)]
#[repr(C)]
union Body {
    segments: [Segment; MAX_SEGMENTS],
    discard: DiscardBody,
    indirect: IndirectBody,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct DiscardBody {
    sectors: u64,
    unused: [u64; MAX_SEGMENTS - 1],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct IndirectBody {
    handle: u16,
    padding: u16,
    grefs: [u32; MAX_INDIRECT_FRAMES],
    unused: [u32; 2 * MAX_SEGMENTS - 1 - MAX_INDIRECT_FRAMES],
}

/// A request.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Request {
    operation: u8,
    /// Segments; of a discard its flags; of an indirect request what it does.
    detail: u8,
    /// The device's number; of an indirect request the number of segments.
    handle: u16,
    padding: u32,
    id: u64,
    sector: u64,
    body: Body,
}

/// In `detail` of a discard: what was there must not be found again (`discard-secure`).
const DISCARD_SECURE: u8 = 1;

impl Request {
    fn empty(operation: Operation, id: u64, sector: u64) -> Self {
        Self {
            // CAST: The discriminant is the value on the wire.
            operation: operation as u8,
            detail: 0,
            handle: 0,
            padding: 0,
            id,
            sector,
            body: Body {
                segments: [Segment::default(); MAX_SEGMENTS],
            },
        }
    }

    /// A read, write, barrier or flush without segments yet.
    ///
    /// `handle` is the virtual device's number, `id` comes back in the response, and `sector` is
    /// where on the disk to start, in units of 512 bytes.
    pub fn new(operation: Operation, handle: u16, id: u64, sector: u64) -> Self {
        Self {
            handle,
            ..Self::empty(operation, id, sector)
        }
    }

    /// A discard of `sectors` sectors of 512 bytes from `sector` on.
    pub fn discard(id: u64, sector: u64, sectors: u64, secure: bool) -> Self {
        Self {
            detail: if secure { DISCARD_SECURE } else { 0 },
            body: Body {
                discard: DiscardBody {
                    sectors,
                    unused: [0; MAX_SEGMENTS - 1],
                },
            },
            ..Self::empty(Operation::Discard, id, sector)
        }
    }

    /// A read (or a write) of `segments` segments, which are listed in the frames granted as `grefs`.
    ///
    /// [`None`] unless there are as many frames as these segments need.
    pub fn indirect(
        write: bool,
        handle: u16,
        id: u64,
        sector: u64,
        segments: usize,
        grefs: impl ExactSizeIterator<Item = u32>,
    ) -> Option<Self> {
        let frames = segments.div_ceil(SEGMENTS_PER_FRAME);
        if frames == 0 || frames > MAX_INDIRECT_FRAMES || frames != grefs.len() {
            return None;
        }
        let mut list = [0; MAX_INDIRECT_FRAMES];
        for (place, gref) in list.iter_mut().zip(grefs) {
            *place = gref;
        }
        Some(Self {
            // CAST: The discriminant is the value on the wire.
            detail: if write {
                Operation::Write as u8
            } else {
                Operation::Read as u8
            },
            handle: u16::try_from(segments).ok()?,
            body: Body {
                indirect: IndirectBody {
                    handle,
                    padding: 0,
                    grefs: list,
                    unused: [0; 2 * MAX_SEGMENTS - 1 - MAX_INDIRECT_FRAMES],
                },
            },
            ..Self::empty(Operation::Indirect, id, sector)
        })
    }

    /// Adds a segment to a request that is neither a discard nor indirect; [`false`] if there is no
    /// room for it.
    #[must_use]
    pub fn push_segment(&mut self, segment: Segment) -> bool {
        // SAFETY: Any integers are segments.
        let segments = unsafe { &mut self.body.segments };
        match segments.get_mut(usize::from(self.detail)) {
            Some(place) => {
                *place = segment;
                self.detail += 1;
                true
            }
            None => false,
        }
    }

    /// The operation as it is on the wire.
    pub fn operation(&self) -> u8 {
        self.operation
    }

    /// The operation that its response is to name: of an indirect request what it does.
    pub fn answered_operation(&self) -> u8 {
        if self.operation == Operation::Indirect as u8 {
            self.detail
        } else {
            self.operation
        }
    }

    /// The segments added so far, if it is neither a discard nor indirect.
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: Any integers are segments.
        let segments = unsafe { &self.body.segments };
        segments.get(..usize::from(self.detail)).unwrap_or(&[])
    }
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Response {
    /// The request's id, if the backend is honest.
    pub id: u64,
    /// The request's operation, if the backend is honest.
    pub operation: u8,
    padding: u8,
    /// See [`Status::from_wire`].
    pub status: i16,
    // There up to here on 32 bits; on 64 bits the compiler of the C header adds four bytes.
    tail: u32,
}

impl Response {
    /// The answer to the request `id`.
    pub const fn new(id: u64, operation: u8, status: i16) -> Self {
        Self {
            id,
            operation,
            padding: 0,
            status,
            tail: 0,
        }
    }
}

/// The protocol between domains of 64 bits.
pub struct Blkif;

// SAFETY: Both types are made of integers whose sizes add up to the type's size (checked below), so
// there is no padding and any bits are valid. The sizes and alignments are checked by
// `Protocol::CHECK`.
unsafe impl Protocol for Blkif {
    type Request = Request;
    type Response = Response;
    const SLOT_SIZE: usize = 112;
}

const _: () = {
    assert!(size_of::<Segment>() == 4 + 1 + 1 + 2);
    assert!(offset_of!(Segment, first_sector) == 4);
    assert!(offset_of!(Segment, last_sector) == 5);

    assert!(size_of::<Request>() == 1 + 1 + 2 + 4 + 8 + 8 + MAX_SEGMENTS * 8);
    assert!(size_of::<Request>() == 112);
    assert!(offset_of!(Request, detail) == 1);
    assert!(offset_of!(Request, handle) == 2);
    assert!(offset_of!(Request, id) == 8);
    assert!(offset_of!(Request, sector) == 16);
    assert!(offset_of!(Request, body) == 24);
    assert!(size_of::<DiscardBody>() == size_of::<Body>());
    assert!(size_of::<IndirectBody>() == size_of::<Body>());
    assert!(offset_of!(IndirectBody, grefs) == 4);

    assert!(size_of::<Response>() == 8 + 1 + 1 + 2 + 4);
    assert!(offset_of!(Response, operation) == 8);
    assert!(offset_of!(Response, status) == 10);
};

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkif))]
mod tests {
    use super::*;

    /// The bytes of a message in memory, which are those on the wire.
    fn bytes<T: Copy, const SIZE: usize>(message: T) -> [u8; SIZE] {
        const { assert!(size_of::<T>() == SIZE) };
        // SAFETY: Both have the same size, and messages have no padding.
        unsafe { core::mem::transmute_copy(&message) }
    }

    #[test]
    fn request_on_the_wire() {
        let mut request = Request::new(
            Operation::Write,
            0x1234,
            0x1122_3344_5566_7788,
            0x99aa_bbcc_ddee_ff00,
        );
        let segments = [
            Segment::new(0xdead_beef, 512, 1024),
            Segment::new(1, 0, 4096),
        ];
        for segment in segments.into_iter().flatten() {
            assert!(request.push_segment(segment));
        }
        let wire: [u8; 112] = bytes(request);
        assert_eq!(wire[0..4], [1, 2, 0x34, 0x12]);
        assert_eq!(wire[4..8], [0; 4]);
        assert_eq!(wire[8..16], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(wire[16..24], 0x99aa_bbcc_ddee_ff00u64.to_le_bytes());
        assert_eq!(wire[24..32], [0xef, 0xbe, 0xad, 0xde, 1, 2, 0, 0]);
        assert_eq!(wire[32..40], [1, 0, 0, 0, 0, 7, 0, 0]);
        // Nothing of this kernel's memory goes to the other domain.
        assert!(wire[40..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn discard_on_the_wire() {
        for secure in [false, true] {
            let request = Request::discard(7, 0x0102_0304_0506, 0x0a0b_0c0d_0e0f_1011, secure);
            assert_eq!(request.answered_operation(), 5);
            let wire: [u8; 112] = bytes(request);
            assert_eq!(wire[0..8], [5, secure.into(), 0, 0, 0, 0, 0, 0]);
            assert_eq!(wire[8..16], 7u64.to_le_bytes());
            assert_eq!(wire[16..24], 0x0102_0304_0506u64.to_le_bytes());
            assert_eq!(wire[24..32], 0x0a0b_0c0d_0e0f_1011u64.to_le_bytes());
            assert!(wire[32..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn indirect_on_the_wire() -> Result<(), &'static str> {
        for (write, operation) in [(false, 0), (true, 1)] {
            let grefs = [0xaabb_ccdd, 1].into_iter();
            let request = Request::indirect(write, 0x1234, 9, 0x55, 1000, grefs)
                .ok_or("two frames are right for 1000 segments")?;
            assert_eq!(request.operation(), 6);
            assert_eq!(request.answered_operation(), operation);
            let wire: [u8; 112] = bytes(request);
            assert_eq!(wire[0..4], [6, operation, 0xe8, 0x03]);
            assert_eq!(wire[4..8], [0; 4]);
            assert_eq!(wire[8..16], 9u64.to_le_bytes());
            assert_eq!(wire[16..24], 0x55u64.to_le_bytes());
            assert_eq!(wire[24..28], [0x34, 0x12, 0, 0]);
            assert_eq!(wire[28..36], [0xdd, 0xcc, 0xbb, 0xaa, 1, 0, 0, 0]);
            assert!(wire[36..].iter().all(|&byte| byte == 0));
        }
        Ok(())
    }

    #[test]
    fn frames_of_segments() {
        for (segments, frames) in [
            (0, 0),
            (1, 0),
            (11, 0),
            (12, 1),
            (512, 1),
            (513, 2),
            (4096, 8),
            (4097, 9),
        ] {
            assert_eq!(indirect_frames(segments), frames);
        }
        assert_eq!(SEGMENTS_PER_FRAME, 512);
        assert_eq!(MAX_INDIRECT_SEGMENTS, 4096);
    }

    #[test]
    fn indirect_has_its_frames() {
        let with = |segments, frames| {
            let grefs = [5; 9];
            let grefs = grefs.iter().copied().take(frames);
            Request::indirect(false, 0, 0, 0, segments, grefs).is_some()
        };
        assert!(with(1, 1));
        assert!(with(512, 1));
        assert!(!with(512, 2));
        assert!(!with(513, 1));
        assert!(with(513, 2));
        assert!(with(4096, 8));
        assert!(!with(4097, 9));
        assert!(!with(0, 0));
        assert!(!with(0, 1));
        assert!(!with(usize::MAX, 1));
    }

    #[test]
    fn response_on_the_wire() {
        let wire: [u8; 16] = bytes(Response::new(0x0102_0304_0506_0708, 3, -2));
        assert_eq!(wire, [8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0xfe, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn operations_on_the_wire() {
        for (operation, value) in [
            (Operation::Read, 0),
            (Operation::Write, 1),
            (Operation::WriteBarrier, 2),
            (Operation::FlushDiskcache, 3),
        ] {
            let request = Request::new(operation, 0, 0, 0);
            assert_eq!(request.operation(), value);
            assert_eq!(request.answered_operation(), value);
        }
    }

    #[test]
    fn segment_is_whole_sectors() {
        for first in 0..8u8 {
            for last in first..8 {
                let count = u32::from(last - first) + 1;
                let segment = Segment::new(5, u32::from(first) * 512, count * 512);
                assert_eq!(segment.map(|segment| segment.gref), Some(5));
                assert_eq!(
                    segment.map(|segment| segment.sectors()),
                    Some((first, last))
                );
            }
        }
        assert!(Segment::new(5, 1, 512).is_none());
        assert!(Segment::new(5, 511, 512).is_none());
        assert!(Segment::new(5, 0, 511).is_none());
        assert!(Segment::new(5, 0, 513).is_none());
    }

    #[test]
    fn segment_in_an_indirect_frame() {
        let segment = Segment::new(0xdead_beef, 1024, 2048).map(Segment::to_bytes);
        let bytes: Option<[u8; 8]> = Segment::new(0xdead_beef, 1024, 2048).map(bytes);
        assert_eq!(segment, bytes);
        assert_eq!(segment, Some([0xef, 0xbe, 0xad, 0xde, 2, 5, 0, 0]));
    }

    #[test]
    fn segment_lies_in_its_frame() {
        assert!(Segment::new(5, 0, 4096).is_some());
        assert!(Segment::new(5, 3584, 512).is_some());
        assert!(Segment::new(5, 3584, 1024).is_none());
        assert!(Segment::new(5, 512, 4096).is_none());
        assert!(Segment::new(5, 0, 4608).is_none());
        assert!(Segment::new(5, 4096, 512).is_none());
        assert!(Segment::new(5, 0, 0).is_none());
        assert!(Segment::new(5, u32::MAX - 511, 512).is_none());
        assert!(Segment::new(5, 512, u32::MAX - 511).is_none());
    }

    #[test]
    fn request_holds_eleven_segments() {
        let mut request = Request::new(Operation::Read, 0, 0, 0);
        assert!(request.segments().is_empty());
        let mut gref = 0;
        while let Some(segment) = Segment::new(gref, 0, 512) {
            if !request.push_segment(segment) {
                break;
            }
            gref += 1;
            assert!(gref <= 11);
        }
        assert_eq!(gref, 11);
        assert_eq!(request.segments().len(), 11);
        assert!((0..11).eq(request.segments().iter().map(|segment| segment.gref)));
    }

    #[test]
    fn segment_count_is_not_believed() {
        let mut request = Request::new(Operation::Read, 0, 0, 0);
        request.detail = 12;
        assert!(request.segments().is_empty());
        assert!(!request.push_segment(Segment::default()));
        request.detail = u8::MAX;
        assert!(request.segments().is_empty());
        assert!(!request.push_segment(Segment::default()));
    }

    #[test]
    fn status_of_a_response() {
        assert_eq!(Status::from_wire(0), Status::Okay);
        assert_eq!(Status::from_wire(-1), Status::Error);
        assert_eq!(Status::from_wire(-2), Status::NotSupported);
        for junk in [1, 2, -3, 254, 255, i16::MIN, i16::MAX] {
            assert_eq!(Status::from_wire(junk), Status::Error);
        }
    }

    #[test]
    fn name_of_the_protocol() {
        let expected = if cfg!(target_arch = "x86_64") {
            "x86_64-abi"
        } else {
            "arm-abi"
        };
        assert_eq!(PROTOCOL, expected);
    }
}
