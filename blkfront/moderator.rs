// SPDX-License-Identifier: GPL-2.0

//! When a ring's responses have an event, and when somebody looks for them without one.

use crate::{
    events::RingEvents,
    fault::Fault,
    stats::Stats, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::{
    io::blkif::Blkif,
    moderation::{
        Backstop,
        HoldOff,
        Polling,
        Settings, //
    },
    ring::{
        Front,
        Notify, //
    },
    xenbus::GrantedPages, //
};

/// What is next for a ring that has no more responses.
pub(crate) enum Rest {
    /// There are more.
    GoOn,
    /// Somebody is to look for them for some time.
    LookOut,
    /// An event, or the timer.
    Wait,
}

/// What decides that for one ring. What it does is done under the lock of the ring's queue.
///
/// Dropping it waits for the timer's function, which takes that lock.
pub(crate) struct Moderator {
    backstop: Backstop<RingEvents>,
    hold_off: HoldOff,
    /// Events are held off.
    held: bool,
    /// Responses were seen that no event may come for.
    due: bool,
    polling: Polling,
    /// Since when there has been no response, in nanoseconds since the machine was started, if that is
    /// to be known.
    idle: Option<u64>,
    /// Until when somebody looks for responses.
    lookout: Option<u64>,
}

impl Moderator {
    /// For the ring whose events `events` is told of.
    pub(crate) fn new(events: Arc<RingEvents>) -> Result<Self> {
        Ok(Self {
            backstop: Backstop::new(events)?,
            hold_off: HoldOff::new(),
            held: false,
            due: false,
            polling: Polling::new(),
            idle: None,
            lookout: None,
        })
    }

    /// Publishes what has been filled in. The more is under way, the further ahead is the next event.
    pub(crate) fn push(
        &mut self,
        front: &mut Front<Blkif, GrantedPages>,
        stats: &mut Stats,
        settings: &Settings,
    ) -> Notify {
        if !settings.holds_off() {
            return front.push();
        }
        let ahead = self.hold_off.ahead_of(settings, front.taken());
        let pushed = front.push_holding_off(ahead);
        if pushed.held_off {
            self.backstop.hold(settings.nanoseconds());
            self.held = true;
            stats.events_held += 1;
        }
        self.due |= pushed.due;
        pushed.notify
    }

    /// Whether there are responses now that have to be looked for, since no event may come for them.
    pub(crate) fn take_due(&mut self) -> bool {
        core::mem::replace(&mut self.due, false)
    }

    /// No response is left: asks for an event, unless somebody is to look for more. So many were `found`
    /// since the last time; `by_timer` says that the timer had them looked for.
    pub(crate) fn rest(
        &mut self,
        front: &mut Front<Blkif, GrantedPages>,
        (found, by_timer): (u32, bool),
        settings: &Settings,
        stats: &mut Stats,
    ) -> Result<Rest, Fault> {
        let outstanding = front.outstanding();
        if self.looks_out(found, outstanding, settings) {
            return Ok(Rest::LookOut);
        }
        // After a look that has found nothing, the next response is worth an event.
        let ahead = if found > 0 {
            self.hold_off.ahead_of(settings, outstanding)
        } else {
            1
        };
        let backstop = &self.backstop;
        let more = front.wait_for_responses_beyond(ahead - 1, || {
            if ahead > 1 {
                backstop.hold(settings.nanoseconds());
            }
        });
        if more.map_err(Fault::Producer)? {
            return Ok(Rest::GoOn);
        }
        if ahead == 1 && self.held {
            self.backstop.release();
        }
        if found > 0 {
            if by_timer && self.held {
                stats.events_expired += 1;
                self.hold_off.expired(found);
            } else {
                self.hold_off.learn(found.saturating_add(outstanding));
            }
            stats.batches.count(found);
        } else if by_timer && self.held && outstanding == 0 {
            self.hold_off.idle();
        }
        self.held = ahead > 1;
        stats.events_held += u64::from(self.held);
        Ok(Rest::Wait)
    }

    /// Whether somebody is to look for responses before an event is asked for.
    fn looks_out(&mut self, found: u32, outstanding: u32, settings: &Settings) -> bool {
        let most = settings.poll_nanoseconds();
        if most == 0 || outstanding == 0 {
            self.idle = None;
            return false;
        }
        let now = xen::thread::now();
        if found > 0 {
            if let Some(idle) = self.idle.replace(now) {
                self.polling.learn(now.saturating_sub(idle), most);
            }
        }
        let span = self.polling.span(most);
        if found == 0 || span == 0 {
            return false;
        }
        self.lookout = Some(now.saturating_add(span));
        true
    }

    /// Whether to go on looking for responses, for whoever does so now and then. Says so until some are
    /// there or the time is up.
    pub(crate) fn looks(
        &mut self,
        front: &mut Front<Blkif, GrantedPages>,
        give_up: bool,
        stats: &mut Stats,
    ) -> bool {
        let Some(end) = self.lookout else {
            return false;
        };
        // Whoever takes them finds out what is impossible about the index.
        let found = front.has_responses().unwrap_or(true);
        let give_up = give_up || front.outstanding() == 0;
        if !found && !give_up && xen::thread::now() < end {
            return true;
        }
        if found {
            stats.polls_found += 1;
        } else {
            stats.polls_empty += 1;
        }
        self.lookout = None;
        false
    }
}
