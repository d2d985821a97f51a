// SPDX-License-Identifier: GPL-2.0

//! What a guest transmits.
//!
//! A packet is judged once more here, by the rules that Linux' C driver has for them, and from the bytes of its slots.

use super::{
    input::Input,
    ring::{
        BackRing,
        MOST_STEPS, //
    },
};
use crate::{
    netback::{
        multicast::{
            is_multicast,
            Groups, //
        },
        plan::{
            Place,
            Plan,
            LEAST_HEAD,
            MOST_FRAGMENTS, //
        },
        transmit::{
            collect,
            Change,
            Fault,
            Limits,
            Outcome,
            Packet,
            Reason, //
        },
    },
    netif::{
        Checksum,
        Extra,
        ExtraError,
        GsoKind,
        Status,
        Tx,
        TxResponse,
        TxSlot, //
    },
};

/// A slot as the guest has written it.
pub type Raw = [u8; 12];

fn half(raw: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([raw[at], raw[at + 1]])
}

fn offset(raw: &Raw) -> u32 {
    half(raw, 4).into()
}

fn size(raw: &Raw) -> u32 {
    half(raw, 10).into()
}

fn has_more(raw: &Raw) -> bool {
    raw[6] & 4 != 0
}

/// The bytes of a slot.
pub fn raw(slot: TxSlot) -> Raw {
    // SAFETY: A slot is three words.
    unsafe { core::mem::transmute(slot) }
}

/// What a packet should turn out to be.
#[derive(Debug)]
enum Expected {
    /// A packet, and the bytes of its first slot.
    Packet(u32),
    Multicast(Change),
    Drop(Reason),
    Fatal(Fault),
}

/// What extra infos say.
#[derive(Default)]
struct Said {
    gso: Option<(u16, u8)>,
    hash: Option<[u8; 6]>,
    change: [Option<[u8; 6]>; 2],
}

impl Said {
    fn note(&mut self, extra: &[u8]) -> Result<(), ExtraError> {
        let address: [u8; 6] = extra[2..8].try_into().expect("six bytes");
        match extra[0] {
            1 if half(extra, 2) == 0 => return Err(ExtraError::GsoSize),
            1 if !(1..=2).contains(&extra[4]) => return Err(ExtraError::GsoKind(extra[4])),
            1 => self.gso = Some((half(extra, 2), extra[4])),
            2 => self.change[0] = Some(address),
            3 => self.change[1] = Some(address),
            4 => self.hash = Some(address),
            5 => {}
            number => return Err(ExtraError::Type(number)),
        }
        Ok(())
    }

    fn change(&self) -> Option<Change> {
        match self.change {
            [Some(address), _] => Some(Change::Add(address)),
            [None, address] => address.map(Change::Delete),
        }
    }
}

/// A packet that was judged: what was said of it, how many slots are its extra infos, and how many had to be taken.
struct Judged {
    expected: Expected,
    said: Said,
    extras: usize,
    used: usize,
}

/// Judges the slots that were taken for a packet; `fatal` is the most behind the first one.
fn judge(taken: &[Raw], fatal: usize) -> Judged {
    let mut judged = Judged {
        expected: Expected::Packet(0),
        said: Said::default(),
        extras: 0,
        used: 1,
    };
    judged.expected = judge_extras(taken, &mut judged)
        .err()
        .map(Expected::Fatal)
        .or_else(|| judged.said.change().map(Expected::Multicast))
        .unwrap_or_else(|| match judge_data(taken, fatal, &mut judged) {
            Ok(expected) => expected,
            Err(fault) => Expected::Fatal(fault),
        });
    judged
}

fn judge_extras(taken: &[Raw], judged: &mut Judged) -> Result<(), Fault> {
    let mut more = taken[0][6] & 8 != 0;
    while more {
        let extra = &taken.get(judged.used).ok_or(Fault::MissingExtra)?[..8];
        judged.used += 1;
        judged.extras += 1;
        judged.said.note(extra).map_err(Fault::Extra)?;
        more = extra[1] & 1 != 0;
    }
    Ok(())
}

