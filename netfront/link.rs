// SPDX-License-Identifier: GPL-2.0

//! A direction of a queue that is connected: its ring, its event channel, and when the next event is asked for.

use crate::{
    fault::Fault,
    poller::Poller,
    receiver::Receiver,
    sender::Sender,
    stats::{
        RxStats,
        TxStats, //
    },
};
use xen::{
    moderation::{
        packets::{
            Ahead,
            Answers,
            Arrivals, //
        },
        settings::Settings, //
    },
    net::{
        Line,
        Moderator, //
    },
    ring::Notify, //
};

/// So much of the pages that the backend has, one in so many, may be filled before there is an event: the
/// others are there for what comes while new ones are made.
const HELD_SHARE: u32 = 4;

/// A direction of a queue that is connected. Everything is done with the lock of the direction held.
pub(crate) struct Link<R, H> {
    pub(crate) ring: R,
    pub(crate) line: Line<Poller>,
    pub(crate) moderator: Moderator<Poller, H>,
}

impl Link<Sender, Answers> {
    /// Shows the backend what is on the ring. The more is under way, the further ahead is the next event, but it
    /// is not so far if the queue is `stopped`.
    pub(crate) fn push(&mut self, settings: &Settings, stopped: bool, stats: &mut TxStats) {
        let Self {
            ring,
            line,
            moderator,
        } = self;
        let ahead = moderator.history.further(settings, ring.taken(), stopped);
        let pushed = ring.push(ahead);
        if pushed.held_off {
            moderator.hold(settings);
            stats.events_held += 1;
        }
        if let Notify::Needed = pushed.notify {
            stats.events_sent += 1;
            line.for_transmitting().notify();
        }
        // What is impossible about the ring, polling finds out.
        let due = pushed.due
            || (stopped && moderator.is_held() && ring.wait(ahead, || ()).unwrap_or(true));
        if due {
            moderator.poll();
        }
    }

    /// Asks for an event at one of the next answers, and says whether there is any already.
    pub(crate) fn wait(
        &mut self,
        settings: &Settings,
        stopped: bool,
        stats: &mut TxStats,
    ) -> Result<bool, Fault> {
        let Self {
            ring, moderator, ..
        } = self;
        let (before, outstanding) = (moderator.before(), ring.outstanding());
        let Ahead { slots, was_late } =
            moderator
                .history
                .ask(settings, before, outstanding, stopped);
        stats.events_expired += u64::from(was_late);
        let more = ring.wait(slots, || {
            if slots > 1 {
                moderator.hold(settings);
            }
        })?;
        stats.events_held += u64::from(!more && slots > 1);
        Ok(more)
    }
}

impl Link<Receiver, Arrivals> {
    /// Asks for an event at one of the next packets, and says whether there is any already.
    pub(crate) fn wait(&mut self, settings: &Settings, stats: &mut RxStats) -> Result<bool, Fault> {
        let Self {
            ring, moderator, ..
        } = self;
        let (before, most) = (moderator.before(), ring.taken() / HELD_SHARE);
        let Ahead { slots, was_late } = moderator.history.ask(settings, before, most);
        stats.events_expired += u64::from(was_late);
        let more = ring.wait(slots, || {
            if slots > 1 {
                moderator.hold(settings);
            }
        })?;
        stats.events_held += u64::from(!more && slots > 1);
        Ok(more)
    }
}
