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

/// What is polled: a queue, as long as it is connected.
pub(crate) struct Poller {
    queue: Arc<Queue>,
    backend: Arc<Backend>,
    owed: Owed,
    /// Nothing that the guest transmits is taken for now, so that no event of that is to come.
    held: Atomic<bool>,
    /// The frontend cannot be trusted: no event is dealt with any more.
    broken: Atomic<bool>,
}

impl Poller {
    /// For a queue.
    pub(crate) fn new(queue: Arc<Queue>, backend: Arc<Backend>) -> Self {
        Self {
            queue,
            backend,
            owed: Owed::default(),
            held: Atomic::new(false),
            broken: Atomic::new(false),
        }
    }

    fn fail(&self, fault: Fault) {
        self.broken.store(true, Relaxed);
        self.backend.fail(fault);
    }

    fn work(&self, napi: &Polling<'_, Self>, budget: u32) -> Result<net::Polled, Fault> {
        let delivered = self.queue.deliver(budget)?;
        self.owed.worked(Directions::RX.when(delivered.worked));
        if delivered.changed {
            self.backend.stall_changed();
        }
        if let Some(wait) = delivered.wait {
            self.backend.ask_again(wait);
        }

        let collected = self.queue.collect(napi, budget)?;
        self.owed.worked(Directions::TX.when(collected.count > 0));
        if let Some(wait) = collected.wait {
            self.backend.ask_again(wait);
        }
        let held = collected.down || collected.wait.is_some();
        self.held.store(held, Relaxed);
        Ok(if delivered.more || collected.more {
            net::Polled::More
        } else {
            net::Polled::All(collected.count)
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
        // Without a budget somebody wants to print to the network at any price: locks may be held.
        if budget == 0 || self.broken.load(Relaxed) {
            return net::Polled::All(0);
        }
        self.work(napi, budget).unwrap_or_else(|fault| {
            self.fail(fault);
            net::Polled::All(0)
        })
    }

    fn idle(&self, napi: &Napi<Self>) {
        if self.broken.load(Relaxed) {
            return;
        }
        let held = self.held.load(Relaxed);
        let rest = match self.queue.wait(held) {
            Ok(rest) => rest,
            Err(fault) => return self.fail(fault),
        };
        if rest.more {
            return napi.schedule();
        }
        if rest.packets {
            self.backend.look_later();
        }
        // One channel for both rings must not be silent for the sake of one of them.
        let held = Directions::TX.when(held && !rest.shared);
        self.queue.dealt_with(self.owed.settle(held));
    }
}