fn judge_data(taken: &[Raw], fatal: usize, judged: &mut Judged) -> Result<Expected, Fault> {
    let (mut rest, mut too_large, mut count) = (size(&taken[0]), false, 0);
    let mut more = has_more(&taken[0]);
    while more {
        let slot = taken.get(judged.used).ok_or(match count {
            255 => Fault::TooManySlots(fatal),
            _ => Fault::MissingSlot(count),
        })?;
        judged.used += 1;
        count += 1;
        if count > fatal {
            return Err(Fault::TooManySlots(fatal));
        }
        if offset(slot) + size(slot) > 4096 {
            return Err(Fault::CrossesPage(offset(slot), size(slot)));
        }
        // Of a packet that is too long anyway nobody adds up the sizes.
        if count <= 18 {
            match rest.checked_sub(size(slot)) {
                Some(left) => rest = left,
                None => too_large = true,
            }
        }
        more = has_more(slot);
    }
    Ok(if too_large {
        Expected::Drop(Reason::SlotSize)
    } else if count > 18 {
        Expected::Drop(Reason::SlotCount)
    } else if size(&taken[0]) < 14 {
        Expected::Drop(Reason::NoHeader)
    } else if offset(&taken[0]) + rest > 4096 {
        return Err(Fault::CrossesPage(offset(&taken[0]), rest));
    } else {
        Expected::Packet(rest)
    })
}

/// The answers that all slots should get.
fn answers(taken: &[Raw], extras: usize, status: Status) -> Vec<TxResponse> {
    let answer = |(index, slot): (usize, &Raw)| {
        if (1..=extras).contains(&index) {
            TxResponse::null()
        } else {
            TxResponse::new(half(slot, 8), status)
        }
    };
    taken.iter().enumerate().map(answer).collect()
}

