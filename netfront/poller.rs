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
        Relaxed, //
    },
    Arc, //
};
use xen::net::{
    self,
    Directions,
    Napi,
    Owed,
    Owing,
    Polling, //
};

/// How often it is said at most that there is something to give back some time, in nanoseconds.
const TRIM_NANOSECONDS: u64 = 5_000_000_000;

/// What is polled: a queue, as long as it is connected.
pub(crate) struct Poller {
    queue: Arc<Queue>,
    frontend: Arc<Frontend>,
    owed: Owed,
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
            owed: Owed::default(),
            broken: Atomic::new(0),
            trimmed: Atomic::new(0),
        }
    }

    /// What is polled.
    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
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
        self.owed.worked(Directions::TX.when(reaped.worked));
        if reaped.grown {
            self.trim_later();
        }
        if budget == 0 {
            return Ok(net::Polled::All(0));
        }
        let polled = self.queue.receive(napi, budget)?;
        self.owed.worked(Directions::RX.when(polled.worked));
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

impl Owing for Poller {
    fn owed(&self) -> &Owed {
        &self.owed
    }
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
            Ok(false) => self.queue.dealt_with(self.owed.settle(Directions::NONE)),
            Err(fault) => self.fail(fault),
        }
    }
}
