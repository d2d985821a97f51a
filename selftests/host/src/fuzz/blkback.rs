// SPDX-License-Identifier: GPL-2.0

//! Requests of a disk's frontend, in three layouts.
//!
//! What they mean is found out once more here, from the offsets of C's structures.

use super::{
    input::Input,
    ring::{
        BackRing,
        MOST_STEPS, //
    },
};
use crate::{
    blkback::request::Bounds,
    io::blkif::{
        self,
        back::{
            decode,
            segments,
            Abi,
            Answer,
            Malformed,
            Narrow,
            Request,
            Segment,
            Status,
            Transfer,
            Wide,
            Wire,
            Wish, //
        },
    },
};

/// Most segments of an indirect request.
const MOST_INDIRECT: usize = 4096;

/// Where C has the fields: `id`, `sector_number`, `seg`, `nr_sectors` of a discard, `indirect_grefs`.
struct Layout {
    id: usize,
    sector: usize,
    segments: usize,
    discard: usize,
    grefs: usize,
    response: usize,
}

const X86_64: Layout = Layout {
    id: 8,
    sector: 16,
    segments: 24,
    discard: 24,
    grefs: 28,
    response: 16,
};

const X86_32: Layout = Layout {
    id: 4,
    sector: 12,
    segments: 20,
    discard: 20,
    grefs: 24,
    response: 12,
};

pub fn native(bytes: &[u8]) {
    let key = if cfg!(target_arch = "x86_64") {
        "x86_64-abi"
    } else {
        "arm-abi"
    };
    assert_eq!(Abi::parse(Some(key.as_bytes())), Some(Abi::Native));
    serve::<Wide>(bytes, &X86_64, true);
}

pub fn x86_64(bytes: &[u8]) {
    let is_wide = |abi| matches!(abi, Some(Abi::Native | Abi::X86_64));
    assert!(is_wide(Abi::parse(Some(b"x86_64-abi"))));
    serve::<Wide>(bytes, &X86_64, false);
}

pub fn x86_32(bytes: &[u8]) {
    assert_eq!(Abi::parse(Some(b"x86_32-abi")), Some(Abi::X86_32));
    serve::<Narrow>(bytes, &X86_32, false);
}

fn serve<W: Wire>(bytes: &[u8], layout: &Layout, round_trip: bool)
where
    W::Request: AsBytes,
{
    let mut input = Input::new(bytes);
    let disk = Bounds {
        sectors: input.u64() >> (input.u8() % 64),
        sector_size: 512 << (input.u8() % 4),
        writable: input.flag(),
    };
    let Some(mut ring) = BackRing::<W>::new(&mut input) else {
        return;
    };
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        ring.step(&mut input);
        // As much as a thread takes at a time, or a part.
        let mut unanswered = Vec::new();
        for _ in 0..input.u8() % 40 {
            let Some(request) = ring.next() else { break };
            let raw = request.to_bytes();
            let answer = one::<W>(&request, &raw, layout, &disk, &mut input);
            if round_trip {
                encode_again(&raw);
            }
            unanswered.push(answer);
        }
        // Disks answer in any order.
        if input.flag() {
            unanswered.reverse();
        }
        for answer in unanswered {
            ring.respond(&W::response(answer));
            let wire = ring.last_response(layout.response);
            assert_eq!(wire[..8], answer.id.to_le_bytes());
            assert_eq!(wire[8..10], [answer.operation, 0]);
            let status = match answer.status {
                Status::Okay => 0i16,
                Status::Error => -1,
                Status::NotSupported => -2,
            };
            assert_eq!(wire[10..12], status.to_le_bytes());
            // Nothing of this kernel's memory goes to the other domain.
            assert!(wire[12..].iter().all(|&byte| byte == 0));
        }
        ring.rest(input.u8().into());
    }
}

/// The bytes of a request's words.
trait AsBytes {
    fn to_bytes(&self) -> Vec<u8>;
}

impl AsBytes for [u64; 14] {
    fn to_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

impl AsBytes for [u32; 27] {
    fn to_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

fn number<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N]
        .try_into()
        .expect("within a request")
}

