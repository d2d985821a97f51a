// SPDX-License-Identifier: GPL-2.0

//! Ways that a guest can go through its states.

use std::io;

use super::attack::{Attack, Expected};
use super::Front;
use crate::rng::Rng;
use crate::xenbus::State;
use crate::xenstore::Tx;

/// Begins anew without having ended.
fn again(front: &mut Front) -> io::Result<()> {
    for _ in 0..3 {
        front.set_state(State::Initialising)?;
        front.wait_for(&[State::InitWait])?;
        front.set_state(State::Connected)?;
        front.connected()?;
        front.works()?;
    }
    Ok(())
}

fn close_and_again(front: &mut Front) -> io::Result<()> {
    for _ in 0..3 {
        front.set_state(State::Closing)?;
        front.wait_for(&[State::Closing])?;
        front.set_state(State::Closed)?;
        front.wait_for(&[State::Closed])?;
        front.set_state(State::Initialising)?;
        front.wait_for(&[State::InitWait])?;
        front.set_state(State::Connected)?;
        front.connected()?;
        front.works()?;
    }
    Ok(())
}

/// All states, in no order, with packets on the way.
fn storm(front: &mut Front) -> io::Result<()> {
    const STATES: [State; 8] = [
        State::Unknown,
        State::Initialising,
        State::InitWait,
        State::Initialised,
        State::Connected,
        State::Closing,
        State::Closed,
        State::Reconfiguring,
    ];
    let mut rng = Rng::new(7);
    for _ in 0..300 {
        // CAST: Small.
        front.set_state(STATES[rng.below(8) as usize])?;
    }
    front.set_state(State::Closed)?;
    front.wait_for(&[State::Closed])?;
    front.set_state(State::Initialising)?;
    front.wait_for(&[State::InitWait])?;
    front.set_state(State::Connected)?;
    front.connected()
}

/// Junk in keys that may be written at any time.
fn junk(front: &mut Front) -> io::Result<()> {
    for (key, state) in [
        ("request-multicast-control", None),
        ("xdp-headroom", Some(State::Reconfiguring)),
    ] {
        let path = format!("{}/{key}", front.front);
        for value in ["abc", "-1", "99999999999"].into_iter().cycle().take(100) {
            front.xs.write(Tx::NONE, &path, value)?;
            if let Some(state) = state {
                front.set_state(state)?;
            }
        }
        front.xs.write(Tx::NONE, &path, "0")?;
    }
    front.wait_for(&[State::Reconfigured])?;
    front.set_state(State::Connected)?;
    front.connected()
}

/// The guest has gone, and its memory with it, while packets were on their way.
fn vanish(front: &mut Front) -> io::Result<()> {
    let packet = front.packet(9000);
    let requests = front.lay_out(&packet, &[1000, 4000, 4000]);
    front.transmit(&requests, &[])?;
    let path = front.front.clone();
    front.xs.rm(Tx::NONE, &path)?;
    front.queues.clear();
    front.pages.clear();
    Ok(())
}

const fn works(
    name: &'static str,
    what: &'static str,
    act: fn(&mut Front) -> io::Result<()>,
) -> Attack {
    Attack {
        name,
        expected: Expected::Works,
        what,
        options: |_| {},
        act,
    }
}

pub(super) const ATTACKS: &[Attack] = &[
    works("again", "a frontend that begins anew at once", again),
    works("close", "one that closes before that", close_and_again),
    works("storm", "all states in no order", storm),
    works("junk", "junk in keys that may change", junk),
    Attack {
        expected: Expected::Gone,
        ..works("vanish", "a frontend that has gone", vanish)
    },
];
