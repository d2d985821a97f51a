// SPDX-License-Identifier: GPL-2.0

//! Polling a queue, from an event or a packet on until there is nothing left to do.

use crate::{
    backend::Backend,
    failure::Fault,
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

/// Directions of a queue, as seen from the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directions(u32);

impl Directions {
    /// None.
    pub(crate) const NONE: Self = Self(0);
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
    backend: Arc<Backend>,
    /// Directions in which an event has come and was not dealt with.
    owed: Atomic<u32>,
    /// Directions in which there has been something to do since the last event was dealt with. That may
    /// have been before the event came: then it was not sent for nothing.
    useful: Atomic<u32>,
    /// Directions in which nothing is done for now, so that no event is to come.
    held: Atomic<u32>,
    /// The frontend cannot be trusted: no event is dealt with any more.
    broken: Atomic<u32>,
}

impl Poller {
    /// For a queue.
    pub(crate) fn new(queue: Arc<Queue>, backend: Arc<Backend>) -> Self {
        Self {
            queue,
            backend,
            owed: Atomic::new(0),
            useful: Atomic::new(0),
            held: Atomic::new(0),
            broken: Atomic::new(0),
        }
    }

    /// An event has come. It is dealt with when there is nothing left to do.
    pub(crate) fn owe(&self, directions: Directions) {
        change(&self.owed, |owed| owed | directions.0);
    }

    fn note(&self, directions: Directions) {
        change(&self.useful, |useful| useful | directions.0);
    }

    fn fail(&self, fault: Fault) {
        self.broken.store(1, Relaxed);
        self.backend.fail(fault);
    }

    fn work(&self, napi: &Polling<'_, Self>, budget: u32) -> Result<net::Polled, Fault> {
        let delivered = self.queue.deliver(budget)?;
        if delivered.worked {
            self.note(Directions::RX);
        }
        if delivered.changed {
            self.backend.stall_changed();
        }
        if let Some(wait) = delivered.wait {
            self.backend.ask_again(wait);
        }

        let collected = self.queue.collect(napi, budget)?;
        if collected.count > 0 {
            self.note(Directions::TX);
        }
        let mut held = Directions::NONE;
        if let Some(wait) = collected.wait {
            self.backend.ask_again(wait);
            held = Directions::TX;
        }
        if collected.down {
            held = Directions::TX;
        }
        self.held.store(held.0, Relaxed);
        Ok(if delivered.more || collected.more {
            net::Polled::More
        } else {
            net::Polled::All(collected.count)
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
        // Without a budget somebody wants to print to the network at any price: locks may be held.
        if budget == 0 || self.broken.load(Relaxed) != 0 {
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
        let held = Directions(self.held.load(Relaxed));
        let rest = match self.queue.wait(held.contains(Directions::TX)) {
            Ok(rest) => rest,
            Err(fault) => return self.fail(fault),
        };
        if rest.more {
            return napi.schedule();
        }
        if rest.packets {
            self.backend.look_later();
        }
        let owed = Directions(self.owed.xchg(0, Full));
        // One channel for both rings must not be silent for the sake of one of them.
        let kept = if rest.shared {
            Directions::NONE
        } else {
            Directions(owed.0 & held.0)
        };
        if kept != Directions::NONE {
            self.owe(kept);
        }
        let owed = Directions(owed.0 & !kept.0);
        if owed == Directions::NONE {
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
        self.queue
            .dealt_with(outcome(Directions::TX), outcome(Directions::RX));
    }
}