fn check_packet(packet: &Packet, taken: &[Raw], extras: usize, first: u32, said: &Said) {
    assert_eq!(packet.length(), size(&taken[0]));
    assert!((14..0x1_0000).contains(&packet.length()));
    assert_eq!(packet.extras(), extras);
    let data = core::iter::once(&taken[0]).chain(&taken[1 + extras..]);
    let slots = packet.slots();
    assert_eq!(slots.len(), taken.len() - extras);
    assert!(slots.len() <= 19);
    let mut sum = 0;
    for (index, (slot, raw)) in slots.iter().zip(data).enumerate() {
        let length = if index == 0 { first } else { size(raw) };
        assert_eq!((slot.offset, slot.size), (offset(raw), length));
        assert!(slot.offset + slot.size <= 4096);
        assert_eq!(slot.id, half(raw, 8));
        assert_eq!(slot.gref.to_le_bytes(), raw[..4]);
        sum += slot.size;
    }
    assert_eq!(sum, packet.length());
    let checksum = match taken[0][6] & 3 {
        0 => Checksum::Unknown,
        2 => Checksum::Validated,
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
    assert_eq!(gso, said.gso);
    let hash = packet.hash.map(|hash| {
        let [a, b, c, d] = hash.value.to_le_bytes();
        [hash.kind, hash.algorithm, a, b, c, d]
    });
    assert_eq!(hash, said.hash);
}

/// All bytes are copied once, in order, from where they are, and to where there is room.
fn check_plan(packet: &Packet, head: u32, head_start: u32) {
    let plan = Plan::new(packet, head);
    assert!(plan.head() >= head.max(LEAST_HEAD).min(packet.length()));
    let mut from = packet
        .slots()
        .iter()
        .flat_map(|slot| (0..slot.size).map(move |byte| (slot.gref, slot.offset + byte)));
    let mut done = 0;
    for piece in plan.copies(head_start) {
        assert!(piece.length > 0);
        assert_eq!(piece.to_offset, done);
        assert!(piece.from_offset + piece.length <= 4096);
        let start = from.next().expect("a byte");
        assert_eq!(start, (piece.gref, piece.from_offset));
        if piece.length > 1 {
            let end = from.nth(piece.length as usize - 2).expect("a byte");
            assert_eq!(end, (piece.gref, piece.from_offset + piece.length - 1));
        }
        let last = match plan.place(piece.to_offset) {
            Place::Head(at) => {
                let within = (head_start + at) % 4096;
                assert!(within + piece.length <= 4096);
                assert!(at + piece.length <= plan.head());
                Place::Head(at + piece.length - 1)
            }
            Place::Page(page, at) => {
                assert!(page < MOST_FRAGMENTS && at + piece.length <= 4096);
                Place::Page(page, at + piece.length - 1)
            }
        };
        done += piece.length;
        assert_eq!(plan.place(done - 1), last);
    }
    assert_eq!(done, packet.length());
    assert_eq!(from.next(), None);
}

/// What a guest has asked for, kept in another way.
struct Listeners {
    groups: Groups,
    known: Vec<[u8; 6]>,
}

impl Listeners {
    fn change(&mut self, change: Change) -> Status {
        let expected = match change {
            Change::Add(address) if self.known.contains(&address) => Ok(()),
            Change::Add(_) if self.known.len() == 64 => Err(()),
            Change::Add(address) => {
                self.known.push(address);
                Ok(())
            }
            Change::Delete(address) => {
                self.known.retain(|known| *known != address);
                Ok(())
            }
        };
        let result = self.groups.change(change);
        assert_eq!(result.map_err(|_| ()), expected);
        assert!(self
            .known
            .iter()
            .all(|address| self.groups.contains(address)));
        let (Change::Add(address) | Change::Delete(address)) = change;
        assert_eq!(
            self.groups.contains(&address),
            self.known.contains(&address)
        );
        let is_group = address[0] & 1 != 0 && address != [0xff; 6];
        assert_eq!(is_multicast(&address), is_group);
        if result.is_ok() {
            Status::Okay
        } else {
            Status::Error
        }
    }
}

pub fn requests(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let limit = u32::from(input.u16());
    let (limits, fatal) = (Limits::new(limit), (limit as usize).clamp(18, 255));
    let (head, head_start) = (input.u16().into(), u32::from(input.u16() % 4096));
    let mut listeners = Listeners {
        groups: Groups::new(),
        known: Vec::new(),
    };
    let Some(mut ring) = BackRing::<Tx>::new(&mut input) else {
        return;
    };
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        ring.step(&mut input);
        for _ in 0..input.u8() % 64 {
            let Some(first) = ring.next() else { break };
            let mut taken = vec![raw(first)];
            let outcome = collect(
                first.request(),
                || {
                    let slot = ring.next()?;
                    taken.push(raw(slot));
                    Some(slot)
                },
                limits,
            );
            if ring.is_dead {
                return;
            }
            assert!(taken.len() <= 256);
            let Judged {
                expected,
                said,
                extras,
                used,
            } = judge(&taken, fatal);
            assert_eq!(used, taken.len(), "a slot of another packet was taken");
            let (responses, status): (Vec<_>, _) = match (&outcome, &expected) {
                (Outcome::Packet(packet), Expected::Packet(first)) => {
                    check_packet(packet, &taken, extras, *first, &said);
                    check_plan(packet, head, head_start);
                    let status = Status::from_wire(i16::from(input.u8() % 4) - 2);
                    (packet.responses(status).collect(), status)
                }
                (Outcome::Multicast(multicast), Expected::Multicast(change)) => {
                    assert_eq!(multicast.change, *change);
                    let status = listeners.change(*change);
                    (multicast.responses(status).collect(), status)
                }
                (Outcome::Drop(dropped), Expected::Drop(reason)) => {
                    assert_eq!(dropped.reason, *reason);
                    (dropped.responses().collect(), Status::Error)
                }
                (Outcome::Fatal(fault), Expected::Fatal(expected)) => {
                    assert_eq!(fault, expected);
                    return;
                }
                (outcome, expected) => panic!("{outcome:?}, not {expected:?}"),
            };
            // Each slot that was taken has its answer.
            assert_eq!(responses, answers(&taken, extras, status));
            for response in &responses {
                ring.respond(response);
            }
        }
        ring.rest(input.u8().into());
    }
}

/// An extra info is the same again when it was written by this side.
pub fn check_extra(bytes: [u8; 8]) {
    if let Ok((extra, more)) = Extra::parse(bytes) {
        assert_eq!(Extra::has_more(bytes), more);
        let again = extra.to_bytes(more);
        assert_eq!(Extra::parse(again), Ok((extra, more)));
    }
}
