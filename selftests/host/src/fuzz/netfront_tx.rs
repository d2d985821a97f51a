// SPDX-License-Identifier: GPL-2.0

//! Responses to what an interface transmits.
//!
//! Packets of all forms are sent, which our own backend must read as they were meant; then a backend answers what it
//! wants.

use super::{
    input::Input,
    netback_tx,
    ring::{
        FrontRing,
        MOST_STEPS, //
    },
};
use crate::{
    netback::transmit as back,
    netfront::{
        groups::Change,
        in_flight::{
            self,
            Slot, //
        },
        transmit::{
            message,
            Info,
            Layout,
            Obstacle,
            Piece,
            MESSAGE_SLOTS,
            MOST_MESSAGES, //
        },
    },
    netif::{
        Checksum,
        Gso,
        GsoKind,
        Hash,
        Status,
        Tx,
        TxResponse,
        TxSlot,
        TX_SLOTS, //
    },
};
use std::collections::HashMap;

/// A packet that is not answered completely.
struct Flight {
    /// [`None`] if it is a message.
    name: Option<u32>,
    length: u32,
    /// The number of its first request, which is in use until all are answered.
    first: u16,
    /// The numbers of those that are not answered.
    left: Vec<u16>,
}

/// The driver's tables, and what should be in them.
struct Tables {
    slots: Vec<Slot<u32, u32>>,
    free: Vec<u16>,
    /// What the requests lend, by their numbers.
    lent: HashMap<u16, u32>,
    flights: Vec<Flight>,
    count: u32,
}

impl Tables {
    fn new() -> Self {
        let numbers = 0..TX_SLOTS as u16;
        Self {
            slots: numbers.clone().map(Slot::new).collect(),
            free: numbers.rev().collect(),
            lent: HashMap::new(),
            flights: Vec::new(),
            count: 0,
        }
    }

    /// A request is sent, `first` being the first one of its packet.
    fn lend(&mut self, first: Option<u16>, packet: Option<u32>, length: u32) -> u16 {
        let id = self.free.pop().expect("a number");
        self.count += 1;
        let loan = self.count;
        let head = first.unwrap_or(id);
        in_flight::send(&mut self.slots, id, head, loan, (packet, length));
        assert_eq!(self.slots[usize::from(id)].loan(), Some(&loan));
        if first.is_none() {
            self.flights.push(Flight {
                name: packet,
                length,
                first: id,
                left: Vec::new(),
            });
        }
        let flight = self.flights.last_mut().expect("it was begun");
        flight.left.push(id);
        let before = self.lent.insert(id, loan);
        assert_eq!(before, None, "the number was not free");
        id
    }

    /// The backend has answered; [`false`] if nobody has asked that.
    fn answer(&mut self, response: TxResponse) -> bool {
        let id = response.id;
        let loan = in_flight::take_loan(&mut self.slots, id);
        let known = self.lent.remove(&id);
        assert_eq!(loan, known);
        if known.is_none() {
            return false;
        }
        let ended = in_flight::end(&mut self.slots, id).expect("it was in flight");
        let mut flights = self.flights.iter();
        let at = flights.position(|flight| flight.left.contains(&id));
        let at = at.expect("it is of a packet");
        let flight = &mut self.flights[at];
        flight.left.retain(|&left| left != id);
        if flight.left.is_empty() {
            let flight = self.flights.remove(at);
            assert_eq!(ended.packet, flight.name.map(|name| (name, flight.length)));
        } else {
            assert_eq!(ended.packet, None);
        }
        for id in ended.free.into_iter().flatten() {
            assert!(!self.free.contains(&id), "it was free already");
            assert!(!self.lent.contains_key(&id), "it is in use");
            self.free.push(id);
        }
        self.check();
        true
    }

    /// Each number is free, or of a packet that is not answered completely.
    fn check(&self) {
        let others = |flight: &Flight| {
            let left = flight.left.iter();
            left.filter(|&&id| id != flight.first).count()
        };
        let used: usize = self.flights.iter().map(|flight| 1 + others(flight)).sum();
        assert_eq!(self.free.len() + used, TX_SLOTS as usize);
        let packets = self.slots.iter().filter(|slot| slot.has_packet()).count();
        let flights = self.flights.iter();
        let expected = flights.filter(|flight| flight.name.is_some()).count();
        assert_eq!(packets, expected);
    }
}

fn info(input: &mut Input<'_>) -> Info {
    let flags = input.u8();
    Info {
        length: 0,
        checksum: match flags % 4 {
            0 => Checksum::Unknown,
            1 => Checksum::Blank,
            _ => Checksum::Validated,
        },
        gso: (flags & 4 != 0).then(|| Gso {
            size: input.u16().max(1),
            kind: if flags & 8 == 0 {
                GsoKind::TcpV4
            } else {
                GsoKind::TcpV6
            },
        }),
        hash: (flags & 16 != 0).then(|| Hash {
            kind: input.u8(),
            algorithm: input.u8(),
            value: input.u32(),
        }),
    }
}

/// The pieces of a packet, as the network stack has it; they can be anything.
fn pieces(input: &mut Input<'_>) -> Vec<Piece<u32>> {
    let count = 1 + input.u8() % 22;
    let piece = |_| Piece {
        frame: input.u32(),
        offset: (input.u16() % 5000).into(),
        length: (input.u16() % 5000).into(),
    };
    (0..count).map(piece).collect()
}

