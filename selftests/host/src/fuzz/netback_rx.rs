// SPDX-License-Identifier: GPL-2.0

//! Frames that a guest offers for what it receives, and how packets are laid out in them.
//!
//! What is answered is read by our own frontend, which must find the packet in it.

use super::{
    input::Input,
    ring::{
        BackRing,
        MOST_STEPS, //
    },
};
use crate::{
    netback::delivery::{
        Delivery,
        Description,
        MOST_EXTRAS, //
    },
    netfront::receive::{
        self,
        Outcome,
        Reason, //
    },
    netif::{
        Checksum,
        Gso,
        GsoKind,
        Hash,
        Rx,
        RxSlot, //
    },
};

fn description(input: &mut Input<'_>) -> Description {
    let flags = input.u8();
    let gso = Gso {
        size: input.u16().max(1),
        kind: if flags & 1 == 0 {
            GsoKind::TcpV4
        } else {
            GsoKind::TcpV6
        },
    };
    let hash = Hash {
        kind: input.u8(),
        algorithm: input.u8(),
        value: input.u32(),
    };
    Description {
        length: u32::from(input.u16()).max(14),
        checksum: match (flags >> 1) % 4 {
            0 => Checksum::Unknown,
            1 => Checksum::Blank,
            _ => Checksum::Validated,
        },
        gso: (flags & 8 != 0).then_some(gso),
        hash: (flags & 16 != 0).then_some(hash),
    }
}

/// What the frontend makes of answers.
fn read(answers: &[RxSlot], what: &Description, headroom: u32) {
    let mut slots = answers.iter().copied();
    let first = slots.next().expect("an answer");
    let outcome = receive::collect(first.response(), || slots.next());
    assert_eq!(slots.next(), None, "the packet is all there is");
    let extras =
        u32::from(what.gso.is_some()) + u32::from(what.hash.is_some()) + u32::from(headroom > 0);
    assert!(extras <= MOST_EXTRAS);
    let room = 4096 - headroom;
    let data = what.length.div_ceil(room);
    let most = if what.length.min(room) <= 256 { 19 } else { 18 };
    match outcome {
        Outcome::Packet(packet) => {
            assert!(data <= most);
            assert_eq!(packet.length(), what.length);
            assert_eq!(
                (packet.checksum, packet.gso, packet.hash),
                (what.checksum, what.gso, what.hash)
            );
            let mut left = what.length;
            for (index, fragment) in (0..).zip(packet.fragments()) {
                assert_eq!(
                    (fragment.offset, fragment.length),
                    (headroom, left.min(room))
                );
                let position = if index == 0 { 0 } else { extras + index };
                assert_eq!(fragment.position, position as usize);
                left -= fragment.length;
            }
            assert_eq!(left, 0);
            let unused: Vec<_> = packet.unused().collect();
            assert_eq!(unused, (1..=extras as usize).collect::<Vec<_>>());
        }
        // With much headroom a packet takes more slots than a frontend has to take.
        Outcome::Rejected(rejected) => {
            assert_eq!(rejected.reason, Reason::SlotCount(data as usize));
            assert!(data > most);
            assert_eq!(rejected.slots, answers.len());
        }
        Outcome::Incomplete(rejected) => panic!("{rejected:?}"),
    }
}

pub fn requests(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(mut ring) = BackRing::<Rx>::new(&mut input) else {
        return;
    };
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        ring.step(&mut input);
        let what = description(&mut input);
        let wanted = u32::from(input.u16());
        let delivery = Delivery::new(what, wanted);
        let headroom = if wanted < 4096 { wanted } else { 0 };
        assert_eq!(delivery.headroom(), headroom);
        assert_eq!(delivery.room(), 4096 - headroom);
        // A packet is begun only if there are enough requests for all of it.
        if ring.pending() < delivery.slots() {
            ring.rest(delivery.slots());
            continue;
        }
        let mut answers = Vec::new();
        let mut done = 0;
        while done < what.length {
            let Some(request) = ring.next() else { break };
            let filled = delivery.room().min(what.length - done);
            answers.push(delivery.response(request.id, done, filled));
            if done == 0 {
                for slot in delivery.extras() {
                    if ring.next().is_some() {
                        answers.push(slot);
                    }
                }
            }
            done += filled;
        }
        // They were there, and they stay, whatever the guest does to the index meanwhile.
        assert!(!ring.is_dead && done == what.length);
        assert_eq!(answers.len() as u32, delivery.slots());
        read(&answers, &what, headroom);
        for answer in &answers {
            ring.respond(answer);
            assert_eq!(ring.last_response(8), answer.extra());
        }
        ring.rest(input.u8().into());
    }
}
