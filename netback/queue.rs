// SPDX-License-Identifier: GPL-2.0

//! A queue of an interface: both directions, while there is a connection and while there is none.

use crate::{
    backlog::Backlog,
    failure::Fault,
    guest_rx::GuestRx,
    guest_tx::GuestTx,
    outbox::{
        Next,
        Outbox, //
    },
    poller::Poller,
    rules::Rules,
    stall::Change,
    stats::{
        self,
        RxStats,
        TxStats, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use xen::{
    net::{
        Features,
        Line,
        Napi,
        Netdev,
        NoSoftirqs,
        Places,
        Polling,
        QueueTotals,
        Settled,
        Transmit,
        TxPacket, //
    },
    ring::{
        Notify,
        Snapshot, //
    },
    thread, //
};

/// Packets that are copied to the guest before somebody else has a turn.
const TURN: u32 = 64;

/// A ring with its channels.
struct Link<R> {
    ring: R,
    line: Line<Poller>,
}

/// A queue, which exists as long as its interface. What it has shared with a frontend comes and goes.
///
/// Its locks are taken in softirqs; elsewhere within [`NoSoftirqs`]. That of the outbox is taken last, in any
/// context.
#[pin_data]
pub(crate) struct Queue {
    index: u32,
    netdev: Arc<Netdev>,
    rules: Arc<Rules>,
    /// Where its channels have been.
    pub(crate) places: Places,
    #[pin]
    from_guest: SpinLock<Option<Link<GuestTx>>>,
    #[pin]
    to_guest: SpinLock<Option<Link<GuestRx>>>,
    #[pin]
    outbox: Outbox,
    rx_stats: RxStats,
    tx_stats: TxStats,
}

/// The two directions of a queue that is connected.
pub(crate) struct Rings {
    pub(crate) tx: GuestTx,
    pub(crate) rx: GuestRx,
}

/// What sending to the guest has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// The guest has offered frames since it was last looked.
    pub(crate) worked: bool,
    /// There is more to do at once.
    pub(crate) more: bool,
    /// The guest has stalled, or is ready again.
    pub(crate) changed: bool,
    /// Nothing may be sent before so many nanoseconds have passed.
    pub(crate) wait: Option<u64>,
}

/// What receiving from the guest has come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Collected {
    /// Packets, and what else was asked for.
    pub(crate) count: u32,
    /// There may be more.
    pub(crate) more: bool,
    /// The interface is down: nothing is received.
    pub(crate) down: bool,
    /// Nothing may be received before so many nanoseconds have passed.
    pub(crate) wait: Option<u64>,
}

/// How polling ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// Not at all: there is something to do.
    pub(crate) more: bool,
    /// Packets are waiting.
    pub(crate) packets: bool,
    /// One channel is for both rings.
    pub(crate) shared: bool,
}

/// What is shown of a queue that is connected.
pub(crate) struct Portrait {
    /// Indices of the ring on which the guest transmits, and how many requests are being served.
    pub(crate) tx: (Snapshot, u32),
    /// Indices of the ring on which it receives.
    pub(crate) rx: Snapshot,
    /// Whether it takes too few packets.
    pub(crate) stalled: bool,
    /// Packets that are waiting for it, and their bytes.
    pub(crate) waiting: (u64, u64),
    /// Whether no more are to come.
    pub(crate) stopped: bool,
}

impl Queue {
    /// Number `index` of an interface.
    pub(crate) fn new(netdev: Arc<Netdev>, index: u32, rules: Arc<Rules>) -> Result<Arc<Self>> {
        let outbox = Outbox::new(netdev.clone(), index, rules.clone());
        Arc::pin_init(
            pin_init!(Self {
                index,
                netdev,
                rules,
                places: Places::default(),
                from_guest <- new_spinlock!(None, "netback::Queue::from_guest"),
                to_guest <- new_spinlock!(None, "netback::Queue::to_guest"),
                outbox <- outbox,
                rx_stats: RxStats::default(),
                tx_stats: TxStats::default(),
            }),
            GFP_KERNEL,
        )
    }

    /// See [`Operations::transmit`](xen::net::Operations::transmit). `queues` are in use, by a guest that takes
    /// this.
    pub(crate) fn transmit(&self, packet: TxPacket, queues: u32, taken: Features) -> Transmit {
        self.outbox.put(packet, queues, taken)
    }

