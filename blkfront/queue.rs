// SPDX-License-Identifier: GPL-2.0

//! A hardware queue of a disk, with its ring and a lock.

use crate::{
    command::Finished,
    fault::Fault,
    moderator::Rest,
    queues::Queues,
    ring::Ring,
    stats::Stats, //
};
use kernel::prelude::*;
use xen::{
    compat::SpinLockIrq,
    moderation::Moderated, //
};

/// How much is done for an event before somebody else gets a turn: responses, and pages copied for
/// them.
const BUDGET: usize = 512;

/// How a queue is connected.
pub(crate) enum Link {
    /// Requests go to the backend.
    Up(Ring),
    /// The backend has broken the rules: nothing goes to it and nothing it says is believed.
    Broken {
        /// Kept until it can be dropped, which the event's handler cannot.
        ring: Ring,
        fault: Fault,
    },
    /// The backend has gone and another one is to come: requests wait.
    Waiting,
    /// There is no backend, not yet or no more.
    Down,
}

/// What a queue's lock is for.
pub(crate) struct Inner {
    pub(crate) link: Link,
    pub(crate) stats: Stats,
    /// The log says that the backend does not answer.
    pub(crate) stalled: bool,
}

/// A hardware queue.
#[pin_data]
pub(crate) struct Queue {
    #[pin]
    pub(crate) inner: SpinLockIrq<Inner>,
}

/// Why a ring's responses are looked for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    /// An event has come.
    Event,
    /// Events have been held off long enough.
    Timer,
    /// It goes on from what was left for later.
    Work,
    /// Somebody has time to.
    Chance,
}

/// How serving a ring's responses went.
pub(crate) enum Served {
    /// There are none left.
    All {
        /// ... but there were some.
        worked: bool,
    },
    /// There are more, or may soon be: work goes on with them.
    More,
    /// The backend has broken the rules.
    Broken,
    /// There is no ring to serve.
    NoRing,
}

/// Nothing goes to the backend any more, and nothing it says is believed.
pub(crate) fn break_link(link: &mut Link, fault: Fault) {
    if let Link::Up(ring) = core::mem::replace(link, Link::Down) {
        *link = Link::Broken { ring, fault };
    }
}

impl Queue {
    /// Looks for responses until there are some, if it is to and nobody else wants to run. Process context.
    pub(crate) fn look_out(&self) {
        loop {
            let mut inner = self.inner.lock();
            let Inner { link, stats, .. } = &mut *inner;
            let Link::Up(ring) = link else { return };
            if !ring.looks(xen::thread::should_yield(), stats) {
                return;
            }
            drop(inner);
            xen::thread::relax();
        }
    }

    /// Takes responses and completes their requests. Any context. If [`Served::More`] is returned for an
    /// event, no other one comes until work has found none left.
    pub(crate) fn serve(&self, queues: &Queues, cause: Cause) -> Served {
        let event = cause == Cause::Event;
        let settings = queues.live().settings();
        let mut finished = Finished::new();
        let mut found = 0u32;
        let mut first = true;
        let mut effort = 0usize;
        loop {
            let mut inner = self.inner.lock();
            let Inner {
                link,
                stats,
                stalled,
            } = &mut *inner;
            let ring = match link {
                Link::Up(ring) => ring,
                // The channel is about to go, or has been told to nobody yet.
                Link::Waiting | Link::Down => return Served::NoRing,
                Link::Broken { .. } => return Served::Broken,
            };
            let terms = ring.terms();
            let reaped = ring.reap(&mut finished, stats);
            let has_lost = ring.terms() != terms;
            let batch = finished.count();
            let answers_again = batch > 0 && core::mem::replace(stalled, false);
            // CAST: At most as many as a ring has slots, each time.
            found = found.saturating_add(batch as u32);
            effort = effort.saturating_add(finished.effort());
            stats.events_received += u64::from(event && first);
            let next = match reaped {
                Ok(true) => Ok(Rest::GoOn),
                Ok(false) => ring.rest(found, cause == Cause::Timer, &settings, stats),
                Err(fault) => Err(fault),
            };
            let mut goes_on = None;
            let served = match next {
                Ok(Rest::Wait) => {
                    // Responses that came after the first look at an event, or were found without
                    // one, may have an event of their own, which is still to come and will find nothing
                    // to do. It is not sent for nothing.
                    let ahead = ring.reaped_ahead((!first || !event) && batch > 0);
                    let worked = found > 0 || ahead;
                    stats.events_spurious += u64::from(event && !worked);
                    if cause == Cause::Work {
                        ring.events_again();
                    }
                    Some(Served::All { worked })
                }
                Ok(Rest::GoOn) if effort < BUDGET => None,
                Ok(rest) => {
                    if event {
                        ring.hold_events();
                        stats.events_deferred += u64::from(matches!(rest, Rest::GoOn));
                    }
                    goes_on = ring.events().cloned();
                    Some(Served::More)
                }
                Err(fault) => {
                    break_link(link, fault);
                    Some(Served::Broken)
                }
            };
            first = false;
            drop(inner);

            finished.complete();
            if let Some(events) = goes_on {
                events.go_on();
            }
            if has_lost {
                queues.frontend().kick();
            }
            if answers_again {
                pr_info!("{}: the backend answers again\n", queues.number());
            }
            if let Some(served) = served {
                if let Served::Broken = served {
                    queues.frontend().sever();
                }
                return served;
            }
        }
    }
}
