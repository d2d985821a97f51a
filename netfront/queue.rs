// SPDX-License-Identifier: GPL-2.0

//! A queue of an interface: both directions, while there is a connection and while there is none.

use crate::{
    fault::Fault,
    groups::Change,
    link::Link,
    poller::Poller,
    receive::Sight,
    receiver::Receiver,
    sender::{
        Done,
        Sender,
        Sent, //
    },
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
    moderation::{
        packets::{
            Answers,
            Arrivals, //
        },
        Live, //
    },
    net::{
        xdp::{
            self,
            Frame,
            Frames,
            ProgramSlot, //
        },
        Line,
        Moderator,
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
    ring::Notify,
};

struct Side<R, H, S> {
    link: Option<Link<R, H>>,
    stats: S,
    /// The queue was stopped for lack of room. For sending only.
    stopped: bool,
}

/// What is set of an interface's events.
pub(crate) struct Moderation {
    /// Of those for answers to what is sent.
    pub(crate) tx: Live,
    /// Of those for what is received.
    pub(crate) rx: Live,
}

/// A queue, which exists as long as its interface. What it has shared with a backend comes and goes.
///
/// Its locks are taken in softirqs; elsewhere within [`NoSoftirqs`].
#[pin_data]
pub(crate) struct Queue {
    index: u32,
    netdev: Arc<Netdev>,
    /// The interface's program.
    program: Arc<ProgramSlot>,
    /// Where its channels have been.
    pub(crate) places: Places,
    moderation: Arc<Moderation>,
    #[pin]
    tx: SpinLock<Side<Sender, Answers, TxStats>>,
    #[pin]
    rx: SpinLock<Side<Receiver, Arrivals, RxStats>>,
}

/// The two directions of a queue that is connected, before and after.
pub(crate) struct Rings {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// So many bytes of a queue may be with the backend, however long it takes (byte queue limits).
///
/// A backend that lends the guest's memory to its own network stack answers a packet when that is done with
/// it. Of a datagram in fragments that is when the last one has come: if the first one were waited for before
/// the last one is sent, neither would happen. So there must be room for some of the largest datagrams.
const LEAST_LIMIT: u32 = 256 << 10;

impl Queue {
    /// Number `index` of an interface.
    pub(crate) fn new(
        netdev: Arc<Netdev>,
        index: u32,
        program: Arc<ProgramSlot>,
        moderation: Arc<Moderation>,
    ) -> Result<Arc<Self>> {
        netdev.set_least_limit(index, LEAST_LIMIT);
        Arc::pin_init(
            pin_init!(Self {
                index,
                netdev,
                program,
                places: Places::default(),
                moderation,
                tx <- new_spinlock!(
                    Side { link: None, stats: TxStats::default(), stopped: false },
                    "netfront::Queue::tx"
                ),
                rx <- new_spinlock!(
                    Side { link: None, stats: RxStats::default(), stopped: false },
                    "netfront::Queue::rx"
                ),
            }),
            GFP_KERNEL,
        )
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
        napi: &Arc<Napi<Poller>>,
    ) -> Result {
        let sender = Link {
            ring: rings.sender,
            line: line.clone(),
            moderator: Moderator::new(napi, Answers::new())?,
        };
        let receiver = Link {
            ring: rings.receiver,
            line,
            moderator: Moderator::new(napi, Arrivals::new())?,
        };
        let _scope = NoSoftirqs::new();
        let mut tx = self.tx.lock();
        tx.link = Some(sender);
        tx.stopped = false;
        drop(tx);
        self.rx.lock().link = Some(receiver);
        Ok(())
    }

    /// Takes the rings away, to be dropped where that may sleep. Nobody may be polling. Process
    /// context.
    pub(crate) fn disconnect(&self) -> Option<impl Sized> {
        let scope = NoSoftirqs::new();
        let mut tx = self.tx.lock();
        let sender = tx.link.take();
        let in_flight = sender.as_ref().map_or(0, |link| link.ring.in_flight());
        tx.stats.lost += u64::from(in_flight);
        drop(tx);
        let receiver = self.rx.lock().link.take();
        drop(scope);
        self.netdev.reset_queue(self.index);
        if let Some(link) = &sender {
            link.line.remember_cpu(&self.places);
        }
        // The channels and timers are dropped before the rings: then nothing looks at them.
        let (sender, tx_line) = sender
            .map(|link| (link.ring, (link.line, link.moderator)))
            .unzip();
        let (receiver, rx_line) = receiver
            .map(|link| (link.ring, (link.line, link.moderator)))
            .unzip();
        drop(tx_line);
        drop(rx_line);
        (sender.is_some() || receiver.is_some()).then_some((sender, receiver))
    }

    /// Has the backend look at what is on the rings. Process context.
    pub(crate) fn wake_backend(&self) {
        let _scope = NoSoftirqs::new();
        let rx = self.rx.lock();
        if let Some(link) = &rx.link {
            link.line.for_receiving().notify();
        }
    }

    /// See [`Operations::transmit`](xen::net::Operations::transmit).
    pub(crate) fn transmit(&self, packet: TxPacket, more: bool) -> Transmit {
        let mut tx = self.tx.lock();
        let Side {
            link,
            stats,
            stopped,
        } = &mut *tx;
        let Some(link) = link else {
            stats.no_carrier += 1;
            return Transmit::Taken;
        };
        let view = packet.view();
        let length = view.length;
        let (result, at_once) = match link.ring.send(packet, &view, stats) {
            Sent::Yes => {
                stats.packets += 1;
                stats.bytes += u64::from(length);
                let at_once = self.netdev.sent(self.index, length, more);
                (Transmit::Taken, at_once)
            }
            Sent::Dropped => (Transmit::Taken, !more),
            Sent::Full(packet) => (Transmit::Busy(packet), true),
        };
        let settings = self.moderation.tx.settings();
        let full = !link.ring.has_room() || matches!(result, Transmit::Busy(_));
        if full {
            // Whoever makes room does so under this lock. It may have been stopped, and woken by somebody
            // who did not know why.
            stats.stopped += u64::from(!*stopped);
            *stopped = true;
            self.netdev.stop_queue(self.index);
        }
        if at_once || full {
            // Its limit stops it only when something is to be pushed at once.
            link.push(&settings, self.netdev.is_stopped(self.index), stats);
        }
        result
    }

    /// Sends a packet that a program has sent back. Softirq.
    fn send_back(&self, frame: &Frame) {
        let mut tx = self.tx.lock();
        let Side { link, stats, .. } = &mut *tx;
        let sent = link
            .as_mut()
            .is_some_and(|link| link.ring.send_frame(frame, stats));
        count_frame(stats, sent, frame.length());
    }

    /// Shows the backend what programs have sent. Softirq.
    fn push_frames(&self) {
        let mut tx = self.tx.lock();
        let Side { link, stats, .. } = &mut *tx;
        if let Some(link) = link {
            link.push(&self.moderation.tx.settings(), false, stats);
        }
    }

    /// See [`Operations::transmit_frames`](xen::net::Operations::transmit_frames).
    pub(crate) fn transmit_frames(&self, frames: &mut Frames<'_>) {
        let mut tx = self.tx.lock();
        let Side { link, stats, .. } = &mut *tx;
        let Some(link) = link else {
            return;
        };
        frames.send_each(|frame| {
            let sent = link.ring.send_frame(frame, stats);
            count_frame(stats, sent, frame.length());
            sent
        });
        drop(tx);
        self.push_frames();
    }

    /// Tells the backend which multicast packets are wanted; [`false`] if there is no room now. Process context.
    pub(crate) fn send_change(&self, change: Change) -> bool {
        let _scope = NoSoftirqs::new();
        let mut tx = self.tx.lock();
        let Side { link, stats, .. } = &mut *tx;
        let Some(link) = link else {
            return false;
        };
        if !link.ring.send_change(change) {
            return false;
        }
        stats.multicast_changes += 1;
        link.push(&self.moderation.tx.settings(), false, stats);
        true
    }

    /// Whether the backend has answered what it was told of multicast packets, and how often it has refused in
    /// all. Process context.
    pub(crate) fn changes_answered(&self) -> (bool, u64) {
        let _scope = NoSoftirqs::new();
        let tx = self.tx.lock();
        let is_answered = tx
            .link
            .as_ref()
            .is_none_or(|link| link.ring.has_no_messages());
        (is_answered, tx.stats.multicast_refused)
    }

    /// Takes back what the backend is done with. Softirq.
    pub(crate) fn reap(&self, budget: u32) -> Result<Reaped, Fault> {
        let mut tx = self.tx.lock();
        let Side {
            link,
            stats,
            stopped,
        } = &mut *tx;
        let Some(link) = link else {
            return Ok(Reaped::default());
        };
        link.moderator.end();
        let taken = link.ring.taken();
        let Done {
            packets,
            bytes,
            worked,
        } = link.ring.reap(budget, stats)?;
        // The ring has more room by each answer.
        let slots = taken.wrapping_sub(link.ring.taken());
        link.moderator.history.found(packets, slots);
        if *stopped && link.ring.has_room() {
            *stopped = false;
            stats.woken += 1;
            self.netdev.wake_queue(self.index);
        }
        let grown = link.ring.has_grown();
        drop(tx);
        if packets > 0 {
            self.netdev.completed(self.index, packets, bytes);
        }
        Ok(Reaped { worked, grown })
    }

    /// Receives packets, `budget` of them at most, and says how many it were.
    pub(crate) fn receive(&self, napi: &Polling<'_, Poller>, budget: u32) -> Result<Polled, Fault> {
        let mut rx = self.rx.lock();
        let Side { link, stats, .. } = &mut *rx;
        let Some(link) = link else {
            return Ok(Polled::default());
        };
        let program = self.program.polled(napi);
        let sight = program.map(|program| Sight {
            room: xdp::room(),
            has_frags: program.has_frags(),
        });
        link.moderator.end();
        let taken = link.ring.taken();
        let polled = link.ring.receive(napi, self.index, budget, sight, stats)?;
        let slots = taken.wrapping_sub(link.ring.taken());
        link.moderator.history.found(polled.packets, slots);
        let hungry = link.ring.refill(napi, stats);
        if let Notify::Needed = link.ring.push() {
            stats.events_sent += 1;
            link.line.for_receiving().notify();
        }
        let mut list = link.ring.take_list();
        drop(rx);
        let mut has_sent = false;
        let handed_over = list.hand_over(napi, program, |frame| {
            has_sent = true;
            self.send_back(&frame);
        });
        if has_sent {
            self.push_frames();
        }
        // The rings cannot have gone: that waits for the end of polling.
        let mut rx = self.rx.lock();
        rx.stats.add_handed_over(&handed_over);
        if let Some(link) = &mut rx.link {
            link.ring.give_list(list);
        }
        Ok(Polled { hungry, ..polled })
    }

    /// Asks for an event of each direction, and says whether there is something to do already.
    pub(crate) fn wait(&self) -> Result<bool, Fault> {
        let mut more = false;
        let mut tx = self.tx.lock();
        let Side { link, stats, .. } = &mut *tx;
        if let Some(link) = link {
            let stopped = self.netdev.is_stopped(self.index);
            more |= link.wait(&self.moderation.tx.settings(), stopped, stats)?;
        }
        drop(tx);
        let mut rx = self.rx.lock();
        let Side { link, stats, .. } = &mut *rx;
        if let Some(link) = link {
            more |= link.wait(&self.moderation.rx.settings(), stats)?;
        }
        Ok(more)
    }

    /// Events have been dealt with. Softirq.
    pub(crate) fn dealt_with(&self, settled: Settled) {
        let rx = self.rx.lock();
        if let Some(link) = &rx.link {
            link.line.dealt_with(settled);
        }
    }

    /// Gives back what has not been needed for a while, and says whether there may be more to give back
    /// later. Process context.
    #[must_use]
    pub(crate) fn trim(&self) -> bool {
        let _scope = NoSoftirqs::new();
        let mut tx = self.tx.lock();
        tx.link.as_mut().is_some_and(|link| link.ring.trim())
    }

    /// Its counters.
    pub(crate) fn stats(&self) -> (TxStats, RxStats) {
        let _scope = NoSoftirqs::new();
        let tx = self.tx.lock().stats;
        let rx = self.rx.lock().stats;
        (tx, rx)
    }

    /// What `ethtool -S` shows of it.
    pub(crate) fn values(&self) -> [u64; stats::NAMES.len()] {
        let (tx, rx) = self.stats();
        stats::values(&tx, &rx)
    }

    /// Its numbers as all interfaces have them.
    pub(crate) fn totals(&self) -> QueueTotals {
        let (tx, rx) = self.stats();
        QueueTotals {
            rx_packets: rx.packets,
            rx_bytes: rx.bytes,
            rx_dropped: rx.dropped(),
            rx_alloc_fail: rx.no_page.wrapping_add(rx.no_memory),
            tx_packets: tx.packets,
            tx_bytes: tx.bytes,
            tx_dropped: tx.dropped(),
            tx_stopped: tx.stopped,
            tx_woken: tx.woken,
        }
    }
}

fn count_frame(stats: &mut TxStats, sent: bool, length: u32) {
    if sent {
        stats.packets += 1;
        stats.bytes += u64::from(length);
        stats.xdp_sent += 1;
    } else {
        stats.xdp_dropped += 1;
    }
}

/// What came back from the backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reaped {
    /// There was any response.
    pub(crate) worked: bool,
    /// There are pages and references to be given back some time.
    pub(crate) grown: bool,
}

/// What polling has brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Polled {
    /// Packets.
    pub(crate) packets: u32,
    /// Whether there was any response.
    pub(crate) worked: bool,
    /// The backend has too few pages, and there is no memory for more.
    pub(crate) hungry: bool,
}