    /// Gives the queue its rings. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn connect(
        &self,
        rings: Rings,
        line: Line<Poller>,
        napi: Arc<Napi<Poller>>,
    ) -> Result {
        let list = Backlog::new()?;
        let tx = Link {
            ring: rings.tx,
            line: line.clone(),
        };
        let rx = Link {
            ring: rings.rx,
            line,
        };
        let _scope = NoSoftirqs::new();
        *self.from_guest.lock() = Some(tx);
        *self.to_guest.lock() = Some(rx);
        self.outbox.open(list, napi);
        Ok(())
    }

    /// Takes the rings away, and drops them and what waits. Nobody may be polling. Process context, without the
    /// lock of rtnl: it may take its time.
    pub(crate) fn disconnect(&self) {
        let scope = NoSoftirqs::new();
        let tx = self.from_guest.lock().take();
        let rx = self.to_guest.lock().take();
        let waiting = self.outbox.close();
        drop(scope);
        if let Some(link) = &tx {
            link.line.remember_cpu(&self.places);
        }
        // The channels are dropped before the rings: then no handler looks at them.
        let (tx, tx_line) = tx.map(|link| (link.ring, link.line)).unzip();
        let (rx, rx_line) = rx.map(|link| (link.ring, link.line)).unzip();
        drop((tx_line, rx_line));
        drop((tx, rx, waiting));
    }

    /// Sends to the guest what waits for it. Softirq.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn deliver(&self, budget: u32) -> Result<Delivered, Fault> {
        let stats = &self.tx_stats;
        let mut link = self.to_guest.lock();
        let Some(Link { ring, line }) = &mut *link else {
            return Ok(Delivered::default());
        };
        let now = thread::now();
        let (mut available, news) = ring.look()?;
        let mut delivered = Delivered {
            worked: news,
            more: true,
            ..Delivered::default()
        };
        let was_lacking = ring.lacking.take().is_some();
        let mut notify = false;
        for _ in 0..TURN {
            match self.outbox.next(now, available) {
                Next::Packet(waiting, delivery) => {
                    let slots = delivery.slots();
                    if !ring.has_room(slots) {
                        notify |= ring.flush(budget, stats) == Notify::Needed;
                    }
                    stats.packets.add(1);
                    stats.bytes.add(waiting.what.length.into());
                    delivered.worked = true;
                    ring.stall.fed();
                    ring.put(waiting, &delivery)?;
                    available = available.saturating_sub(slots);
                }
                // The lock of what waits is not held.
                Next::Dropped(_) => {}
                Next::Lacking(slots) => {
                    if !was_lacking {
                        stats.starved.add(1);
                    }
                    ring.lacking = Some(slots);
                    let change = ring.stall.starved(now, self.rules.stall_time());
                    if change == Some(Change::Stalled) {
                        stats.stalled.add(1);
                        delivered.changed = true;
                    }
                    delivered.more = false;
                    break;
                }
                Next::Throttled(time) => {
                    stats.throttled.add(1);
                    delivered.wait = Some(time);
                    delivered.more = false;
                    break;
                }
                Next::Empty => {
                    delivered.more = false;
                    break;
                }
            }
        }
        notify |= ring.flush(budget, stats) == Notify::Needed;
        if notify {
            stats.events_sent.add(1);
            line.for_receiving().notify();
        }
        delivered.changed |= ring
            .stall
            .offered(available, self.rules.most_slots())
            .is_some();
        Ok(delivered)
    }

    /// Receives packets from the guest, `budget` of them at most. Softirq.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn collect(
        &self,
        napi: &Polling<'_, Poller>,
        budget: u32,
    ) -> Result<Collected, Fault> {
        if !self.netdev.is_running() {
            return Ok(Collected {
                down: true,
                ..Collected::default()
            });
        }
        let stats = &self.rx_stats;
        let mut link = self.from_guest.lock();
        let Some(Link { ring, line }) = &mut *link else {
            return Ok(Collected::default());
        };
        let taken = ring.take(napi, &self.rules, self.index, budget, stats)?;
        if ring.push() == Notify::Needed {
            stats.events_sent.add(1);
            line.for_transmitting().notify();
        }
        let mut list = ring.take_list();
        drop(link);
        stats.add_handed_over(list.hand_over(napi));
        // The rings cannot have gone: that waits for the end of polling.
        if let Some(link) = &mut *self.from_guest.lock() {
            link.ring.give_list(list);
        }
        Ok(Collected {
            count: taken.count,
            more: taken.more,
            down: false,
            wait: taken.wait,
        })
    }

    /// Asks for an event of each direction, of that in which the guest transmits not if it is `held`, and
    /// says whether there is something to do already. Softirq.
    ///
    /// # Errors
    ///
    /// The frontend has broken the protocol.
    pub(crate) fn wait(&self, held: bool) -> Result<Rest, Fault> {
        let mut rest = Rest::default();
        if !held {
            if let Some(link) = &mut *self.from_guest.lock() {
                let settings = self.rules.moderation.settings();
                rest.more |= link.ring.wait(&settings, &self.rx_stats)?;
            }
        }
        let mut link = self.to_guest.lock();
        let Some(Link { ring, line }) = &mut *link else {
            return Ok(rest);
        };
        rest.shared = line.is_shared();
        let ready = ring.stall.is_stalled().then_some(self.rules.most_slots());
        let lacking = ring.lacking;
        let wanted = match (lacking, ready) {
            (Some(lacking), Some(ready)) => Some(lacking.min(ready)),
            (lacking, ready) => lacking.or(ready),
        };
        if let Some(requests) = wanted {
            rest.more |= ring.wait_for(requests)?;
        }
        rest.packets = self.outbox.park(!rest.more) || ready.is_some();
        Ok(rest)
    }

    /// Events have been dealt with. Softirq.
    pub(crate) fn dealt_with(&self, settled: Settled) {
        let link = self.to_guest.lock();
        if let Some(link) = &*link {
            link.line.dealt_with(settled);
        }
    }

    /// Whether the guest does not take packets any more. Process context.
    pub(crate) fn is_stalled(&self) -> bool {
        let _scope = NoSoftirqs::new();
        let link = self.to_guest.lock();
        link.as_ref()
            .is_some_and(|link| link.ring.stall.is_stalled())
    }

    /// Has it polled, as if there had been an event. Process context.
    pub(crate) fn kick(&self) {
        // What was begun runs when this ends.
        let _scope = NoSoftirqs::new();
        self.outbox.kick();
    }

    /// What is shown of it, if it is connected. Process context.
    pub(crate) fn portrait(&self) -> Option<Portrait> {
        let _scope = NoSoftirqs::new();
        let tx = {
            let link = self.from_guest.lock();
            link.as_ref()?.ring.snapshot()
        };
        let link = self.to_guest.lock();
        let ring = &link.as_ref()?.ring;
        Some(Portrait {
            tx,
            rx: ring.snapshot(),
            stalled: ring.stall.is_stalled(),
            waiting: self.outbox.waiting(),
            stopped: self.outbox.is_stopped(),
        })
    }

    /// What `ethtool -S` shows of it. Any context.
    pub(crate) fn values(&self) -> [u64; stats::NAMES.len()] {
        let (wait, waiting) = (self.outbox.stats(), self.outbox.waiting());
        stats::values(&self.rx_stats, wait, &self.tx_stats, waiting)
    }

    /// Packets from the guest that were wrong, and frames of its that Xen could not copy to. Any context.
    pub(crate) fn errors(&self) -> (u64, u64) {
        (self.rx_stats.errors(), self.tx_stats.copy_failed.get())
    }

    /// Its numbers as all interfaces have them. Any context.
    pub(crate) fn totals(&self) -> QueueTotals {
        let (rx, wait, tx) = (&self.rx_stats, self.outbox.stats(), &self.tx_stats);
        QueueTotals {
            rx_packets: rx.packets.get(),
            rx_bytes: rx.bytes.get(),
            rx_dropped: rx.no_memory.get(),
            rx_alloc_fail: rx.no_memory.get(),
            tx_packets: tx.packets.get(),
            tx_bytes: tx.bytes.get(),
            tx_dropped: wait.dropped(),
            tx_stopped: wait.stopped.get(),
            tx_woken: wait.woken.get(),
        }
    }
}
