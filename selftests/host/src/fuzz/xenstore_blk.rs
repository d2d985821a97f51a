// SPDX-License-Identifier: GPL-2.0

//! The keys of a disk, of the backend's and of the frontend's directory.

use super::input::Input;
use crate::{
    blkback::features::{
        disk_info,
        limit,
        ChoiceError,
        RingChoice, //
    },
    blkfront::{
        features::{
            agree_segments,
            check_sectors,
            Discard,
            DiskInfo,
            Flush,
            Geometry,
            GeometryError,
            RingLimits,
            Terms, //
        },
        transfer::{
            Kind,
            Rest,
            Transfer, //
        },
    },
    io::blkif::{
        self,
        back::Abi, //
    },
    xenbus::value::Value,
};

/// The value of a key, if it is there and makes sense.
pub fn key<V: Value>(input: &mut Input<'_>) -> Option<V> {
    V::parse(input.text())
}

/// A number that is likely to be near to one that matters.
pub fn interesting(input: &mut Input<'_>) -> u64 {
    let shift = u32::from(input.u8() % 65);
    let near = i64::from(input.u8() as i8);
    1u64.checked_shl(shift)
        .unwrap_or(0)
        .wrapping_add_signed(near)
}

fn geometry(input: &mut Input<'_>) -> Option<Geometry> {
    let (sectors, size, physical) = if input.flag() {
        (key(input)?, key(input)?, key(input))
    } else {
        let physical = input.flag().then(|| interesting(input));
        (interesting(input), interesting(input), physical)
    };
    let is_size = |size: u64| size & size.wrapping_sub(1) == 0 && size != 0;
    let good_size = is_size(size) && (512..=4096).contains(&size);
    let physical_size = physical.unwrap_or(size);
    let good_physical = is_size(physical_size) && physical_size >= size && physical_size <= 1 << 30;
    let good_sectors = u128::from(sectors) * 512 <= i64::MAX as u128;
    assert_eq!(check_sectors(sectors).is_ok(), good_sectors);
    match Geometry::new(sectors, size, physical) {
        Ok(geometry) => {
            assert!(good_size && good_physical && good_sectors);
            assert_eq!(geometry.sectors, sectors);
            assert_eq!(u64::from(geometry.sector_size), size);
            assert_eq!(u64::from(geometry.physical_sector_size), physical_size);
            Some(geometry)
        }
        Err(error) => {
            match error {
                GeometryError::SectorSize(wrong) => assert!(wrong == size && !good_size),
                GeometryError::PhysicalSectorSize(wrong) => {
                    assert!(wrong == physical_size && !good_physical);
                }
                GeometryError::Sectors(wrong) => assert!(wrong == sectors && !good_sectors),
            }
            None
        }
    }
}

fn discard(input: &mut Input<'_>) -> Option<Discard> {
    let number = |input: &mut Input<'_>| {
        if input.flag() {
            key::<u32>(input)
        } else {
            Some(interesting(input) as u32)
        }
    };
    let granularity = number(input).unwrap_or(0);
    let alignment = number(input).unwrap_or(0);
    let secure = input.flag();
    let Ok(found) = Discard::new(granularity, alignment, secure) else {
        assert_ne!(granularity % 512, 0);
        return None;
    };
    assert_eq!((found.granularity, found.secure), (granularity, secure));
    assert_eq!(granularity % 512, 0);
    let is_place = alignment < granularity && alignment % 512 == 0;
    assert_eq!(found.alignment, if is_place { alignment } else { 0 });
    Some(found)
}

