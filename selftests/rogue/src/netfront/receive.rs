// SPDX-License-Identifier: GPL-2.0

//! What a guest can offer for receiving.

use std::io;
use std::process::Command;
use std::sync::atomic::Ordering;

use super::attack::{Attack, Expected};
use super::ring::Index;
use super::{ensure, Front, Options, NO_GREF};
use crate::netif;

/// Receives packets of all sizes up to one.
fn sizes(front: &mut Front, most: usize) -> io::Result<()> {
    for length in [14, 60, 512, 1514, 4096, 4097, most] {
        if length <= most {
            front.receive(length)?;
        }
    }
    Ok(())
}

fn ordinary(front: &mut Front) -> io::Result<()> {
    for _ in 0..10 {
        sizes(front, 1514)?;
    }
    Ok(())
}

fn large(front: &mut Front) -> io::Result<()> {
    let interface = front.interface();
    let status = Command::new("ip")
        .args(["link", "set", &interface, "mtu", "9000"])
        .status()?;
    ensure(status.success(), "no MTU of 9000")?;
    sizes(front, 9014)
}

/// A frame that cannot be written to is answered as that, and is no more than its packet's loss.
fn reference(front: &mut Front) -> io::Result<()> {
    let packet = front.packet(500);
    for gref in [NO_GREF, u32::MAX, 0] {
        // The only frame that there is.
        let Some(tap) = &front.tap else {
            return Ok(());
        };
        tap.send(&packet)?;
        let response = front.response()?;
        ensure(response.status == 500, "a frame is not filled")?;
        let Some(tap) = &front.tap else {
            return Ok(());
        };
        tap.send(&packet)?;
        let queue = &mut front.queues[0];
        queue.rx.put(&netif::rx_request(0, gref));
        queue.rx.publish();
        queue.rx_channel.notify()?;
        let response = front.response()?;
        ensure(response.status < 0, "a frame is filled that nobody has")?;
        front.offer_again(0)?;
    }
    Ok(())
}

fn producer(front: &mut Front) -> io::Result<()> {
    let queue = &front.queues[0];
    let produced = queue.rx.produced().wrapping_add(300);
    let index = queue.rx.index(Index::ReqProd);
    index.store(produced, Ordering::Release);
    queue.rx_channel.notify()
}

fn few(options: &mut Options, buffers: u16) {
    options.buffers = buffers;
    options.scatter = false;
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "few-1",
        expected: Expected::Works,
        what: "a single frame to receive with",
        options: |options| few(options, 1),
        act: ordinary,
    },
    Attack {
        name: "few-2",
        expected: Expected::Works,
        what: "two of them",
        options: |options| few(options, 2),
        act: ordinary,
    },
    Attack {
        name: "few-4",
        expected: Expected::Works,
        what: "four of them",
        options: |options| few(options, 4),
        act: ordinary,
    },
    Attack {
        name: "large",
        expected: Expected::Works,
        what: "as few frames as a large packet takes",
        options: |options| options.buffers = 3,
        act: large,
    },
    Attack {
        name: "silent",
        expected: Expected::Works,
        what: "a frontend that sends no events when it offers frames",
        options: |options| options.omit("feature-rx-notify"),
        act: ordinary,
    },
    Attack {
        name: "rx-reference",
        expected: Expected::Works,
        what: "frames that nobody has, to receive with",
        options: |options| few(options, 1),
        act: reference,
    },
    Attack {
        name: "rx-producer",
        expected: Expected::Closes,
        what: "more frames than a ring has",
        options: |_| {},
        act: producer,
    },
];
