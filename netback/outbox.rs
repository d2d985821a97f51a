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
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use xen::{
    io::netif::{
        self,
        RX_SLOTS, //
    },
    net::{
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

/// Packets, and what is polled to send them.
pub(crate) struct Open {
    list: Backlog,
    napi: Arc<Napi<Poller>>,
}

struct State {
    /// While the queue is connected.
    open: Option<Open>,
    stats: WaitStats,
    /// The queue was stopped, as enough are waiting.
    stopped: bool,
    /// Polling waits for something else than packets: frames of the guest, or time.
    parked: bool,
}

/// Where packets wait for a guest, as long as its queue is connected.
///
/// Its lock is taken in softirqs, and within [`NoSoftirqs`](xen::net::NoSoftirqs), and for a short time only:
/// whoever sends waits for it.
#[pin_data]
pub(crate) struct Outbox {
    netdev: Arc<Netdev>,
    index: u32,
    rules: Arc<Rules>,
    #[pin]
    state: SpinLock<State>,
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
            stats: WaitStats::default(),
            stopped: false,
            parked: false,
        };
        pin_init!(Self {
            netdev,
            index,
            rules,
            state <- new_spinlock!(state, "netback::Outbox::state"),
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
        state.stats.no_carrier += open.as_ref().map_or(0, |open| open.list.len() as u64);
        open
    }

    /// Puts a packet in, or drops it if the guest is not to have it. `queues` are in use. Softirqs disabled.
    pub(crate) fn put(&self, packet: TxPacket, queues: u32) -> Transmit {
        let view = packet.view();
        let wanted = self.rules.wants(&packet);
        let fits = (HEADER_LENGTH..=MOST_LENGTH).contains(&view.length) && !view.has_other_gso;
        let what = Description {
            length: view.length,
            checksum: view.checksum.into(),
            gso: view.gso.map(netif::Gso::from),
            hash: (self.rules.hash(&packet, queues)).and_then(|(hash, _queue)| hash),
        };
        let expires = thread::now().saturating_add(self.rules.patience());
        packet.take_time();

        let mut state = self.state.lock();
        let State {
            open,
            stats,
            stopped,
            parked,
        } = &mut *state;
        let open = match open {
            Some(open) if wanted && fits => open,
            open => {
                if open.is_none() {
                    stats.no_carrier += 1;
                } else if !wanted {
                    stats.filtered += 1;
                } else {
                    stats.oversized += 1;
                }
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
        if open.list.is_full() && !*stopped {
            // Whoever makes room does so under this lock.
            *stopped = true;
            stats.stopped += 1;
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
            stats,
            stopped,
            parked,
        } = &mut *state;
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
            stats.woken += 1;
            self.netdev.wake_queue(self.index);
        }
        if expired {
            stats.expired += 1;
            Next::Dropped(waiting)
        } else if impossible {
            stats.oversized += 1;
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
    pub(crate) fn stats(&self) -> WaitStats {
        self.state.lock().stats
    }
}
