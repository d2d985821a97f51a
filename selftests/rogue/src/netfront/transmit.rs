// SPDX-License-Identifier: GPL-2.0

//! What a guest can transmit.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::attack::{Attack, Expected};
use super::ring::Index;
use super::{ensure, Front, NO_GREF};
use crate::netif::{self, TxRequest};
use crate::rng::Rng;

/// Sizes of `count` pieces.
fn sizes(count: usize, size: usize) -> Vec<usize> {
    vec![size; count]
}

/// Transmits a packet that is answered with an error, and does not arrive: the next one does.
fn lose(front: &mut Front, requests: &[TxRequest], extras: &[[u32; 3]]) -> io::Result<()> {
    front.transmit(requests, extras)?;
    front.answered(requests, extras.len(), netif::ERROR)?;
    front.deliver(&[100], &[])
}

/// Transmits what cannot be.
fn break_protocol(
    front: &mut Front,
    sizes: &[usize],
    extras: &[[u32; 3]],
    change: impl FnOnce(&mut [TxRequest]),
) -> io::Result<()> {
    let packet = front.packet(sizes.iter().sum());
    let mut requests = front.lay_out(&packet, sizes);
    change(&mut requests);
    front.transmit(&requests, extras)
}

fn slots(front: &mut Front) -> io::Result<()> {
    for count in 1..=19 {
        front.deliver(&sizes(count, 64), &[])?;
        front.deliver(&sizes(count, 3400), &[])?;
    }
    Ok(())
}

fn too_many_slots(front: &mut Front) -> io::Result<()> {
    for count in [20, 21] {
        let sizes = sizes(count, 100);
        let packet = front.packet(sizes.iter().sum());
        let requests = front.lay_out(&packet, &sizes);
        lose(front, &requests, &[])?;
    }
    Ok(())
}

/// Tiny packets in many pieces, some of them empty (XSA-423, XSA-432, XSA-448).
fn tiny(front: &mut Front) -> io::Result<()> {
    let mut rng = Rng::new(14);
    for _ in 0..200 {
        let mut left = 14 + rng.below(187) as usize;
        let count = 1 + rng.below(19) as usize;
        let mut sizes = Vec::new();
        for _ in 1..count {
            let size = rng.below(left as u64 + 1) as usize;
            sizes.push(size);
            left -= size;
        }
        sizes.push(left);
        rng.shuffle(&mut sizes);
        front.deliver(&sizes, &[])?;
    }
    Ok(())
}

fn short(front: &mut Front) -> io::Result<()> {
    for length in [0, 1, 13] {
        let packet = front.packet(length);
        let requests = front.lay_out(&packet, &[length]);
        lose(front, &requests, &[])?;
    }
    Ok(())
}

fn larger_than_packet(front: &mut Front) -> io::Result<()> {
    let packet = front.packet(300);
    let mut requests = front.lay_out(&packet, &[100, 100, 100]);
    requests[0].size = 150;
    lose(front, &requests, &[])
}

fn bad_reference(front: &mut Front) -> io::Result<()> {
    for place in 0..3 {
        for gref in [NO_GREF, u32::MAX, 0] {
            let packet = front.packet(9000);
            let mut requests = front.lay_out(&packet, &[1000, 4000, 4000]);
            requests[place].gref = gref;
            lose(front, &requests, &[])?;
        }
    }
    Ok(())
}

fn hashes(front: &mut Front) -> io::Result<()> {
    let hash = |more| netif::extra(4, more, [0, 1, 1, 2, 3, 4]);
    front.deliver(&[100], &[hash(false)])?;
    front.deliver(&[100, 200], &[hash(true), hash(true), hash(false)])?;
    // Kinds and algorithms that nobody knows.
    front.deliver(&[100], &[netif::extra(4, false, [0xff; 6])])
}

/// What is to be cut up, and is no TCP: nothing of that may reach the network stack.
fn not_tcp(front: &mut Front) -> io::Result<()> {
    for kind in [1, 2] {
        let packet = front.packet(9000);
        let requests = front.lay_out(&packet, &[1000, 4000, 4000]);
        let extras = [netif::gso(1, kind)];
        front.transmit(&requests, &extras)?;
        front.answered(&requests, 1, netif::OKAY)?;
        front.deliver(&[100], &[])?;
    }
    Ok(())
}

/// A checksum to be made of a packet that has none.
fn blank(front: &mut Front) -> io::Result<()> {
    for length in [14, 60, 1514] {
        let packet = front.packet(length);
        let mut requests = front.lay_out(&packet, &[length]);
        requests[0].flags |= netif::TX_BLANK;
        front.transmit(&requests, &[])?;
        front.answered(&requests, 0, netif::OKAY)?;
        front.deliver(&[100], &[])?;
    }
    Ok(())
}

fn multicast(front: &mut Front) -> io::Result<()> {
    let request = TxRequest::default();
    for number in 0..70 {
        let extras = [netif::extra(2, false, [1, 0, 0x5e, 0, 0, number])];
        front.transmit(&[request], &extras)?;
        let status = if number < 64 {
            netif::OKAY
        } else {
            netif::ERROR
        };
        front.answered(&[request], 1, status)?;
    }
    Ok(())
}

fn events(front: &mut Front) -> io::Result<()> {
    for _ in 0..20_000 {
        front.queues[0].tx_channel.notify()?;
        front.queues[0].rx_channel.notify()?;
    }
    Ok(())
}

