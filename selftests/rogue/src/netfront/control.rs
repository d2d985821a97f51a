// SPDX-License-Identifier: GPL-2.0

//! What a guest can ask for by the control ring.

use std::io;
use std::sync::atomic::Ordering;

use super::attack::{Attack, Expected};
use super::ring::Index;
use super::{ensure, wrong, Front, NO_GREF};
use crate::netif;

const SUCCESS: u32 = 0;
const NOT_SUPPORTED: u32 = 1;
const INVALID: u32 = 2;

const GET_FLAGS: u16 = 1;
const SET_FLAGS: u16 = 2;
const SET_KEY: u16 = 3;
const GET_MAPPING_SIZE: u16 = 4;
const SET_MAPPING_SIZE: u16 = 5;
const SET_MAPPING: u16 = 6;
const SET_ALGORITHM: u16 = 7;

/// Asks, and says what is answered: status and data.
fn ask(front: &mut Front, operation: u16, data: [u32; 3]) -> io::Result<(u32, u32)> {
    let (ring, channel) = front.control.as_mut().ok_or_else(|| wrong("no ring"))?;
    // CAST: Any number will do.
    let id = ring.produced() as u16;
    ring.put(&netif::control_request(id, operation, data));
    ring.publish();
    channel.notify()?;
    let words = front.wait("an answer", |this| {
        Ok(this.control.as_mut().and_then(|(ring, _)| ring.take()))
    })?;
    let (got_id, got_operation, status, data) = netif::control_response(&words);
    ensure(
        (got_id, got_operation) == (id, operation),
        format!("the answer is to {got_operation} ({got_id}), not {operation} ({id})"),
    )?;
    Ok((status, data))
}

fn expect(front: &mut Front, operation: u16, data: [u32; 3], status: u32) -> io::Result<u32> {
    let (got, answer) = ask(front, operation, data)?;
    ensure(
        got == status,
        format!("operation {operation} {data:x?} has status {got}, not {status}"),
    )?;
    Ok(answer)
}

fn questions(front: &mut Front) -> io::Result<()> {
    let page = front.pages[0].gref();
    let entries: Vec<u8> = (0..128u32)
        .flat_map(|entry| (entry / 127).to_le_bytes())
        .collect();

    for operation in [0, 8, 9, 10, 11, 255, u16::MAX] {
        expect(front, operation, [page, 1, 1], NOT_SUPPORTED)?;
    }
    // Before an algorithm is chosen there is nothing to choose.
    expect(front, GET_FLAGS, [0; 3], NOT_SUPPORTED)?;
    expect(front, SET_FLAGS, [1, 0, 0], INVALID)?;
    for algorithm in [2, u32::MAX] {
        expect(front, SET_ALGORITHM, [algorithm, 0, 0], INVALID)?;
    }
    expect(front, SET_ALGORITHM, [1, 0, 0], SUCCESS)?;
    let flags = expect(front, GET_FLAGS, [0; 3], SUCCESS)?;
    ensure(flags == 0xf, format!("flags {flags:#x}"))?;
    expect(front, SET_FLAGS, [0x10, 0, 0], INVALID)?;
    expect(front, SET_FLAGS, [0xf, 0, 0], SUCCESS)?;

    for length in [41, 4096, 4097, u32::MAX] {
        expect(front, SET_KEY, [page, length, 0], INVALID)?;
        expect(front, SET_MAPPING, [page, length.max(129), 0], INVALID)?;
    }
    for gref in [NO_GREF, u32::MAX, 0] {
        expect(front, SET_KEY, [gref, 40, 0], INVALID)?;
    }
    expect(front, SET_KEY, [page, 40, 0], SUCCESS)?;

    let most = expect(front, GET_MAPPING_SIZE, [0; 3], SUCCESS)?;
    ensure(most == 128, format!("a table of {most} entries"))?;
    for size in [129, u32::MAX] {
        expect(front, SET_MAPPING_SIZE, [size, 0, 0], INVALID)?;
    }
    expect(front, SET_MAPPING_SIZE, [128, 0, 0], SUCCESS)?;
    for offset in [128, 129, u32::MAX, u32::MAX - 1] {
        front.pages[0].write(&[0; 512]);
        expect(front, SET_MAPPING, [page, 2, offset], INVALID)?;
    }
    expect(front, SET_MAPPING, [NO_GREF, 128, 0], INVALID)?;
    // The last entry is a queue that there is not.
    front.pages[0].write(&entries);
    expect(front, SET_MAPPING, [page, 128, 0], INVALID)?;
    expect(front, SET_MAPPING, [page, 127, 0], SUCCESS)?;
    expect(front, SET_MAPPING_SIZE, [0, 0, 0], SUCCESS)?;
    Ok(())
}

fn producer(front: &mut Front) -> io::Result<()> {
    let (ring, channel) = front.control.as_ref().ok_or_else(|| wrong("no ring"))?;
    let produced = ring.produced().wrapping_add(1000);
    ring.index(Index::ReqProd)
        .store(produced, Ordering::Release);
    channel.notify()
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "control",
        expected: Expected::Works,
        what: "all that can be wrong with a request of the control ring",
        options: |options| options.control = true,
        act: questions,
    },
    Attack {
        name: "control-producer",
        expected: Expected::Closes,
        what: "more requests than the control ring has",
        options: |options| options.control = true,
        act: producer,
    },
];