/// Looks at one request, and says how it is answered.
fn one<W: Wire>(
    request: &W::Request,
    raw: &[u8],
    layout: &Layout,
    disk: &Bounds,
    input: &mut Input<'_>,
) -> Answer {
    let id = u64::from_le_bytes(number(raw, layout.id));
    let (operation, detail) = (raw[0], raw[1]);
    let indirect_count = usize::from(u16::from_le_bytes([raw[2], raw[3]]));
    let answered = if operation == 6 { detail } else { operation };
    let bad_count = |count| {
        (
            Malformed::SegmentCount(count),
            Status::Error, //
        )
    };
    let wrong = match (operation, detail) {
        (0 | 1, 0) | (0..=3, 12..) => Some(bad_count(detail.into())),
        (6, 0 | 1) if indirect_count == 0 || indirect_count > MOST_INDIRECT => {
            Some(bad_count(indirect_count))
        }
        (0..=3 | 5, _) | (6, 0 | 1) => None,
        (6, _) => Some((Malformed::IndirectOperation(detail), Status::Error)),
        _ => Some((Malformed::Operation(operation), Status::NotSupported)),
    };
    let decoded = match (decode::<W>(request), wrong) {
        (Ok(decoded), None) => decoded,
        (Err((answer, malformed)), Some((expected, status))) => {
            assert_eq!(malformed, expected);
            let expected = Answer {
                id,
                operation: answered,
                status,
            };
            assert_eq!(answer, expected);
            return answer;
        }
        (decoded, wrong) => panic!("{decoded:?}, but {wrong:?}"),
    };
    assert_eq!((decoded.id, decoded.operation), (id, answered));
    let sector = u64::from_le_bytes(number(raw, layout.sector));
    assert_eq!(decoded.sector, sector);
    let suitable = match &decoded.wish {
        Wish::Direct(transfer, found) => {
            let transfer = *transfer;
            assert_eq!(transfer as u8, operation);
            let wire = &raw[layout.segments..][..8 * usize::from(detail)];
            data(disk, transfer, sector, found.as_slice(), wire)
        }
        Wish::Indirect {
            transfer,
            count,
            grefs,
        } => {
            assert_eq!(*transfer as u8, detail);
            assert_eq!(*count, indirect_count);
            for (index, gref) in grefs.iter().enumerate() {
                let at = layout.grefs + 4 * index;
                assert_eq!(*gref, u32::from_le_bytes(number(raw, at)));
            }
            // Whatever the descriptors' frames hold: as many as the input has, then the last ones again.
            let some = input.slice(8 * (*count).min(64));
            let mut wire = some.to_vec();
            wire.truncate(some.len() / 8 * 8);
            while !wire.is_empty() && wire.len() < 8 * *count {
                wire.extend_from_within(..wire.len().min(8 * *count - wire.len()));
            }
            let found: Vec<Segment> = segments(&wire).collect();
            assert_eq!(found.len(), wire.len() / 8);
            data(disk, *transfer, sector, &found, &wire)
        }
        Wish::Discard { sectors, secure } => {
            assert_eq!(operation, 5);
            assert_eq!(*sectors, u64::from_le_bytes(number(raw, layout.discard)));
            assert_eq!(*secure, detail & 1 != 0);
            let good = is_within(disk, sector, *sectors, true);
            assert_eq!(disk.check_range(sector, *sectors, true).is_ok(), good);
            good
        }
    };
    Answer {
        id,
        operation: decoded.operation,
        status: if suitable {
            Status::Okay
        } else {
            Status::Error
        },
    }
}

fn is_within(disk: &Bounds, sector: u64, count: u64, writes: bool) -> bool {
    let unit = u64::from(disk.sector_size / 512);
    u128::from(sector) + u128::from(count) <= u128::from(disk.sectors)
        && sector % unit == 0
        && count % unit == 0
        && (disk.writable || !writes)
}

