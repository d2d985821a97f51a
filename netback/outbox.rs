// SPDX-License-Identifier: GPL-2.0

//! Where packets wait for a guest to take them: between those who send and the polling of the queue.

use crate::{
    backlog::{
        Backlog,
        Waiting, //
    },
    credit::Verdict,
    delivery::{
        Delivery,
        Description, //
    },
    poller::Poller,
    rules::Rules,
    stats::WaitStats, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::{
    compat::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    io::netif::{
        self,
        RX_SLOTS, //
    },
    net::{
        Features,
        Gso,
        Napi,
        Netdev,
        Transmit,
        TxPacket,
        HEADER_LENGTH, //
    },
    thread, //
};

/// Most bytes of a packet for a guest: those that TCP makes at most, with all headers.
const MOST_LENGTH: u32 = 65_536 + 256;

/// Most bytes of a packet for a guest that takes them in one piece only: what an interface with an ordinary
/// MTU sends, with the headers of two VLANs.
const PLAIN_LENGTH: u32 = 1500 + HEADER_LENGTH + 8;

/// Packets, and what is polled to send them.
pub(crate) struct Open {
    list: Backlog,
    napi: Arc<Napi<Poller>>,
}

struct State {
    /// While the queue is connected.
    open: Option<Open>,
    /// The queue was stopped, as enough are waiting.
    stopped: bool,
    /// Polling waits for something else than packets: frames of the guest, or time.
    parked: bool,
}

/// Where packets wait for a guest, as long as its queue is connected.
///
/// Its lock is taken in any context, as the kernel may print to the network from an interrupt, and for a short
/// time only: whoever sends waits for it.
#[pin_data]
pub(crate) struct Outbox {
    netdev: Arc<Netdev>,
    index: u32,
    rules: Arc<Rules>,
    stats: WaitStats,
    #[pin]
    state: SpinLockIrq<State>,
}

/// What comes next for the guest.
pub(crate) enum Next {
    /// A packet, for which there are enough requests.
    Packet(Waiting, Delivery),
    /// A packet that is to be dropped.
    Dropped(#[expect(dead_code, reason = "dropped")] Waiting),
    /// A packet that needs more requests: so many.
    Lacking(u32),
    /// Nothing before so many nanoseconds have passed.
    Throttled(u64),
    /// Nothing.
    Empty,
}

impl Outbox {
    /// That of the queue `index`, which is not connected.
    pub(crate) fn new(netdev: Arc<Netdev>, index: u32, rules: Arc<Rules>) -> impl PinInit<Self> {
        let state = State {
            open: None,
            stopped: false,
            parked: false,
        };
        pin_init!(Self {
            netdev,
            index,
            rules,
            stats: WaitStats::default(),
            state <- new_spinlock_irq!(state, "netback::Outbox::state"),
        })
    }

    /// Takes packets from now on, into `list`.
    pub(crate) fn open(&self, list: Backlog, napi: Arc<Napi<Poller>>) {
        let mut state = self.state.lock();
        state.open = Some(Open { list, napi });
        state.stopped = false;
        state.parked = false;
    }

    /// Takes no packets any more. Those that wait are to be dropped where that may sleep.
    pub(crate) fn close(&self) -> Option<Open> {
        let mut state = self.state.lock();
        let open = state.open.take();
        // CAST: A few thousand.
        self.stats
            .no_carrier
            .add(open.as_ref().map_or(0, |open| open.list.len() as u64));
        open
    }

    /// Puts a packet in, or drops it if the guest is not to have it, or does not take packets that need features
    /// other than `taken`. `queues` are in use. See [`Operations::transmit`](xen::net::Operations::transmit).
    pub(crate) fn put(&self, packet: TxPacket, queues: u32, taken: Features) -> Transmit {
        let view = packet.view();
        let wanted = self.rules.wants(&packet);
        let fits = (HEADER_LENGTH..=MOST_LENGTH).contains(&view.length) && !view.has_other_gso;
        let what = Description {
            length: view.length,
            checksum: view.checksum.into(),
            gso: view.gso.map(netif::Gso::from),
            hash: (self.rules.hash(&packet, queues)).and_then(|(hash, _queue)| hash),
        };
        let supported = match view.gso {
            None => taken.contains(Features::SCATTER_GATHER) || view.length <= PLAIN_LENGTH,
            Some(Gso::TcpV4(_)) => taken.contains(Features::SEGMENTATION_V4),
            Some(Gso::TcpV6(_)) => taken.contains(Features::SEGMENTATION_V6),
        };
        let expires = thread::now().saturating_add(self.rules.patience());
        packet.take_time();

        let mut state = self.state.lock();
        let State {
            open,
            stopped,
            parked,
        } = &mut *state;
        let stats = &self.stats;
        let open = match open {
            Some(open) if wanted && fits && supported => open,
            open => {
                let why = if open.is_none() {
                    &stats.no_carrier
                } else if !wanted {
                    &stats.filtered
                } else if !fits {
                    &stats.oversized
                } else {
                    &stats.unsupported
                };
                why.add(1);
                drop(state);
                drop(packet);
                return Transmit::Taken;
            }
        };
        let waiting = Waiting {
            packet,
            what,
            expires,
        };
        // Whoever ignores that the queue was stopped may have to ask again.
        let result = match open.list.push(waiting) {
            Ok(()) => Transmit::Taken,
            Err(waiting) => Transmit::Busy(waiting.packet),
        };
        if open.list.is_full() {
            // Whoever makes room does so under this lock. It may have been stopped, and woken by somebody who
            // did not know why.
            stats.stopped.add(u64::from(!*stopped));
            *stopped = true;
            self.netdev.stop_queue(self.index);
        }
        if !*parked {
            open.napi.schedule();
        }
        result
    }

    /// What comes next for the guest, which has offered so many frames.
    pub(crate) fn next(&self, now: u64, available: u32) -> Next {
        let mut state = self.state.lock();
        let State {
            open,
            stopped,
            parked,
        } = &mut *state;
        let stats = &self.stats;
        *parked = false;
        let Some(list) = open.as_mut().map(|open| &mut open.list) else {
            return Next::Empty;
        };
        let Some(front) = list.front() else {
            return Next::Empty;
        };
        let delivery = Delivery::new(front.what, self.rules.headroom());
        let (slots, length) = (delivery.slots(), front.what.length);
        let expired = front.expires <= now;
        let impossible = slots > RX_SLOTS;
        if !expired && !impossible {
            if slots > available {
                return Next::Lacking(slots);
            }
            if let Verdict::Wait(time) = self.rules.to_guest.ask(length) {
                return Next::Throttled(time);
            }
        }
        let Some(waiting) = list.pop() else {
            return Next::Empty;
        };
        if *stopped && list.has_room() {
            *stopped = false;
            stats.woken.add(1);
            self.netdev.wake_queue(self.index);
        }
        if expired {
            stats.expired.add(1);
            Next::Dropped(waiting)
        } else if impossible {
            stats.oversized.add(1);
            Next::Dropped(waiting)
        } else {
            Next::Packet(waiting, delivery)
        }
    }

    /// Polling ends. If so, packets alone are no reason to poll before there has been another one. Says
    /// whether there are packets.
    pub(crate) fn park(&self, so: bool) -> bool {
        let mut state = self.state.lock();
        let waits = matches!(&state.open, Some(open) if open.list.len() > 0);
        state.parked = so && waits;
        waits
    }

    /// Has the queue polled.
    pub(crate) fn kick(&self) {
        let state = self.state.lock();
        if let Some(open) = &state.open {
            open.napi.schedule();
        }
    }

    /// Packets that are waiting, and their bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        let state = self.state.lock();
        match &state.open {
            // CAST: A few thousand.
            Some(open) => (open.list.len() as u64, open.list.bytes().into()),
            None => (0, 0),
        }
    }

    /// Whether no more are to come.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// Its counters.
    pub(crate) fn stats(&self) -> &WaitStats {
        &self.stats
    }
}