/// Sends a packet, if there is room.
fn send(ring: &mut FrontRing<Tx>, tables: &mut Tables, input: &mut Input<'_>) {
    let pieces = pieces(input);
    let used: Vec<_> = pieces.iter().filter(|piece| piece.length > 0).collect();
    let sum: u32 = used.iter().map(|piece| piece.length).sum();
    let mut info = info(input);
    info.length = sum.wrapping_add_signed(if input.u8() == 1 { 1 } else { 0 });
    let fits = |piece: &&&Piece<u32>| piece.offset + piece.length <= 4096;
    let all_fit = used.iter().filter(fits).count() == used.len();
    let first = used.first().map_or(0, |piece| piece.length);
    let layout = match Layout::new(info, pieces.iter().copied()) {
        Ok(layout) => layout,
        Err(obstacle) => {
            match obstacle {
                Obstacle::TooLong => assert!(info.length > 0xffff),
                Obstacle::NoHeader => assert!(info.length < 14),
                Obstacle::Inconsistent => assert!(!all_fit || sum != info.length),
                Obstacle::Linearize => assert!(used.len() > 18),
                Obstacle::CopyHead => assert!(first < 14),
            }
            return;
        }
    };
    assert!(all_fit && sum == info.length && (14..0x1_0000).contains(&sum));
    assert!(used.len() <= 18 && first >= 14);
    assert_eq!(layout.pieces(), used.len());
    assert!(layout.slots() <= MOST_MESSAGES);
    if (ring.free() as usize) < layout.slots() || tables.free.len() < layout.pieces() {
        return;
    }
    let name = tables.count;
    let mut packet = Some(name);
    let (mut head, mut wire, mut ids) = (None, Vec::new(), Vec::new());
    for message in layout.messages(pieces.iter().copied()) {
        let slot = message.slot(|piece| {
            let id = tables.lend(head, packet.take(), sum);
            head.get_or_insert(id);
            ids.push(id);
            Ok::<_, ()>((piece.frame, id))
        });
        let slot = slot.expect("a slot");
        assert_eq!(ring.send(&slot), netback_tx::raw(slot));
        wire.push(slot);
    }
    assert_eq!(wire.len(), layout.slots());

    let (outcome, rest) = read(&wire);
    assert_eq!(rest, 0, "it is all of the packet");
    let back::Outcome::Packet(found) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(found.length(), sum);
    assert_eq!(
        (found.checksum, found.gso, found.hash),
        (info.checksum, info.gso, info.hash)
    );
    assert_eq!(found.slots().len(), used.len());
    for ((slot, piece), id) in found.slots().iter().zip(used).zip(ids) {
        assert_eq!((slot.gref, slot.id), (piece.frame, id));
        assert_eq!((slot.offset, slot.size), (piece.offset, piece.length));
    }
}

/// What our own backend makes of slots, and how many it has left.
fn read(wire: &[TxSlot]) -> (back::Outcome, usize) {
    let mut slots = wire.iter().copied();
    let first = slots.next().expect("a slot").request();
    let outcome = back::collect(first, || slots.next(), back::Limits::new(20));
    (outcome, slots.len())
}

/// Says which multicast packets are wanted, if there is room.
fn send_change(ring: &mut FrontRing<Tx>, tables: &mut Tables, input: &mut Input<'_>) {
    if ring.free() < MESSAGE_SLOTS || tables.free.is_empty() {
        return;
    }
    let (add, address) = (input.flag(), input.array());
    let (change, expected) = if add {
        (Change::Add(address), back::Change::Add(address))
    } else {
        (Change::Delete(address), back::Change::Delete(address))
    };
    let id = tables.lend(None, None, 0);
    let wire = message(change, id);
    for slot in &wire {
        ring.send(slot);
    }
    match read(&wire) {
        (back::Outcome::Multicast(multicast), 0) => assert_eq!(multicast.change, expected),
        outcome => panic!("{outcome:?}"),
    }
}

pub fn responses(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut ring = FrontRing::<Tx>::new();
    let mut tables = Tables::new();
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        match input.u8() % 4 {
            0 => send_change(&mut ring, &mut tables, &mut input),
            _ => send(&mut ring, &mut tables, &mut input),
        }
        ring.push(input.u8().into());
        match input.u8() % 4 {
            // An honest backend answers some of them, in any order.
            0 | 1 => {
                let mut ids: Vec<_> = tables.lent.keys().copied().collect();
                ids.sort_unstable();
                for _ in 0..input.u8() % 32 {
                    if ids.is_empty() {
                        break;
                    }
                    let id = ids.swap_remove(usize::from(input.u8()) % ids.len());
                    let mut bytes = [0; 12];
                    bytes[..2].copy_from_slice(&id.to_le_bytes());
                    ring.answer(&bytes);
                }
            }
            _ => ring.step(&mut input),
        }
        while let Some(response) = ring.next() {
            let status = response.status();
            match response.status {
                1 => assert_eq!(status, Status::Null),
                0 => assert_eq!(status, Status::Okay),
                -2 => assert_eq!(status, Status::Dropped),
                _ => assert_eq!(status, Status::Error),
            }
            // The answer to an extra info has no number.
            if status != Status::Null && !tables.answer(response) {
                return;
            }
        }
        ring.rest(input.u8().into());
    }
}
