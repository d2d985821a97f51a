// SPDX-License-Identifier: GPL-2.0

//! The control ring: what a guest asks for, and what a backend answers.

use super::{
    input::Input,
    ring::{
        BackRing,
        FrontRing,
        MOST_STEPS, //
    },
};
use crate::{
    netback::{
        control::{
            Command,
            MOST_GRANTED, //
        },
        hash::{
            Addresses,
            Flow,
            Hashing,
            ALL_FLAGS,
            MOST_ENTRIES,
            MOST_KEY, //
        },
    },
    netfront::hash as front,
    netif::{
        control::{
            Control,
            HashAlgorithm,
            HashKind,
            Operation,
            Request,
            Response,
            Status, //
        },
        Hash, //
    },
};

/// What is set, to be compared.
type Set = (HashAlgorithm, u32, [u8; MOST_KEY], Vec<u32>);

fn set(hashing: &Hashing) -> Set {
    (
        hashing.algorithm(),
        hashing.flags(),
        *hashing.key(),
        hashing.mapping().to_vec(),
    )
}

/// What a request with these words and this memory should change, and its answer, by the protocol's description.
fn expected(request: &Request, bytes: &[u8], queues: u32, before: &Set) -> (Status, u32, Set) {
    let [first, second, third] = request.words;
    let (mut after, mut word) = (before.clone(), 0);
    let enough = |size: usize| bytes.len() >= second as usize * size;
    let good = match request.operation {
        1 if before.0 == HashAlgorithm::None => return (Status::NotSupported, 0, after),
        1 => {
            word = 0xf;
            true
        }
        2 => {
            after.1 = first;
            first & !0xf == 0 && before.0 != HashAlgorithm::None
        }
        3 => {
            let good = second <= 40 && enough(1);
            if good {
                let size = second as usize;
                after.2 = [0; MOST_KEY];
                after.2[..size].copy_from_slice(&bytes[..size]);
            }
            good
        }
        4 => {
            word = 128;
            true
        }
        5 => {
            after.3 = vec![0; first.min(128) as usize];
            first <= 128
        }
        6 => {
            let fits = second <= 128
                && u64::from(third) + u64::from(second) <= before.3.len() as u64
                && enough(4);
            let entries = bytes.chunks_exact(4).map(|entry| {
                let entry = entry.try_into().expect("four bytes");
                u32::from_le_bytes(entry)
            });
            let entries: Vec<u32> = entries.take(second as usize).collect();
            let good = fits && entries.iter().all(|&entry| entry < queues);
            if good {
                after.3[third as usize..][..entries.len()].copy_from_slice(&entries);
            }
            good
        }
        7 => {
            after.0 = HashAlgorithm::from_wire(first).unwrap_or_default();
            first <= 1
        }
        _ => return (Status::NotSupported, 0, after),
    };
    if good {
        (Status::Success, word, after)
    } else {
        (Status::InvalidParameter, 0, before.clone())
    }
}

/// The hash of Toeplitz, one bit after the other.
fn toeplitz(key: &[u8; MOST_KEY], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], index: usize| {
        let byte = bytes.get(index / 8).copied().unwrap_or(0);
        u32::from(byte >> (7 - index % 8)) & 1
    };
    let mut hash = 0;
    for index in 0..input.len() * 8 {
        if bit(input, index) != 0 {
            hash ^= (0..32).fold(0, |window, at| window << 1 | bit(key, index + at));
        }
    }
    hash
}

/// A packet of some flow goes to a queue that there is, and to the right one.
fn check_flow(hashing: &Hashing, queues: u32, input: &mut Input<'_>) {
    let flags = input.u8();
    let ports = (flags & 2 != 0).then(|| (input.u16(), input.u16()));
    let (addresses, mut bytes, plain) = if flags & 1 == 0 {
        let (from, to) = (input.array(), input.array());
        (Addresses::V4(from, to), [from, to].concat(), 0)
    } else {
        let (from, to) = (input.array(), input.array());
        (Addresses::V6(from, to), [from, to].concat(), 2)
    };
    let is_chosen = |kind: u8| hashing.flags() & (1 << kind) != 0;
    let kind = match ports {
        Some((from, to)) if is_chosen(plain + 1) => {
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
            Some(plain + 1)
        }
        _ => is_chosen(plain).then_some(plain),
    };
    let kind = kind.filter(|_| hashing.algorithm() == HashAlgorithm::Toeplitz);
    let expected = kind.map(|kind| Hash {
        kind,
        algorithm: 1,
        value: toeplitz(hashing.key(), &bytes),
    });
    let found = hashing.hash(&Flow { addresses, ports });
    assert_eq!(found, expected);
    // There may be fewer queues meanwhile.
    for queues in [queues, 1, 0] {
        let queue = hashing.queue(found, queues);
        assert!(queue < queues.max(1));
        let value = found.map_or(0, |hash| hash.value);
        let table = hashing.mapping();
        let wanted = match table.len() {
            0 => value,
            size => table[value as usize % size],
        };
        assert_eq!(queue, wanted.checked_rem(queues).unwrap_or(0));
    }
}

