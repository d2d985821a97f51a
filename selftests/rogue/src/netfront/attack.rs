// SPDX-License-Identifier: GPL-2.0

//! The attacks by their names, and what a right backend makes of them.

use std::fmt;
use std::io;

use super::{control, keys, receive, states, transmit, Front, Options};

/// What a right backend makes of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The device goes on working.
    Works,
    /// It closes, and says why.
    Closes,
    /// It never connects, and says why.
    Refuses,
    /// It has gone.
    Gone,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Works => "works",
            Self::Closes => "closes",
            Self::Refuses => "refuses",
            Self::Gone => "gone",
        })
    }
}

/// An attack.
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What becomes of the device.
    pub expected: Expected,
    /// What it is.
    pub what: &'static str,
    pub(super) options: fn(&mut Options),
    pub(super) act: fn(&mut Front) -> io::Result<()>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static Attack> {
    [
        transmit::ATTACKS,
        receive::ATTACKS,
        control::ATTACKS,
        keys::ATTACKS,
        states::ATTACKS,
    ]
    .into_iter()
    .flatten()
}

/// Makes a device, carries out an attack, looks at what has become of the device, and removes it.
pub fn run(attack: &Attack, number: u32) -> io::Result<()> {
    let mut options = Options::new(number);
    (attack.options)(&mut options);
    let mut front = Front::new(&options)?;
    let result = try_run(&mut front, attack);
    let ended = match attack.expected {
        Expected::Gone => front.gone(),
        _ => front.close(),
    };
    front.remove()?;
    result.and(ended)
}

fn try_run(front: &mut Front, attack: &Attack) -> io::Result<()> {
    if attack.expected == Expected::Refuses {
        (attack.act)(front)?;
        return front.given_up();
    }
    front.connected()?;
    (attack.act)(front)?;
    match attack.expected {
        Expected::Works => front.works(),
        Expected::Closes => front.given_up(),
        Expected::Refuses | Expected::Gone => Ok(()),
    }
}