/// Looks at segments and what they are on the wire. Says whether they can be used.
fn data(disk: &Bounds, transfer: Transfer, sector: u64, found: &[Segment], wire: &[u8]) -> bool {
    assert_eq!(transfer.writes(), transfer != Transfer::Read);
    assert_eq!(found.len(), wire.len() / 8);
    let unit = disk.sector_size / 512;
    let (mut sum, mut good) = (0u64, true);
    for (segment, wire) in found.iter().zip(wire.chunks_exact(8)) {
        assert_eq!(segment.gref, u32::from_le_bytes(number(wire, 0)));
        let (first, last) = (u32::from(wire[4]), u32::from(wire[5]));
        assert_eq!(segment.sectors(), (wire[4], wire[5]));
        let fits = first <= last && last <= 7;
        match segment.span() {
            Some((offset, length)) => {
                assert!(fits && length > 0 && offset + length <= 4096);
                assert_eq!((offset, length), (first * 512, (last + 1 - first) * 512));
                good &= (last + 1 - first) % unit == 0;
                sum += u64::from(length / 512);
            }
            None => {
                assert!(!fits);
                good = false;
            }
        }
    }
    good &= sum == 0 || is_within(disk, sector, sum, transfer.writes());
    match disk.check_segments(sector, found, transfer.writes()) {
        Ok(count) => {
            assert!(good);
            assert_eq!(count, sum);
        }
        Err(unsuitable) => {
            assert!(!good, "{unsuitable}");
        }
    }
    good
}

/// What our own frontend makes of the same bytes is the same again, if a frontend could have sent it.
fn encode_again(raw: &[u8]) {
    let words: Vec<u64> = raw
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(number(word, 0)))
        .collect();
    let words: [u64; 14] = words.try_into().expect("14 words");
    let Ok(request) = decode::<Wide>(&words) else {
        return;
    };
    let Request {
        id,
        sector,
        operation,
        wish,
    } = request;
    let again = match wish {
        Wish::Direct(transfer, found) => {
            let kind = match transfer {
                Transfer::Read => blkif::Operation::Read,
                Transfer::Write => blkif::Operation::Write,
                Transfer::WriteBarrier => blkif::Operation::WriteBarrier,
                Transfer::FlushDiskcache => blkif::Operation::FlushDiskcache,
            };
            let mut again = blkif::Request::new(kind, 7, id, sector);
            for segment in found.as_slice() {
                let Some((offset, length)) = segment.span() else {
                    return;
                };
                let segment = Segment::new(segment.gref, offset, length);
                assert!(again.push_segment(segment.expect("a part of a frame")));
            }
            assert_eq!(again.segments().len(), found.as_slice().len());
            again
        }
        Wish::Indirect {
            transfer,
            count,
            grefs,
        } => {
            let frames = count.div_ceil(512);
            let grefs = grefs[..frames].iter().copied();
            blkif::Request::indirect(transfer.writes(), 7, id, sector, count, grefs)
                .expect("as many frames as are needed")
        }
        Wish::Discard { sectors, secure } => blkif::Request::discard(id, sector, sectors, secure),
    };
    assert_eq!(again.answered_operation(), operation);
    // SAFETY: Requests have no padding, and any words are a request.
    let words: [u64; 14] = unsafe { core::mem::transmute(again) };
    let again = decode::<Wide>(&words).expect("what a frontend sends");
    assert_eq!((again.id, again.sector), (id, sector));
    match (&wish, &again.wish) {
        (Wish::Direct(before, some), Wish::Direct(after, same)) => {
            assert_eq!(before, after);
            for (one, other) in some.as_slice().iter().zip(same.as_slice()) {
                assert_eq!((one.gref, one.span()), (other.gref, other.span()));
            }
        }
        (
            Wish::Indirect { count, grefs, .. },
            Wish::Indirect {
                count: same,
                grefs: others,
                ..
            },
        ) => {
            assert_eq!(count, same);
            let frames = count.div_ceil(512);
            assert_eq!(grefs[..frames], others[..frames]);
        }
        (
            Wish::Discard { sectors, secure },
            Wish::Discard {
                sectors: same,
                secure: too,
            },
        ) => assert_eq!((sectors, secure), (same, too)),
        (before, after) => panic!("{before:?} has become {after:?}"),
    }
}
