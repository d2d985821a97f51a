// SPDX-License-Identifier: GPL-2.0

//! The hardware queues of a disk, and their rings.
//!
//! Each hardware queue has a ring of its own, and a lock. A guest that was restored can find a backend
//! that allows fewer rings than the disk has queues; then queues share rings.

use crate::{
    features::Flush,
    frontend::{
        Failure,
        Frontend,
        Identity, //
    },
    number::DiskNumber,
    ring::{
        Fault,
        Finished,
        Ring,
        Sent,
        UNMAP_PATIENCE, //
    },
    Blkfront, //
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    },
};
use xen::{
    blk::mq::{
        Request,
        Status, //
    },
    evtchn::{
        self,
        Outcome, //
    },
};

/// How a queue is connected.
enum Link {
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

/// A hardware queue.
#[pin_data]
struct Queue {
    #[pin]
    link: SpinLockIrq<Link>,
}

/// All queues of a device. They outlive their rings as long as somebody has the disk open.
pub(crate) struct Queues {
    queues: KVec<Pin<KBox<Queue>>>,
    frontend: Arc<Frontend>,
    identity: Identity,
    /// Requests that each queue can have in flight.
    depth: u32,
    /// How many of the queues have a ring: the first so many.
    rings: Atomic<u32>,
}

impl Queues {
    /// Makes `count` queues for `depth` requests each, which are not connected.
    pub(crate) fn new(
        frontend: Arc<Frontend>,
        identity: Identity,
        count: u32,
        depth: u32,
    ) -> Result<Arc<Self>> {
        let mut queues = KVec::new();
        for _ in 0..count {
            let queue = KBox::pin_init(
                pin_init!(Queue {
                    link <- new_spinlock_irq!(Link::Down),
                }),
                GFP_KERNEL,
            )?;
            queues.push(queue, GFP_KERNEL)?;
        }
        let queues = Self {
            queues,
            frontend,
            identity,
            depth,
            rings: Atomic::new(count),
        };
        Ok(Arc::new(queues, GFP_KERNEL)?)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        // CAST: `new` has made them from a number of this type.
        self.queues.len() as u32
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

    fn get(&self, index: u32) -> Option<&Queue> {
        Some(self.queues.get(index as usize)?)
    }

    /// Gives a queue its ring, which is not open yet. There will be `rings` of them.
    pub(crate) fn attach(&self, index: u32, rings: u32, ring: Ring) -> Result<(), Failure> {
        let queue = self
            .get(index)
            .ok_or(Failure::Errno("a ring without a queue", EINVAL))?;
        self.rings.store(rings, Relaxed);
        let old = core::mem::replace(&mut *queue.link.lock(), Link::Up(ring));
        // Not under the lock: dropping a ring waits for its handler, which takes it.
        drop(old);
        Ok(())
    }

    /// Looks at a ring, if there is one. The queue's lock is held meanwhile.
    pub(crate) fn with_ring<R>(&self, index: u32, look: impl FnOnce(&Ring) -> R) -> Option<R> {
        match &*self.get(index)?.link.lock() {
            Link::Up(ring) => Some(look(ring)),
            Link::Broken { .. } | Link::Waiting | Link::Down => None,
        }
    }

    /// The backend has connected: lets requests go to it.
    pub(crate) fn open(&self, flush: Flush) {
        for queue in &self.queues {
            if let Link::Up(ring) = &mut *queue.link.lock() {
                ring.open(flush);
            }
        }
    }

    /// Whether the backend has broken the rules on any ring, and how.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.queues
            .iter()
            .find_map(|queue| match &*queue.link.lock() {
                Link::Broken { fault, .. } => Some(*fault),
                Link::Up(_) | Link::Waiting | Link::Down => None,
            })
    }

    /// Whether the backend has turned out not to make data durable as it offered.
    pub(crate) fn flush_lost(&self, offered: Flush) -> bool {
        (0..self.count()).any(|index| {
            self.with_ring(index, |ring| ring.flush() != offered)
                .unwrap_or(false)
        })
    }

    /// Whether the backend is to see nothing but the data.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.with_ring(0, Ring::is_untrusted).unwrap_or(false)
    }

