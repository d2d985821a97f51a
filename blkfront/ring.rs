// SPDX-License-Identifier: GPL-2.0

//! A connected ring: requests in, responses out.
//!
//! Each request in flight has a place in the ring's table, whose number is its id on the wire. The
//! table says which ids the backend may answer; only what is in the table is ever completed, and
//! taking it out is what gives the right to complete it.

use crate::{
    answer,
    command::{
        Finished,
        Message,
        Verdict, //
    },
    events::RingEvents,
    fault::{
        Failure,
        Fault, //
    },
    features::{
        RingLimits,
        Terms, //
    },
    loan::{
        Needs,
        Problem, //
    },
    moderator::{
        Moderator,
        Rest, //
    },
    number::DiskNumber,
    queues::Queues,
    stats::{
        Gauges,
        Stats, //
    },
    traffic::{
        Place,
        Remains,
        Traffic, //
    },
    Blkfront,
    MAX_PERSISTENT_GRANTS,
    REQUEST_TIMEOUT, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::{
    blk::mq::{
        Request,
        Status, //
    },
    evtchn::{
        Channel,
        Outcome, //
    },
    io::blkif::{
        self,
        Blkif,
        Operation, //
    },
    moderation::Settings,
    ring::{
        Front,
        Notify, //
    },
    xenbus::{
        DeviceRef,
        GrantedPages, //
    },
};

/// How sending a request went.
pub(crate) enum Sent {
    /// It is in flight.
    InFlight,
    /// There is nothing to send, or it cannot be sent.
    Done(Request<Blkfront>, Status),
    /// It has to wait for those in flight.
    Busy(Request<Blkfront>),
    /// It was not sent, for the backend has broken the rules.
    Fault(Request<Blkfront>, Fault),
}

/// A connected ring.
///
/// Fields are dropped in this order: once the channel is gone no handler runs; then the requests in
/// flight end with an error; then their references can go; and last the pages that the backend
/// wrote its responses to.
pub(crate) struct Ring {
    channel: Channel<RingEvents>,
    /// ... and then nobody looks for responses after some time.
    moderator: Moderator,
    /// There once the backend has connected: requests may be sent.
    traffic: Option<Traffic>,
    front: Front<Blkif, GrantedPages>,
    domain: u16,
    handle: u16,
    /// The backend is to see nothing but the data: no page is granted that has anything else.
    untrusted: bool,
    /// The backend was told that it may keep pages mapped.
    persistent: bool,
    /// Tags that a hardware queue has.
    depth: usize,
    /// Hardware queues that share this ring.
    shares: usize,
    /// This is the ring of every hardware queue whose number modulo `rings` is `index`.
    index: u32,
    rings: u32,
    /// Nobody waits for events.
    polled: bool,
    /// Responses were found before their event has come, which will find nothing to do, but was not
    /// sent for nothing.
    reaped_ahead: bool,
    /// An event is still to be dealt with, and keeps others from coming.
    holds_events: bool,
    /// A barrier has been answered with success.
    barrier_works: bool,
    /// Who is told of events.
    events: Arc<RingEvents>,
}

/// What is decided when rings are announced.
#[derive(Clone, Copy)]
pub(crate) struct Conduct {
    /// The backend is to see nothing but the data.
    pub(crate) untrusted: bool,
    /// The backend may keep pages mapped.
    pub(crate) persistent: bool,
}

impl Ring {
    /// Makes ring number `index`, with the event channel that goes with it.
    pub(crate) fn new(
        dev: &DeviceRef,
        queues: &Arc<Queues>,
        index: u32,
        limits: RingLimits,
        conduct: Conduct,
    ) -> Result<Self, Failure> {
        let pages = GrantedPages::new(dev, limits.order)
            .map_err(|errno| Failure::Errno("granting a ring", errno))?;
        let mut front = Front::<Blkif, _>::new(pages)
            .map_err(|_| Failure::Errno("ring without slots", EINVAL))?;
        let polled = queues.is_polled(index, limits.queues);
        if polled {
            front.want_no_events();
        }
        let events = RingEvents::new(queues.clone(), index)
            .map_err(|errno| Failure::Errno("allocating an event's handler", errno))?;
        let channel = Channel::new(dev, c"blkif", events.clone())
            .map_err(|errno| Failure::Errno("allocating an event channel", errno))?;
        let moderator = Moderator::new(events.clone())
            .map_err(|errno| Failure::Errno("allocating a timer", errno))?;
        Ok(Self {
            channel,
            moderator,
            traffic: None,
            front,
            domain: dev.otherend_id(),
            handle: queues.handle(),
            untrusted: conduct.untrusted,
            persistent: conduct.persistent,
            depth: queues.depth() as usize,
            shares: queues.count().div_ceil(limits.queues.max(1)) as usize,
            index,
            rings: limits.queues,
            polled,
            reaped_ahead: false,
            holds_events: false,
            barrier_works: false,
            events,
        })
    }

    /// The event channel's port.
    pub(crate) fn port(&self) -> u32 {
        self.channel.port()
    }

    /// References of the ring's pages.
    pub(crate) fn grefs(&self) -> &[u32] {
        self.front.memory().grefs()
    }

    /// What requests on these terms need, and how many places for them there must be.
    pub(crate) fn needs(&self, terms: &Terms) -> (Needs, usize) {
        let needs = Needs {
            segments: terms.segments,
            requests: self.front.entries(),
            persistent: terms.persistent && self.persistent,
            most_persistent: MAX_PERSISTENT_GRANTS.get(),
            untrusted: self.untrusted,
            impatient: REQUEST_TIMEOUT.get() != 0,
            domain: self.domain,
        };
        (needs, self.depth.saturating_mul(self.shares))
    }

    /// The backend has connected: requests may be sent.
    pub(crate) fn open(&mut self, traffic: Traffic) {
        self.traffic = Some(traffic);
    }

    /// Whether the backend is to see nothing but the data.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.untrusted
    }

    /// Whether the backend was told that it may keep pages mapped.
    pub(crate) fn is_persistent(&self) -> bool {
        self.persistent
    }

    /// On what terms requests are sent at present.
    pub(crate) fn terms(&self) -> Option<Terms> {
        self.traffic.as_ref().map(|traffic| traffic.terms)
    }

    /// What it has at this moment.
    pub(crate) fn gauges(&self) -> Gauges {
        self.traffic
            .as_ref()
            .map_or_else(Gauges::default, Traffic::gauges)
    }

    /// Whether the ring has more references and pages than it must have.
    #[inline]
    pub(crate) fn has_grown(&self) -> bool {
        self.traffic
            .as_ref()
            .is_some_and(|traffic| traffic.lender.has_grown())
    }

    /// Gives back references and pages that have not been needed since the last call.
    pub(crate) fn trim(&mut self) {
        if let Some(traffic) = &mut self.traffic {
            traffic.lender.trim();
        }
    }

    /// Notes whether responses were found before their event has come, and says whether some had been
    /// before.
    pub(crate) fn reaped_ahead(&mut self, now: bool) -> bool {
        core::mem::replace(&mut self.reaped_ahead, now && !self.polled)
    }

    /// An event is dealt with later: no other one is to come until then.
    pub(crate) fn hold_events(&mut self) {
        self.holds_events = true;
    }

    /// If an event was to be dealt with later, it is now.
    pub(crate) fn events_again(&mut self) {
        if core::mem::replace(&mut self.holds_events, false) {
            self.channel.dealt_with(Outcome::Handled);
        }
    }

    /// Who is told of its events; nobody if it is polled.
    pub(crate) fn events(&self) -> Option<&Arc<RingEvents>> {
        (!self.polled).then_some(&self.events)
    }

    /// Gives its events a priority.
    pub(crate) fn set_priority(&self, priority: u32) -> Result {
        self.channel.set_priority(priority)
    }

    /// Publishes what has been filled in.
    pub(crate) fn push(&mut self, stats: &mut Stats, settings: &Settings) {
        let notify = if self.polled {
            self.front.push()
        } else {
            self.moderator.push(&mut self.front, stats, settings)
        };
        if notify == Notify::Needed {
            stats.events_sent += 1;
            self.channel.notify();
        }
    }

    /// Whether there are responses now that have to be looked for, since no event may come for them.
    pub(crate) fn take_due(&mut self) -> bool {
        self.moderator.take_due()
    }

    /// No response is left: asks for an event, unless somebody is to look for more. So many were `found`
    /// since the last time; `by_timer` says that the timer had them looked for.
    pub(crate) fn rest(
        &mut self,
        found: u32,
        by_timer: bool,
        settings: &Settings,
        stats: &mut Stats,
    ) -> Result<Rest, Fault> {
        if self.polled {
            return Ok(Rest::Wait);
        }
        self.moderator
            .rest(&mut self.front, (found, by_timer), settings, stats)
    }

    /// Whether to go on looking for responses, for whoever does so now and then. Says so until some are
    /// there or the time is up.
    pub(crate) fn looks(&mut self, give_up: bool, stats: &mut Stats) -> bool {
        self.moderator.looks(&mut self.front, give_up, stats)
    }

    /// Where the request with a tag of a hardware queue has its place in the table.
    fn place(&self, queue: u32, tag: usize) -> Option<usize> {
        // Whoever picked this ring may have known an earlier number of rings.
        if queue.checked_rem(self.rings)? != self.index || tag >= self.depth {
            return None;
        }
        let share = queue.checked_div(self.rings)? as usize;
        share.checked_mul(self.depth)?.checked_add(tag)
    }

    /// The block layer has found a request without an answer for so many more milliseconds. Says how
    /// long that is altogether, if it still is.
    pub(crate) fn waited(&mut self, queue: u32, tag: usize, milliseconds: u32) -> Option<u32> {
        let place = self.place(queue, tag)?;
        let place = self.traffic.as_mut()?.places.get_mut(place)?;
        Some(place.request.as_mut()?.data_mut().wait(milliseconds))
    }

    /// Fills in a request of a hardware queue.
    pub(crate) fn send(
        &mut self,
        queue: u32,
        mut request: Request<Blkfront>,
        stats: &mut Stats,
        settings: &Settings,
    ) -> Sent {
        let place = self.place(queue, request.tag());
        let (Some(traffic), Some(id)) = (&mut self.traffic, place) else {
            return Sent::Busy(request);
        };
        let Some(Place {
            loan,
            request: owner @ None,
        }) = traffic.places.get_mut(id)
        else {
            return Sent::Done(request, Status::IoError);
        };
        let message = match Message::plan(&request, &traffic.terms) {
            Ok(message) => message,
            Err(status) => return Sent::Done(request, status),
        };
        let Some(slot) = self.front.reserve() else {
            stats.ring_full += 1;
            self.push(stats, settings);
            return Sent::Busy(request);
        };

        // CAST: `usize` fits into `u64` on every machine that runs Linux.
        let name = (id as u64, self.handle);
        let filled = message.fill(loan, &mut traffic.lender, &request, name, stats);
        let wire = match filled {
            Ok(wire) => wire,
            Err(problem) => {
                drop(slot);
                if let Err(still) = loan.withdraw(&mut traffic.lender) {
                    return Sent::Fault(request, Fault::StillMapped(still));
                }
                return match problem {
                    // The limits given to the block layer rule this out, but for a disk whose sectors
                    // have grown meanwhile.
                    Problem::Unsuitable => Sent::Done(request, Status::IoError),
                    Problem::Short => {
                        stats.grant_waits += 1;
                        self.push(stats, settings);
                        Sent::Busy(request)
                    }
                };
            }
        };
        slot.fill(&wire);
        message.count(request.bytes(), loan.segments(), stats);
        *request.data_mut() = message.command();
        *owner = Some(request);
        Sent::InFlight
    }

    /// Takes responses until there are none, or `finished` is full. Says whether there may be more.
    pub(crate) fn reap(
        &mut self,
        finished: &mut Finished,
        stats: &mut Stats,
    ) -> Result<bool, Fault> {
        while !finished.is_full() {
            let Some(response) = self.front.next_response().map_err(Fault::Producer)? else {
                return Ok(false);
            };
            let nobody = Fault::Id(response.id);
            let traffic = self.traffic.as_mut().ok_or(nobody)?;
            let found = answer::take(&mut traffic.places, response.id, |place| {
                place.request.take()
            });
            let (Place { loan, .. }, mut request) = found.ok_or(nobody)?;

            let asked = request.data().operation;
            let status = blkif::Status::from_wire(response.status);
            let ended = loan.end(&mut traffic.lender);
            let mut copied = 0;
            let verdict = if asked != response.operation || ended.is_err() {
                // What the backend did with the data is anybody's guess.
                Verdict::End(Status::IoError)
            } else {
                if asked == Operation::Read as u8 && status == blkif::Status::Okay {
                    copied = loan.copy_out(&request);
                }
                Verdict::of(
                    status,
                    &mut request,
                    &mut traffic.terms,
                    &mut self.barrier_works,
                )
            };
            stats.errors += u64::from(status != blkif::Status::Okay);
            loan.clear(&mut traffic.lender);
            finished.push(request, verdict, copied);
            ended.map_err(Fault::StillMapped)?;
            if asked != response.operation {
                return Err(Fault::Operation {
                    asked,
                    answered: response.operation,
                });
            }
        }
        Ok(true)
    }

    /// Gives the requests in flight back to the block layer, to be sent again by another ring. The
    /// backend of this one is no more, and so is whatever it had mapped. Not under a queue's lock.
    pub(crate) fn give_back(mut self) {
        if let Some(traffic) = &mut self.traffic {
            traffic.give_back();
        }
    }

    /// Ends the requests in flight with an error, once the backend has let go of their memory. One that
    /// is just being taken down does so soon; until then it could still write into memory whose
    /// request has ended. Looks at them again as long as `go_on_waiting` says, which waits a moment.
    ///
    /// Returns what the backend may keep mapped until it is down, see [`Remains`].
    ///
    /// Process context, and not under a queue's lock.
    pub(crate) fn close(
        mut self,
        number: DiskNumber,
        mut go_on_waiting: impl FnMut() -> bool,
    ) -> Option<Remains> {
        let mut traffic = self.traffic.take()?;
        // No handler runs from here on.
        drop(self);
        let mut left = traffic.fail_unmapped();
        while left > 0 && go_on_waiting() {
            left = traffic.fail_unmapped();
        }
        if left > 0 {
            pr_warn!(
                "{number}: the backend keeps pages of {left} requests mapped: they end with an error, and the pages stay reserved\n"
            );
        }
        Some(traffic.into_remains())
    }
}