/// What a frontend makes of its backend's keys.
fn frontend(input: &mut Input<'_>) {
    let geometry = geometry(input);
    let (cache, barrier) = (key(input).unwrap_or(false), key(input).unwrap_or(false));
    let flush = Flush::choose(cache, barrier);
    let is_none = flush == Flush::None;
    assert_eq!(is_none, !cache && !barrier);
    assert_eq!(flush == Flush::Diskcache, cache);
    let (ours, theirs) = (input.u32(), key::<u32>(input).unwrap_or(0));
    let segments = agree_segments(ours, theirs);
    assert!((11..=4096).contains(&segments));
    assert!(segments <= ours.min(theirs) || segments == 11);
    assert!(blkif::indirect_frames(segments as usize) <= blkif::MAX_INDIRECT_FRAMES);

    let limits = |input: &mut Input<'_>| RingLimits {
        queues: key(input).unwrap_or(1),
        order: key(input).unwrap_or(0),
    };
    let (mine, other) = (limits(input), limits(input));
    let agreed = mine.agree(other);
    assert_eq!(agreed, other.agree(mine));
    assert!(agreed.queues >= 1 && agreed.queues <= mine.queues.min(other.queues).clamp(1, 256));
    assert!(agreed.order <= mine.order && agreed.order <= other.order);
    assert!(agreed.polled(input.u32()) < agreed.queues);

    let info = DiskInfo(key(input).unwrap_or(0));
    let (cdrom, removable) = (info.is_cdrom(), info.is_removable());
    let again = disk_info(cdrom, removable, info.is_read_only());
    assert_eq!(again, info.0 & 7);

    let Some(geometry) = geometry else { return };
    let terms = Terms {
        flush,
        discard: discard(input),
        segments,
        persistent: key(input).unwrap_or(false),
        sector_size: geometry.sector_size,
    };
    let lost = terms.without_lost(Terms {
        flush: Flush::None,
        discard: None,
        ..terms
    });
    assert_eq!((lost.flush, lost.discard), (Flush::None, None));
    assert_eq!(terms.without_lost(terms), terms);
    messages(&terms, input);
}

/// Reads and writes become messages of whole sectors, which are all of them.
fn messages(terms: &Terms, input: &mut Input<'_>) {
    let unit = terms.sector_size;
    let total = u32::from(input.u16() % 1024) * unit;
    let mut rest = Rest {
        read: input.flag(),
        durable: input.flag(),
        bytes: total,
        segments: input.flag().then(|| usize::from(input.u16())),
    };
    let durable = rest.durable;
    let mut flushes = 0;
    while rest.bytes > 0 {
        // A message has room for segments of a page each.
        let fitting = |segments: usize| segments as u32 * 4096;
        let message = Transfer::next(rest, terms, fitting).expect("a sector fits");
        assert!(message.bytes > 0 && message.bytes <= rest.bytes);
        assert_eq!(message.bytes % unit, 0);
        assert!(message.segments <= terms.segments as usize);
        assert!(message.kind != Kind::Barrier || message.segments <= 11);
        assert_eq!(message.kind == Kind::Read, rest.read);
        rest.bytes -= message.bytes;
        rest.segments = None;
        if message.flush_next || message.kind == Kind::Barrier {
            // It is the last one, which is for all of them.
            assert!(durable && rest.bytes == 0);
            flushes += 1;
        }
    }
    let is_barrier = terms.flush == Flush::Barrier && !rest.read;
    let once = durable && total > 0 && (is_barrier || terms.flush == Flush::Diskcache);
    assert_eq!(flushes, u32::from(once));
}

/// What a backend makes of its frontend's keys.
fn backend(input: &mut Input<'_>) {
    let protocol = input.text();
    let abi = Abi::parse((!protocol.is_empty()).then_some(protocol));
    match abi {
        Some(abi) => assert!((1..=3).contains(&abi.number())),
        None => assert!(!protocol.is_empty()),
    }
    let is_known = [
        &b"x86_64-abi"[..],
        b"x86_32-abi",
        blkif::PROTOCOL.as_bytes(),
    ];
    assert!(!is_known.contains(&protocol) || abi.is_some());

    let choice = RingChoice {
        queues: key(input),
        max_queues: input.u8().into(),
        order: key(input),
        max_order: input.u8().into(),
    };
    match choice.check() {
        Ok(layout) => {
            assert!(layout.rings >= 1 && layout.rings <= choice.max_queues.max(1));
            assert_eq!(layout.rings, choice.queues.unwrap_or(1));
            assert_eq!(layout.own_directories, layout.rings > 1);
            let order = choice.order.unwrap_or(0);
            assert!(order <= choice.max_order);
            assert_eq!(u64::from(layout.pages), 1 << order);
            assert_eq!(layout.numbered, choice.order.is_some());
        }
        Err(ChoiceError::Queues(queues, _)) => {
            assert!(queues == 0 || queues > choice.max_queues.max(1));
        }
        Err(ChoiceError::Order(order, most)) => {
            let queues = choice.queues.unwrap_or(1);
            assert!(queues >= 1 && queues <= choice.max_queues.max(1));
            assert!(order > most || order >= 32);
        }
    }
    let parameter = input.u32() as i32;
    assert_eq!(limit(parameter) as i64, i64::from(parameter.max(0)));
}

/// Keys of both ends.
pub fn keys(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    frontend(&mut input);
    backend(&mut input);
}
