// SPDX-License-Identifier: GPL-2.0

//! Polling a queue, from an event on until there is nothing left to do.

use crate::{
    fault::Fault,
    frontend::Frontend,
    queue::Queue, //
};
use kernel::sync::{
    atomic::{
        Atomic,
        Full,
        Relaxed, //
    },
    Arc, //
};
use xen::{
    evtchn::Outcome,
    net::{
        self,
        Napi,
        Polling, //
    },
};

/// How often it is said at most that there is something to give back some time, in nanoseconds.
const TRIM_NANOSECONDS: u64 = 5_000_000_000;

/// Directions of a queue, as seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directions(u32);

impl Directions {
    /// Out.
    pub(crate) const TX: Self = Self(1);
    /// In.
    pub(crate) const RX: Self = Self(2);
    /// Both.
    pub(crate) const BOTH: Self = Self(3);

    fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What is polled: a queue, as long as it is connected.
pub(crate) struct Poller {
    queue: Arc<Queue>,
    frontend: Arc<Frontend>,
    /// Directions in which an event has come and was not dealt with.
    owed: Atomic<u32>,
    /// Directions in which there has been something to do since the last event was dealt with. That may
    /// have been before the event came: then it was not sent for nothing.
    useful: Atomic<u32>,
    /// The backend cannot be trusted: no event is dealt with any more.
    broken: Atomic<u32>,
    /// When something was last said to be given back some time, in nanoseconds.
    trimmed: Atomic<u64>,
}

impl Poller {
    /// For a queue.
    pub(crate) fn new(queue: Arc<Queue>, frontend: Arc<Frontend>) -> Self {
        Self {
            queue,
            frontend,
            owed: Atomic::new(0),
            useful: Atomic::new(0),
            broken: Atomic::new(0),
            trimmed: Atomic::new(0),
        }
    }

    /// What is polled.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// An event has come. It is dealt with when there is nothing left to do.
    pub(crate) fn owe(&self, directions: Directions) {
        change(&self.owed, |owed| owed | directions.0);
    }

    /// Says that there will be something to give back, but not with each packet.
    fn trim_later(&self) {
        let now = xen::thread::now();
        let last = self.trimmed.load(Relaxed);
        if now.wrapping_sub(last) > TRIM_NANOSECONDS {
            self.trimmed.store(now, Relaxed);
            self.frontend.trim_later();
        }
    }

    fn fail(&self, fault: Fault) {
        self.broken.store(1, Relaxed);
        self.frontend.fail(fault);
    }

    fn work(&self, napi: &Polling<'_, Self>, budget: u32) -> Result<net::Polled, Fault> {
        let reaped = self.queue.reap(budget)?;
        if reaped.worked {
            change(&self.useful, |useful| useful | Directions::TX.0);
        }
        if reaped.grown {
            self.trim_later();
        }
        if budget == 0 {
            return Ok(net::Polled::All(0));
        }
        let polled = self.queue.receive(napi, budget)?;
        if polled.worked {
            change(&self.useful, |useful| useful | Directions::RX.0);
        }
        if polled.hungry {
            self.frontend.refill_later();
        }
        Ok(if polled.packets >= budget {
            net::Polled::More
        } else {
            net::Polled::All(polled.packets)
        })
    }
}

/// Changes bits, and says what they were.
fn change(bits: &Atomic<u32>, to: impl Fn(u32) -> u32) -> u32 {
    let mut old = bits.load(Relaxed);
    while let Err(seen) = bits.cmpxchg(old, to(old), Full) {
        old = seen;
    }
    old
}

impl net::Poll for Poller {
    fn poll(&self, napi: &Polling<'_, Self>, budget: u32) -> net::Polled {
        if self.broken.load(Relaxed) != 0 {
            return net::Polled::All(0);
        }
        self.work(napi, budget).unwrap_or_else(|fault| {
            self.fail(fault);
            net::Polled::All(0)
        })
    }

    fn idle(&self, napi: &Napi<Self>) {
        if self.broken.load(Relaxed) != 0 {
            return;
        }
        match self.queue.wait() {
            Ok(true) => napi.schedule(),
            Ok(false) => {
                let owed = Directions(self.owed.xchg(0, Full));
                if owed.0 == 0 {
                    return;
                }
                // Another processor may be polling again by now.
                let useful = Directions(change(&self.useful, |useful| useful & !owed.0));
                let outcome = |direction| {
                    owed.contains(direction)
                        .then_some(if useful.contains(direction) {
                            Outcome::Handled
                        } else {
                            Outcome::Spurious
                        })
                };
                let (tx, rx) = (outcome(Directions::TX), outcome(Directions::RX));
                self.queue.dealt_with(tx, rx);
            }
            Err(fault) => self.fail(fault),
        }
    }
}
