// SPDX-License-Identifier: GPL-2.0

//! The hardware queues of a disk, and their rings.
//!
//! Each hardware queue has a ring of its own, and a lock. A guest that was restored can find a backend
//! that allows fewer rings than the disk has queues; then queues share rings.

use crate::{
    fault::{
        Failure,
        Fault, //
    },
    features::Terms,
    frontend::Frontend,
    identity::Identity,
    number::DiskNumber,
    queue::{
        break_link,
        Cause,
        Inner,
        Link,
        Queue,
        Served, //
    },
    ring::{
        Ring,
        Sent, //
    },
    stats::{
        Stats,
        Table, //
    },
    traffic::{
        Remains,
        Traffic, //
    },
    Blkfront,
    MODERATION,
    REQUEST_TIMEOUT, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use xen::{
    blk::mq::{
        Request,
        Status, //
    },
    compat::new_spinlock_irq,
    moderation::{
        settings::DEFAULT_PRIORITY,
        Live,
        Moderated,
        Setting, //
    },
    xenbus::DeviceRef, //
};

/// How long to wait between two looks whether the backend has let go of all pages, in milliseconds,
/// and how many looks that is worth: as long as an ordinary disk may take for a request, since until
/// then the backend could still write to memory whose request has ended. Fewer if all of the guest's
/// devices wait meanwhile. A guest that is to be saved waits too, and gives up after 20 s.
const UNMAP_INTERVAL: i64 = 10;
const UNMAP_PATIENCE: u32 = 1000;
const UNMAP_PATIENCE_ON_BUS: u32 = 500;

/// All queues of a device. They outlive their rings as long as somebody has the disk open.
pub(crate) struct Queues {
    queues: KVec<Pin<KBox<Queue>>>,
    frontend: Arc<Frontend>,
    identity: Identity,
    /// How many of them, the last ones, are polled.
    polled: u32,
    /// Requests that each queue can have in flight.
    depth: u32,
    /// How many of the queues have a ring: the first so many.
    rings: Atomic<u32>,
    /// How often to look whether a backend that goes has let go of all pages.
    patience: Atomic<u32>,
    /// What is set of events.
    live: Live,
}

impl Moderated for Queues {
    fn live(&self) -> &Live {
        &self.live
    }

    fn device(&self) -> &DeviceRef {
        self.frontend.device()
    }

    fn changed(self: &Arc<Self>, setting: Setting) -> Result {
        match setting {
            Setting::Priority => self.prioritise(),
            // Looked at each time that they matter.
            Setting::Frames | Setting::Usecs | Setting::PollUsecs | Setting::Adaptive => Ok(()),
        }
    }
}

impl Queues {
    /// Makes `count` queues for `depth` requests each, of which the last `polled` are polled. They are
    /// not connected.
    pub(crate) fn new(
        frontend: Arc<Frontend>,
        identity: Identity,
        (count, polled): (u32, u32),
        depth: u32,
    ) -> Result<Arc<Self>> {
        let mut queues = KVec::new();
        for _ in 0..count {
            let queue = KBox::pin_init(
                pin_init!(Queue {
                    inner <- new_spinlock_irq!(Inner {
                        link: Link::Down,
                        stats: Stats::default(),
                        stalled: false,
                    }),
                }),
                GFP_KERNEL,
            )?;
            queues.push(queue, GFP_KERNEL)?;
        }
        let queues = Self {
            queues,
            frontend,
            identity,
            polled,
            depth,
            rings: Atomic::new(count),
            patience: Atomic::new(UNMAP_PATIENCE),
            live: Live::new(&MODERATION),
        };
        Ok(Arc::new(queues, GFP_KERNEL)?)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        // CAST: `new` has made them from a number of this type.
        self.queues.len() as u32
    }

    /// How many of them are polled: the last ones.
    pub(crate) fn polled(&self) -> u32 {
        self.polled
    }

    /// Whether a ring is polled, of so many there are. One that also serves other queues is not.
    pub(crate) fn is_polled(&self, ring: u32, rings: u32) -> bool {
        rings == self.count() && ring >= rings.saturating_sub(self.polled)
    }

    /// Requests that each can have in flight.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Which disk they are for, and how requests call it.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Which disk they are for.
    pub(crate) fn number(&self) -> DiskNumber {
        self.identity.number
    }

    /// What requests on the rings call the disk.
    pub(crate) fn handle(&self) -> u16 {
        self.identity.handle
    }

    /// The device that they belong to.
    pub(crate) fn frontend(&self) -> &Arc<Frontend> {
        &self.frontend
    }

    /// A queue by its number.
    pub(crate) fn get(&self, index: u32) -> Option<&Queue> {
        Some(self.queues.get(index as usize)?)
    }

    /// Gives a queue its ring, which is not open yet. There will be `rings` of them.
    pub(crate) fn attach(&self, index: u32, rings: u32, ring: Ring) -> Result<(), Failure> {
        let queue = self
            .get(index)
            .ok_or(Failure::Errno("a ring without a queue", EINVAL))?;
        self.rings.store(rings, Relaxed);
        let old = core::mem::replace(&mut queue.inner.lock().link, Link::Up(ring));
        // Not under the lock: dropping a ring waits for its handler, which takes it.
        drop(old);
        Ok(())
    }

    /// Gives the events of new rings the priority that is set, if it is not what they have anyway.
    pub(crate) fn begin_priority(&self) {
        if self.live.get(Setting::Priority) == DEFAULT_PRIORITY {
            return;
        }
        if let Err(errno) = self.prioritise() {
            pr_warn!(
                "{}: events have no priorities here, error {}\n",
                self.number(),
                errno.to_errno()
            );
        }
    }

    /// Gives the events of all rings the priority that is set.
    fn prioritise(&self) -> Result {
        let priority = self.live.get(Setting::Priority);
        (0..self.count())
            .filter_map(|index| self.with_ring(index, |ring| ring.set_priority(priority)))
            .collect()
    }

    /// Looks at a ring, if there is one. The queue's lock is held meanwhile.
    pub(crate) fn with_ring<R>(&self, index: u32, look: impl FnOnce(&Ring) -> R) -> Option<R> {
        match &self.get(index)?.inner.lock().link {
            Link::Up(ring) => Some(look(ring)),
            Link::Broken { .. } | Link::Waiting | Link::Down => None,
        }
    }

    /// The backend has connected: lets requests go to it, on these terms. Process context.
    pub(crate) fn open(&self, terms: Terms) -> Result<(), Failure> {
        let mut short = false;
        for (index, queue) in (0..).zip(&self.queues) {
            let Some((needs, places)) = self.with_ring(index, |ring| ring.needs(&terms)) else {
                continue;
            };
            let traffic = Traffic::new(needs, places, terms)?;
            short |= traffic.segments() < terms.segments;
            let mut inner = queue.inner.lock();
            if let Link::Up(ring) = &mut inner.link {
                ring.open(traffic);
                continue;
            }
            // Not under the lock: this frees memory.
            drop(inner);
            drop(traffic);
        }
        if short {
            pr_warn!(
                "{}: too few grant references are left, it will be slower: consider a larger max_grant_frames\n",
                self.number()
            );
        }
        Ok(())
    }

    /// Whether the backend has broken the rules on any ring, and how.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.queues
            .iter()
            .find_map(|queue| match &queue.inner.lock().link {
                Link::Broken { fault, .. } => Some(*fault),
                Link::Up(_) | Link::Waiting | Link::Down => None,
            })
    }

    /// What is left of the terms that the backend has offered, as far as that has turned out.
    pub(crate) fn without_lost(&self, offered: Terms) -> Terms {
        (0..self.count())
            .filter_map(|index| self.with_ring(index, Ring::terms).flatten())
            .fold(offered, Terms::without_lost)
    }

    /// Whether the backend is to see nothing but the data.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.with_ring(0, Ring::is_untrusted).unwrap_or(false)
    }

    /// Whether the backend was told that it may keep pages mapped.
    pub(crate) fn is_persistent(&self) -> bool {
        self.with_ring(0, Ring::is_persistent).unwrap_or(false)
    }

    /// The numbers of a queue, for its statistics.
    pub(crate) fn table(&self, index: u32) -> Option<Table> {
        let inner = self.get(index)?.inner.lock();
        Some(Table {
            queue: index,
            stats: inner.stats,
            gauges: match &inner.link {
                Link::Up(ring) => Some(ring.gauges()),
                Link::Broken { .. } | Link::Waiting | Link::Down => None,
            },
        })
    }

    /// Gives back references and pages that have not been needed for a while, and says whether there
    /// may be more to give back later. Process context.
    pub(crate) fn trim(&self) -> bool {
        let mut has_grown = false;
        for queue in &self.queues {
            if let Link::Up(ring) = &mut queue.inner.lock().link {
                ring.trim();
                has_grown |= ring.has_grown();
            }
        }
        has_grown
    }

    /// Cuts all connections: requests in flight and all later ones end with an error. Process
    /// context; takes up to ten seconds if the backend does not let go of the requests' pages.
    ///
    /// Returns what is left of the rings, see [`Remains`].
    pub(crate) fn cut(&self) -> impl Iterator<Item = Remains> + '_ {
        self.queues.iter().filter_map(|queue| {
            let link = core::mem::replace(&mut queue.inner.lock().link, Link::Down);
            // Not under the lock any more: this sleeps, and waits for the handler, which takes it.
            match link {
                Link::Up(ring) | Link::Broken { ring, .. } => {
                    ring.close(self.number(), || self.wait_a_moment())
                }
                Link::Waiting | Link::Down => None,
            }
        })
    }

    /// Waits before another look whether the backend has let go of all pages; [`false`] if there were
    /// enough of them.
    fn wait_a_moment(&self) -> bool {
        let patience = self.patience.load(Relaxed);
        if patience == 0 {
            return false;
        }
        // Others may do the same at this time, or hurry this up, of which nobody depends on the
        // number being exact.
        self.patience.store(patience - 1, Relaxed);
        fsleep(Delta::from_millis(UNMAP_INTERVAL));
        true
    }

    /// All devices wait for this one: cutting its connections must not take long.
    pub(crate) fn hurry(&self) {
        if self.patience.load(Relaxed) > UNMAP_PATIENCE_ON_BUS {
            self.patience.store(UNMAP_PATIENCE_ON_BUS, Relaxed);
        }
    }

    /// The backend has gone and another one is to come: requests in flight will be sent again, and
    /// others wait. Process context.
    pub(crate) fn suspend(&self) {
        for queue in &self.queues {
            let mut inner = queue.inner.lock();
            let old = match &inner.link {
                Link::Up(_) | Link::Waiting => core::mem::replace(&mut inner.link, Link::Waiting),
                Link::Broken { .. } | Link::Down => continue,
            };
            drop(inner);
            if let Link::Up(ring) = old {
                ring.give_back();
            }
        }
    }

    /// See [`Operations::queue_rq`](xen::blk::mq::Operations::queue_rq).
    pub(crate) fn queue_rq(
        &self,
        index: u32,
        request: Request<Blkfront>,
        last: bool,
    ) -> Result<(), Request<Blkfront>> {
        let Some(queue) = self.ring_of(index) else {
            request.end(Status::IoError);
            return Ok(());
        };
        let settings = self.live.settings();
        let mut inner = queue.inner.lock();
        let Inner { link, stats, .. } = &mut *inner;
        let mut grows = false;
        let mut due = false;
        let sent = match link {
            Link::Up(ring) => {
                let had_grown = ring.has_grown();
                let sent = ring.send(index, request, stats, &settings);
                if last {
                    ring.push(stats, &settings);
                }
                due = ring.take_due();
                grows = !had_grown && ring.has_grown();
                if let Sent::Fault(_, fault) = sent {
                    break_link(link, fault);
                }
                sent
            }
            Link::Waiting => Sent::Busy(request),
            Link::Broken { .. } | Link::Down => Sent::Done(request, Status::IoError),
        };
        drop(inner);
        if grows {
            self.frontend.trim_later();
        }
        if due {
            queue.serve(self, Cause::Chance);
        }
        match sent {
            Sent::InFlight => Ok(()),
            Sent::Busy(request) => Err(request),
            Sent::Fault(request, _) => {
                self.frontend.sever();
                request.end(Status::IoError);
                Ok(())
            }
            Sent::Done(request, status) => {
                request.end(status);
                Ok(())
            }
        }
    }

    /// See [`Operations::commit_rqs`](xen::blk::mq::Operations::commit_rqs).
    pub(crate) fn commit_rqs(&self, index: u32) {
        let Some(queue) = self.ring_of(index) else {
            return;
        };
        let settings = self.live.settings();
        let mut due = false;
        let mut inner = queue.inner.lock();
        let Inner { link, stats, .. } = &mut *inner;
        if let Link::Up(ring) = link {
            ring.push(stats, &settings);
            due = ring.take_due();
        }
        drop(inner);
        if due {
            queue.serve(self, Cause::Chance);
        }
    }

    /// The queue whose ring serves a queue.
    fn ring_of(&self, index: u32) -> Option<&Queue> {
        self.get(index.checked_rem(self.rings.load(Relaxed))?)
    }

    /// See [`Operations::poll`](xen::blk::mq::Operations::poll).
    pub(crate) fn poll(&self, index: u32) -> bool {
        let served = self
            .ring_of(index)
            .map(|queue| queue.serve(self, Cause::Chance));
        matches!(served, Some(Served::All { worked: true } | Served::More))
    }

    /// See [`Operations::timed_out`](xen::blk::mq::Operations::timed_out).
    pub(crate) fn timed_out(&self, index: u32, tag: usize, milliseconds: u32) {
        let Some(queue) = self.ring_of(index) else {
            return;
        };
        // The answer may be there: nobody may have polled, or the event's turn may still be to come, as
        // with a guest that was paused and has all its timers run at once.
        queue.serve(self, Cause::Chance);
        let mut inner = queue.inner.lock();
        let Inner {
            link,
            stats,
            stalled,
        } = &mut *inner;
        let waited = match link {
            Link::Up(ring) => ring.waited(index, tag, milliseconds),
            Link::Broken { .. } | Link::Waiting | Link::Down => None,
        };
        let Some(waited) = waited else {
            return;
        };
        stats.timeouts += 1;
        let seconds = waited / 1000;
        let limit = REQUEST_TIMEOUT.get();
        let give_up = limit != 0 && seconds >= limit;
        if give_up {
            break_link(link, Fault::Silent(seconds));
        }
        let was_stalled = core::mem::replace(stalled, true);
        drop(inner);
        if give_up {
            self.frontend.sever();
        } else if !was_stalled {
            pr_warn!(
                "{}: the backend has not answered a request on queue {index} for {seconds} s, going on waiting\n",
                self.number()
            );
        }
    }
}
