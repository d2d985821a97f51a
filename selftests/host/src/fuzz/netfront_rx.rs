// SPDX-License-Identifier: GPL-2.0

//! What a backend says that an interface has received.
//!
//! A packet is judged once more here, from the bytes of its slots.

use super::{
    input::Input,
    netback_tx::check_extra,
    ring::{
        FrontRing,
        MOST_STEPS, //
    },
};
use crate::{
    netfront::receive::{
        collect,
        is_seen,
        Outcome,
        Packet,
        Reason,
        Sight, //
    },
    netif::{
        Checksum,
        ExtraError,
        GsoKind,
        Rx,
        RxRequest,
        RxSlot, //
    },
};

type Raw = [u8; 8];

fn half(raw: &Raw, at: usize) -> u16 {
    u16::from_le_bytes([raw[at], raw[at + 1]])
}

/// What extra infos say.
#[derive(Default)]
struct Said {
    gso: Option<(u16, u8)>,
    hash: Option<[u8; 6]>,
    headroom: Option<u16>,
}

impl Said {
    fn note(&mut self, extra: &Raw) -> Result<(), ExtraError> {
        match extra[0] {
            1 if half(extra, 2) == 0 => return Err(ExtraError::GsoSize),
            1 if !(1..=2).contains(&extra[4]) => return Err(ExtraError::GsoKind(extra[4])),
            1 => self.gso = Some((half(extra, 2), extra[4])),
            2 | 3 => {}
            4 => self.hash = Some(extra[2..].try_into().expect("six bytes")),
            5 => self.headroom = Some(half(extra, 2)),
            number => return Err(ExtraError::Type(number)),
        }
        Ok(())
    }

    /// Where the data of a slot is.
    fn piece(&self, slot: &Raw) -> Result<(u32, u32), Reason> {
        let (offset, status) = (half(slot, 2), half(slot, 6) as i16);
        if status < 0 || i32::from(offset) + i32::from(status) > 4096 {
            return Err(Reason::Piece(offset, status));
        }
        let (offset, length) = (u32::from(offset), status as u32);
        match self.headroom {
            Some(headroom) if offset == 0 && u32::from(headroom) > length => {
                Err(Reason::Headroom(status, headroom))
            }
            Some(headroom) if offset == 0 => {
                Ok((u32::from(headroom), length - u32::from(headroom)))
            }
            _ => Ok((offset, length)),
        }
    }
}

/// What is wrong with the slots that were taken for a packet, if anything; what was said of it, its extra infos, the
/// data of its slots, and whether all of it was there.
struct Judged {
    wrong: Option<Reason>,
    said: Said,
    extras: usize,
    data: Vec<(u32, u32)>,
    is_complete: bool,
}

fn judge(taken: &[Raw]) -> Judged {
    let mut judged = Judged {
        wrong: None,
        said: Said::default(),
        extras: 0,
        data: Vec::new(),
        is_complete: false,
    };
    let mut wrong = None;
    let mut more = taken[0][4] & 8 != 0;
    while more {
        let Some(extra) = taken.get(judged.extras + 1) else {
            judged.wrong = wrong.or(Some(Reason::MissingExtra));
            return judged;
        };
        judged.extras += 1;
        check_extra(*extra);
        let noted = judged.said.note(extra);
        wrong = wrong.or(noted.err().map(Reason::Extra));
        more = extra[1] & 1 != 0;
    }
    let mut slots = core::iter::once(&taken[0]).chain(&taken[1 + judged.extras..]);
    loop {
        let Some(slot) = slots.next() else {
            judged.wrong = wrong.or(Some(Reason::MissingSlot));
            return judged;
        };
        let piece = judged.said.piece(slot);
        judged.data.push(*piece.as_ref().unwrap_or(&(0, 0)));
        wrong = wrong.or(piece.err());
        if slot[4] & 4 == 0 {
            break;
        }
    }
    assert_eq!(slots.next(), None, "a slot of another packet was taken");
    judged.is_complete = true;
    let (_, first) = judged.data[0];
    let most = if first <= 256 { 19 } else { 18 };
    if judged.data.len() > most {
        wrong = wrong.or(Some(Reason::SlotCount(judged.data.len())));
    }
    if judged.data.iter().map(|(_, length)| length).sum::<u32>() < 14 {
        wrong = wrong.or(Some(Reason::NoHeader));
    }
    judged.wrong = wrong;
    judged
}