/// Requests that change while they are read: each is answered, as one of the two that it was.
fn change(front: &mut Front) -> io::Result<()> {
    const FOR: Duration = Duration::from_secs(3);

    let packet = front.packet(60);
    // However their words are mixed, they are requests.
    let one = TxRequest {
        offset: 0,
        ..front.lay_out(&packet, &[60])[0]
    };
    let other = TxRequest {
        gref: front.pages[1].gref(),
        offset: 100,
        flags: 0,
        id: 2000,
        size: 1500,
    };
    let queue = &mut front.queues[0];
    for _ in 0..netif::SLOTS {
        queue.tx.put(&one.words());
    }
    // From here on it is the numbers that count.
    let start = queue.tx.produced().wrapping_sub(netif::SLOTS);
    let (ring, channel, done) = (queue.tx.view(), &queue.tx_channel, AtomicBool::new(false));
    let mut produced = start;
    std::thread::scope(|scope| -> io::Result<()> {
        scope.spawn(|| {
            let mut rng = Rng::new(15);
            while !done.load(Ordering::Relaxed) {
                // CAST: Small.
                let slot = ring.slot(rng.below(netif::SLOTS.into()) as u32);
                let word = rng.below(3) as usize;
                let from = if rng.below(2) == 0 { one } else { other };
                slot[word].store(from.words()[word], Ordering::Relaxed);
            }
        });
        let end = Instant::now() + FOR;
        let mut result = Ok(());
        while Instant::now() < end && result.is_ok() {
            let answered = ring.index(Index::RspProd).load(Ordering::Acquire);
            // The answers lie where requests were: those are put there anew.
            for number in produced..answered.wrapping_add(netif::SLOTS) {
                for (place, word) in ring.slot(number).iter().zip(one.words()) {
                    place.store(word, Ordering::Relaxed);
                }
            }
            produced = answered.wrapping_add(netif::SLOTS);
            ring.index(Index::ReqProd)
                .store(produced, Ordering::Release);
            result = channel.notify();
        }
        done.store(true, Ordering::Relaxed);
        result
    })?;
    front.wait("the last answer", |this| {
        let answered = this.queues[0].tx.index(Index::RspProd);
        Ok((answered.load(Ordering::Acquire) == produced).then_some(()))
    })?;
    ensure(
        produced.wrapping_sub(start) > netif::SLOTS,
        "nothing was transmitted",
    )?;
    // What has come of that is of any kind; the ring is at another place.
    front.queues[0].tx.skip_to(produced);
    while let Some(tap) = &front.tap {
        if tap.receive(Duration::from_millis(200))?.is_none() {
            break;
        }
    }
    Ok(())
}

fn producer(front: &mut Front, produced: impl FnOnce(u32) -> u32) -> io::Result<()> {
    let queue = &front.queues[0];
    let produced = produced(queue.tx.produced());
    let index = queue.tx.index(Index::ReqProd);
    index.store(produced, Ordering::Release);
    queue.tx_channel.notify()
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

const fn closes(
    name: &'static str,
    what: &'static str,
    act: fn(&mut Front) -> io::Result<()>,
) -> Attack {
    Attack {
        expected: Expected::Closes,
        ..works(name, what, act)
    }
}

pub(super) const ATTACKS: &[Attack] = &[
    works("slots", "packets of 1 to 19 slots arrive", slots),
    works("slots-20", "packets of 20 and 21 slots", too_many_slots),
    closes("slots-22", "a packet of 22 slots", |front| {
        break_protocol(front, &sizes(22, 100), &[], |_| {})
    }),
    works("tiny", "short packets in many pieces, some empty", tiny),
    works("short", "packets without a header", short),
    works(
        "larger",
        "pieces that are larger than the packet",
        larger_than_packet,
    ),
    works("reference", "references that nobody has", bad_reference),
    works("hash", "several hashes, and unknown ones", hashes),
    works("not-tcp", "segmentation of what is no TCP", not_tcp),
    works("blank", "a blank checksum where there is none", blank),
    works("multicast", "more addresses than there may be", multicast),
    works("events", "events for nothing", events),
    works("change", "requests that change while they are read", change),
    closes("cross", "a piece that leaves its frame", |front| {
        break_protocol(front, &[200], &[], |requests| requests[0].offset = 3900)
    }),
    closes("cross-2", "the same behind a good piece", |front| {
        break_protocol(front, &[200, 200], &[], |requests| {
            requests[1].offset = 3900;
        })
    }),
    closes("size", "a packet of 65535 bytes in one piece", |front| {
        break_protocol(front, &[200], &[], |requests| requests[0].size = 0xffff)
    }),
    closes("missing", "pieces that do not follow", |front| {
        break_protocol(front, &[200], &[], |requests| {
            requests[0].flags = netif::MORE_DATA;
        })
    }),
    closes("no-extra", "an extra info that does not follow", |front| {
        break_protocol(front, &[200], &[], |requests| {
            requests[0].flags = netif::EXTRA_INFO;
        })
    }),
    closes("extras", "extra infos up to the ring's end", |front| {
        let extras = [netif::extra(4, true, [0; 6]); 255];
        break_protocol(front, &[200], &extras, |_| {})
    }),
    closes("extra-0", "an extra info of no kind", |front| {
        break_protocol(front, &[200], &[[0; 3]], |_| {})
    }),
    closes("extra-6", "an extra info of an unknown kind", |front| {
        let extras = [netif::extra(6, false, [0; 6])];
        break_protocol(front, &[200], &extras, |_| {})
    }),
    closes("gso-0", "segments without data", |front| {
        break_protocol(front, &[200], &[netif::gso(0, 1)], |_| {})
    }),
    closes("gso-kind", "segments of an unknown kind", |front| {
        break_protocol(front, &[200], &[netif::gso(100, 3)], |_| {})
    }),
    closes("producer", "more requests than a ring has", |front| {
        producer(front, |produced| produced.wrapping_add(257))
    }),
    closes("backwards", "fewer requests than before", |front| {
        front.deliver(&[100], &[])?;
        producer(front, |produced| produced.wrapping_sub(1))
    }),
];