/// Requests of a guest.
pub fn requests(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let queues = u32::from(input.u8() % 64) + 1;
    let mut hashing = Hashing::new();
    let Some(mut ring) = BackRing::<Control>::new(&mut input) else {
        return;
    };
    for _ in 0..MOST_STEPS {
        if input.is_empty() || ring.is_dead {
            break;
        }
        ring.step(&mut input);
        while let Some(request) = ring.next() {
            let memory = input.text();
            let before = set(&hashing);
            // Less may be there than was to be: a guest takes grants back.
            let (status, word, after) = expected(&request, memory, queues, &before);
            let reply = match Command::decode(&request) {
                Ok(command) => {
                    if let Some(granted) = command.granted() {
                        assert!(granted.bytes > 0 && granted.bytes <= MOST_GRANTED);
                        assert_eq!(granted.gref, request.words[0]);
                    }
                    command.execute(&mut hashing, memory, queues)
                }
                Err(status) => status.into(),
            };
            assert_eq!((reply.status, reply.word), (status, word), "{request:?}");
            assert_eq!(set(&hashing), after, "{request:?}");
            assert!(hashing.mapping().len() <= MOST_ENTRIES);
            assert!(hashing.mapping().iter().all(|&queue| queue < queues));
            assert_eq!(hashing.flags() & !ALL_FLAGS, 0);
            check_flow(&hashing, queues, &mut input);
            let response = reply.to(&request);
            assert!(response.answers(&request));
            ring.respond(&response);
            let wire = ring.last_response(12);
            assert_eq!(wire[..2], request.id.to_le_bytes());
            assert_eq!(wire[2..4], request.operation.to_le_bytes());
            assert_eq!(wire[4..8], (status as u32).to_le_bytes());
            assert_eq!(wire[8..], word.to_le_bytes());
        }
        ring.rest(1);
    }
}

/// What users choose; it can be anything that can be chosen.
fn choice(queues: u32, input: &mut Input<'_>) -> front::Hashing {
    let mut choice = front::Hashing::new(input.array(), queues);
    let size = usize::from(input.u8());
    let table: Vec<u32> = (0..size).map(|_| u32::from(input.u8() % 80)).collect();
    assert_eq!(choice.set_table(&table).is_ok(), size == 128);
    for _ in 0..input.u8() % 8 {
        let kind = HashKind::ALL[usize::from(input.u8() % 4)];
        let fields = match input.u8() % 3 {
            0 => front::Fields::Nothing,
            1 => front::Fields::Addresses,
            _ => front::Fields::Ports,
        };
        let before = choice.clone();
        match choice.set_fields(kind, fields) {
            Ok(()) => assert_eq!(choice.fields(kind), fields),
            Err(front::Impossible) => assert_eq!(choice, before),
        }
    }
    choice
}

/// Responses of a backend.
pub fn responses(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let queues = u32::from(input.u8() % 64) + 1;
    let mut ring = FrontRing::<Control>::new();
    // A backend that does what it is asked for.
    let mut honest = Hashing::new();
    let mut id = 0u16;
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        let choice = choice(queues, &mut input);
        let has_table = !honest.mapping().is_empty();
        for wanted in choice.requests(has_table) {
            let (operation, words, memory) = match wanted {
                front::Request::Plain(operation, word) => (operation, [word, 0, 0], Vec::new()),
                front::Request::Key => {
                    let key = choice.key().to_vec();
                    (Operation::SetHashKey, [9, 40, 0], key)
                }
                front::Request::Table => {
                    let table = choice.table_bytes(queues).to_vec();
                    (Operation::SetHashMapping, [9, 128, 0], table)
                }
            };
            let request = Request::new(id, operation, words);
            id = id.wrapping_add(1);
            let wire = ring.send(&request);
            assert_eq!(wire[..2], request.id.to_le_bytes());
            assert_eq!(wire[2..4], (operation as u16).to_le_bytes());
            ring.push(0);
            let command = Command::decode(&request).expect("what a frontend asks for");
            let granted = command.granted().map_or(0, |granted| granted.bytes);
            assert_eq!(granted, memory.len());
            let reply = command.execute(&mut honest, &memory, queues);
            assert_eq!(reply.status, Status::Success, "{request:?}");
            if input.u8() % 4 != 3 {
                let response = reply.to(&request);
                let words = [
                    u32::from(response.id) | u32::from(response.operation) << 16,
                    response.status,
                    response.word,
                ];
                ring.answer(&words.map(u32::to_le_bytes).concat());
            } else {
                ring.step(&mut input);
            }
            let Some(response) = ring.next() else {
                // It is not asked again.
                return;
            };
            if !check_response(&response, &request) {
                return;
            }
            ring.rest(1);
        }
        // It has understood everything.
        if honest.algorithm() == HashAlgorithm::Toeplitz {
            assert_eq!(honest.key(), choice.key());
            let table = choice.table().iter().map(|queue| queue % queues);
            assert_eq!(honest.mapping(), table.collect::<Vec<_>>());
            for kind in HashKind::ALL {
                let hashed = honest.flags() & kind.flag() != 0;
                let plain = choice.fields(kind) != front::Fields::Nothing;
                let with_ports = choice.fields(kind) == front::Fields::Ports;
                let expected = if kind.has_ports() { with_ports } else { plain };
                assert_eq!(hashed, expected, "{kind:?}");
            }
        }
    }
}

/// Whether the driver goes on after a response.
fn check_response(response: &Response, request: &Request) -> bool {
    let fits = response.id == request.id && response.operation == request.operation;
    assert_eq!(response.answers(request), fits);
    let expected = match response.status {
        0 => Some(Status::Success),
        1 => Some(Status::NotSupported),
        2 => Some(Status::InvalidParameter),
        3 => Some(Status::BufferOverflow),
        _ => None,
    };
    assert_eq!(Status::from_wire(response.status), expected);
    fits && expected == Some(Status::Success)
}