    /// Cuts all connections: requests in flight and all later ones end with an error. Process
    /// context; takes up to three seconds if the backend does not let go of the requests' pages.
    pub(crate) fn cut(&self) {
        let mut patience = UNMAP_PATIENCE;
        for queue in &self.queues {
            let link = core::mem::replace(&mut *queue.link.lock(), Link::Down);
            // Not under the lock any more: this sleeps, and waits for the handler, which takes it.
            match link {
                Link::Up(ring) | Link::Broken { ring, .. } => ring.close(&mut patience),
                Link::Waiting | Link::Down => {}
            }
        }
    }

    /// The backend has gone and another one is to come: requests in flight will be sent again, and
    /// others wait. Process context.
    pub(crate) fn suspend(&self) {
        for queue in &self.queues {
            let mut link = queue.link.lock();
            let old = match &*link {
                Link::Up(_) | Link::Waiting => core::mem::replace(&mut *link, Link::Waiting),
                Link::Broken { .. } | Link::Down => continue,
            };
            drop(link);
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
        let sent = match &mut *queue.link.lock() {
            Link::Up(ring) => {
                let sent = ring.send(index, request);
                if last {
                    ring.push();
                }
                sent
            }
            Link::Waiting => Sent::Busy(request),
            Link::Broken { .. } | Link::Down => Sent::Done(request, Status::IoError),
        };
        match sent {
            Sent::InFlight => Ok(()),
            Sent::Busy(request) => Err(request),
            Sent::Done(request, status) => {
                request.end(status);
                Ok(())
            }
        }
    }

    /// See [`Operations::commit_rqs`](xen::blk::mq::Operations::commit_rqs).
    pub(crate) fn commit_rqs(&self, index: u32) {
        if let Some(queue) = self.ring_of(index) {
            if let Link::Up(ring) = &mut *queue.link.lock() {
                ring.push();
            }
        }
    }

    /// The queue whose ring serves a queue.
    fn ring_of(&self, index: u32) -> Option<&Queue> {
        self.get(index.checked_rem(self.rings.load(Relaxed))?)
    }
}

/// Receiver of a ring's events.
pub(crate) struct RingEvents {
    queues: Arc<Queues>,
    index: u32,
}

impl RingEvents {
    /// For ring number `index`.
    pub(crate) fn new(queues: Arc<Queues>, index: u32) -> Self {
        Self { queues, index }
    }
}

impl evtchn::Handler for RingEvents {
    fn handle(&self) -> Outcome {
        let Some(queue) = self.queues.get(self.index) else {
            return Outcome::Silence;
        };
        let mut finished = Finished::new();
        let mut worked = false;
        let mut first = true;
        loop {
            let mut link = queue.link.lock();
            let ring = match &mut *link {
                Link::Up(ring) => ring,
                // The channel is about to go, or has been told to nobody yet.
                Link::Waiting | Link::Down => return Outcome::Spurious,
                Link::Broken { .. } => return Outcome::Silence,
            };
            let flush = ring.flush();
            let reaped = ring.reap(&mut finished);
            let flush_lost = ring.flush() != flush;
            let batch = finished.count();
            if let Ok(false) = reaped {
                // Responses that came after the first look have an event of their own, which is
                // still to come and will find nothing to do. It is not sent for nothing.
                worked |= ring.reaped_ahead(!first && batch > 0);
            }
            first = false;
            let fault = reaped.err();
            if let Some(fault) = fault {
                if let Link::Up(ring) = core::mem::replace(&mut *link, Link::Down) {
                    *link = Link::Broken { ring, fault };
                }
            }
            drop(link);

            worked |= batch > 0;
            finished.complete();
            if flush_lost {
                pr_warn!(
                    "{}: flush op failed: the backend does not support it after all, going on without\n",
                    self.queues.number()
                );
                self.queues.frontend.kick();
            }
            if fault.is_some() {
                self.queues.frontend.sever();
                return Outcome::Silence;
            }
            if let Ok(false) = reaped {
                return if worked {
                    Outcome::Handled
                } else {
                    Outcome::Spurious
                };
            }
        }
    }
}