fn check_packet(packet: &Packet, judged: &Judged, taken: &[Raw], room: u32) {
    assert_eq!(judged.wrong, None);
    assert_eq!(packet.fragments().len(), judged.data.len());
    assert!(packet.fragments().len() <= 19);
    let mut sum = 0;
    let mut positions = Vec::new();
    for (index, (fragment, data)) in packet.fragments().iter().zip(&judged.data).enumerate() {
        assert_eq!((fragment.offset, fragment.length), *data);
        assert!(fragment.offset + fragment.length <= 4096);
        let position = if index == 0 { 0 } else { judged.extras + index };
        assert_eq!(fragment.position, position);
        assert!(position < taken.len());
        sum += fragment.length;
        if fragment.length > 0 {
            positions.push(position);
        }
    }
    assert_eq!(packet.length(), sum);
    assert!(sum >= 14);
    // Each buffer is part of the packet, or can be offered again.
    positions.extend(packet.unused());
    positions.sort_unstable();
    assert_eq!(positions, (0..taken.len()).collect::<Vec<_>>());
    let checksum = match taken[0][4] & 3 {
        0 => Checksum::Unknown,
        1 => Checksum::Validated,
        _ => Checksum::Blank,
    };
    assert_eq!(packet.checksum, checksum);
    let gso = packet.gso.map(|gso| {
        let kind = match gso.kind {
            GsoKind::TcpV4 => 1,
            GsoKind::TcpV6 => 2,
        };
        (gso.size, kind)
    });
    assert_eq!(gso, judged.said.gso);
    let hash = packet.hash.map(|hash| {
        let [a, b, c, d] = hash.value.to_le_bytes();
        [hash.kind, hash.algorithm, a, b, c, d]
    });
    assert_eq!(hash, judged.said.hash);
    for has_frags in [false, true] {
        let fits = has_frags || (judged.data.len() == 1 && sum <= room);
        let seen = is_seen(packet, Sight { room, has_frags });
        assert_eq!(seen, fits && judged.said.gso.is_none());
    }
}

pub fn responses(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let room = input.u16().into();
    let mut ring = FrontRing::<Rx>::new();
    // The pages that the backend has, by the slots of their requests.
    let mut buffers = vec![None; 256];
    let mut count = 0;
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        let keep = u32::from(input.u8());
        while ring.free() > keep {
            let id = ring.request_slot() as u16;
            let place = &mut buffers[usize::from(id)];
            assert_eq!(*place, None, "the backend has it still");
            *place = Some(count);
            let wire = ring.send(&RxRequest::new(id, count));
            assert_eq!(wire[..4], [id as u8, 0, 0, 0]);
            assert_eq!(wire[4..], count.to_le_bytes());
            count += 1;
        }
        ring.push(input.u8().into());
        ring.step(&mut input);
        for _ in 0..input.u8() % 64 {
            let first_slot = ring.response_slot() as usize;
            let Some(first) = ring.next() else { break };
            let mut taken: Vec<Raw> = vec![first.extra()];
            let outcome = collect(first.response(), || {
                let slot: RxSlot = ring.next()?;
                taken.push(slot.extra());
                Some(slot)
            });
            if ring.is_dead {
                return;
            }
            assert!(taken.len() <= 256);
            let judged = judge(&taken);
            match &outcome {
                Outcome::Packet(packet) => check_packet(packet, &judged, &taken, room),
                Outcome::Rejected(rejected) => {
                    assert_eq!(Some(rejected.reason), judged.wrong);
                    assert!(judged.is_complete && rejected.slots == taken.len());
                }
                Outcome::Incomplete(rejected) => {
                    assert_eq!(Some(rejected.reason), judged.wrong);
                    assert!(!judged.is_complete && rejected.slots == taken.len());
                }
            }
            for position in 0..taken.len() {
                let buffer = buffers[(first_slot + position) % 256].take();
                assert!(buffer.is_some(), "the backend had no page there");
            }
        }
        ring.rest(input.u8().into());
    }
}
