// SPDX-License-Identifier: GPL-2.0

//! Requests and responses: the hot path.
//!
//! Each hardware queue has a ring of its own, and a lock. A request's tag is its id on the ring: the
//! block layer has no more tags for a queue than the ring has slots. The table of requests in flight
//! says which ids the backend may answer; only what is in the table is ever completed, and taking it
//! out is what gives the right to complete it.

use crate::{
    features::Flush,
    frontend::{
        Failure,
        Frontend,
        Identity, //
    },
    number::DiskNumber,
    Blkfront, //
};
use core::fmt;
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    },
};
use xen::{
    blk::mq::{
        Op,
        Request,
        Status, //
    },
    evtchn::{
        self,
        Channel,
        Outcome, //
    },
    grant::{
        Access,
        Grant,
        Reserve,
        StillMapped, //
    },
    io::blkif::{
        self,
        Blkif,
        Operation, //
    },
    ring::{
        Front,
        Impossible,
        Notify, //
    },
    xenbus::{
        DeviceRef,
        GrantedPages, //
    },
};

/// Responses that are dealt with before the lock is let go.
const BATCH: usize = 16;

/// What the backend did that no honest backend does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Its producer index is impossible.
    Producer(Impossible),
    /// It answered a request that is not in flight.
    Id(u64),
    /// It answered with another operation than it was asked for.
    Operation { asked: u8, answered: u8 },
    /// It answered but keeps a page mapped.
    StillMapped(StillMapped),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Producer(impossible) => write!(f, "illegal number of responses: {impossible}"),
            Self::Id(id) => write!(
                f,
                "response has incorrect id ({id}), it references no pending request"
            ),
            Self::Operation { asked, answered } => write!(
                f,
                "response has wrong operation ({answered} instead of {asked})"
            ),
            Self::StillMapped(StillMapped { gref }) => {
                write!(f, "backend has not unmapped grant: {gref}")
            }
        }
    }
}

/// Grants of one request.
#[derive(Default)]
struct Grants {
    list: [Option<Grant>; blkif::MAX_SEGMENTS],
    used: usize,
}

impl Grants {
    /// Keeps a grant; gives it back if there are as many as a request can have.
    fn push(&mut self, grant: Grant) -> Result<(), Grant> {
        match self.list.get_mut(self.used) {
            Some(place) => {
                *place = Some(grant);
                self.used += 1;
                Ok(())
            }
            None => Err(grant),
        }
    }

    fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Ends all grants. All of them, even if the backend turns out to have one still mapped.
    fn end(&mut self, reserve: &mut Reserve) -> Result<(), StillMapped> {
        let mut result = Ok(());
        for place in self.list.iter_mut().take(self.used) {
            if let Some(grant) = place.take() {
                result = reserve.end(grant).and(result);
            }
        }
        self.used = 0;
        result
    }
}

/// This driver's part of a request: what was sent to the backend for it.
#[derive(Default)]
pub(crate) struct Command {
    operation: u8,
    grants: Grants,
}

/// What is to become of a request once the lock is let go.
enum Verdict {
    End(Status),
    /// It must be sent again, in another way.
    Requeue,
}

/// Requests that have their responses.
struct Finished {
    list: [Option<(Request<Blkfront>, Verdict)>; BATCH],
    used: usize,
}

impl Finished {
    fn new() -> Self {
        Self {
            list: [const { None }; BATCH],
            used: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.used == BATCH
    }

    fn push(&mut self, request: Request<Blkfront>, verdict: Verdict) {
        if let Some(place) = self.list.get_mut(self.used) {
            *place = Some((request, verdict));
            self.used += 1;
        }
    }

    /// Gives all requests back to the block layer. Not under a queue's lock.
    fn complete(&mut self) {
        for place in self.list.iter_mut().take(self.used) {
            match place.take() {
                Some((request, Verdict::End(status))) => request.complete(status),
                Some((request, Verdict::Requeue)) => request.requeue(),
                None => {}
            }
        }
        self.used = 0;
    }
}

/// How sending a request went.
enum Sent {
    /// It is in flight.
    InFlight,
    /// There is nothing to send, or it cannot be sent.
    Done(Request<Blkfront>, Status),
    /// It has to wait for those in flight.
    Busy(Request<Blkfront>),
}

/// A connected ring.
///
/// Fields are dropped in this order: once the channel is gone no handler runs; then the requests in
/// flight end with an error; then their references can go; and last the pages that the backend
/// wrote its responses to.
pub(crate) struct Ring {
    channel: Channel<RingEvents>,
    in_flight: KVec<Option<Request<Blkfront>>>,
    reserve: Reserve,
    front: Front<Blkif, GrantedPages>,
    domain: u16,
    handle: u16,
    /// How data is made durable, known once the backend is connected. The backend may turn out
    /// not to do what it offered.
    flush: Flush,
    /// Responses came in while their event was being handled. The events they were sent with will
    /// find nothing to do, but were not sent for nothing.
    reaped_ahead: bool,
    /// A barrier has been answered with success.
    barrier_works: bool,
}

impl Ring {
    /// Makes the ring of a queue, with the event channel that goes with it.
    pub(crate) fn connect(
        dev: &DeviceRef,
        queues: &Arc<Queues>,
        index: usize,
        order: u32,
    ) -> Result<(), Failure> {
        let queue = queues
            .queues
            .get(index)
            .ok_or(Failure::Errno("unknown queue", EINVAL))?;

        let pages =
            GrantedPages::new(dev, order).map_err(|e| Failure::Errno("granting a ring", e))?;
        let front = Front::<Blkif, _>::new(pages)
            .map_err(|_| Failure::Errno("ring without slots", EINVAL))?;
        let slots = front.entries();

        // As many references as can be in use at once, if there are. With those of one request the
        // ring can always make progress, for the requests in flight give theirs back.
        let least = blkif::MAX_SEGMENTS;
        let wanted = least.saturating_mul(slots as usize);
        // CAST: 11 times the number of slots of the largest ring, 512, is less than 2^16.
        let reserve = Reserve::new(wanted as u16, least as u16)
            .map_err(|e| Failure::Errno("reserving grant references", e))?;
        if (reserve.free() as usize) < wanted {
            dev_warn!(
                dev.as_ref(),
                "only {} of {wanted} grant references left for a ring: it will be slower, consider a larger max_grant_frames\n",
                reserve.free()
            );
        }

        let mut in_flight = KVec::with_capacity(slots as usize, GFP_KERNEL)?;
        for _ in 0..slots {
            in_flight.push(None, GFP_KERNEL)?;
        }

        let events = Arc::new(
            RingEvents {
                queues: queues.clone(),
                index,
            },
            GFP_KERNEL,
        )?;
        let channel = Channel::new(dev, c"blkif", events)
            .map_err(|e| Failure::Errno("allocating an event channel", e))?;

        *queue.link.lock() = Link::Up(Self {
            channel,
            in_flight,
            reserve,
            front,
            domain: dev.otherend_id(),
            handle: queues.identity.handle,
            flush: Flush::None,
            reaped_ahead: false,
            barrier_works: false,
        });
        Ok(())
    }

    /// The event channel's port.
    pub(crate) fn port(&self) -> u32 {
        self.channel.port()
    }

    /// References of the ring's pages.
    pub(crate) fn grefs(&self) -> &[u32] {
        self.front.memory().grefs()
    }

    /// How many requests fit.
    pub(crate) fn slots(&self) -> u32 {
        self.front.entries()
    }

    /// Publishes what has been filled in.
    fn push(&mut self) {
        if self.front.push() == Notify::Needed {
            self.channel.notify();
        }
    }

    /// Fills in a request.
    fn send(&mut self, mut request: Request<Blkfront>) -> Sent {
        let operation = match (request.op(), self.flush) {
            (Op::Read, _) => Operation::Read,
            (Op::Write { fua: true }, Flush::Barrier) => Operation::WriteBarrier,
            // The block layer knows that the disk has no FUA, or the disk has lost it.
            (Op::Write { .. }, _) => Operation::Write,
            (Op::Flush, Flush::Diskcache) => Operation::FlushDiskcache,
            (Op::Flush, Flush::Barrier) => Operation::WriteBarrier,
            (Op::Flush, Flush::None) => return Sent::Done(request, Status::Okay),
            (Op::Other, _) => return Sent::Done(request, Status::NotSupported),
        };
        let access = match operation {
            Operation::Read => Access::ReadWrite,
            _ => Access::ReadOnly,
        };
        let tag = request.tag();
        if !matches!(self.in_flight.get(tag), Some(None)) {
            return Sent::Done(request, Status::IoError);
        }

        // CAST: A tag is less than 2^32.
        let mut wire = blkif::Request::new(operation, self.handle, tag as u64, request.sector());
        let mut grants = Grants::default();
        let mut pieces = request.pieces();
        let problem = loop {
            let Some(piece) = pieces.next() else {
                break None;
            };
            let Some(grant) = self.reserve.grant(self.domain, piece.frame, access) else {
                break Some(Problem::NoReference);
            };
            let segment = blkif::Segment::new(grant.gref(), piece.offset, piece.length);
            let kept = grants.push(grant);
            if kept.is_err() || !segment.is_some_and(|segment| wire.push_segment(segment)) {
                break Some(Problem::Unsuitable);
            }
        };
        let slot = match problem {
            None => self.front.reserve(),
            Some(_) => None,
        };
        let Some(slot) = slot else {
            // Nobody has been told of these references, so they can be ended.
            let _ = grants.end(&mut self.reserve);
            return match problem {
                // The limits given to the block layer rule this out.
                Some(Problem::Unsuitable) => Sent::Done(request, Status::IoError),
                Some(Problem::NoReference) | None => {
                    self.push();
                    Sent::Busy(request)
                }
            };
        };
        slot.fill(&wire);
        let command = request.data_mut();
        command.operation = wire.operation();
        command.grants = grants;
        if let Some(place) = self.in_flight.get_mut(tag) {
            *place = Some(request);
        }
        Sent::InFlight
    }

    /// Takes responses until there are none, or `finished` is full. Says whether to come again.
    fn reap(&mut self, finished: &mut Finished) -> Result<bool, Fault> {
        while !finished.is_full() {
            let Some(response) = self.front.next_response().map_err(Fault::Producer)? else {
                return self.front.wait_for_responses().map_err(Fault::Producer);
            };
            let place = usize::try_from(response.id)
                .ok()
                .and_then(|id| self.in_flight.get_mut(id))
                .filter(|place| place.is_some());
            let Some(mut request) = place.and_then(Option::take) else {
                return Err(Fault::Id(response.id));
            };

            let status = blkif::Status::from_wire(response.status);
            let command = request.data_mut();
            let asked = command.operation;
            let has_data = !command.grants.is_empty();
            let ended = command.grants.end(&mut self.reserve);
            if asked != response.operation || ended.is_err() {
                // What the backend did with the data is anybody's guess.
                finished.push(request, Verdict::End(Status::IoError));
                return Err(match ended {
                    Err(still_mapped) => Fault::StillMapped(still_mapped),
                    Ok(()) => Fault::Operation {
                        asked,
                        answered: response.operation,
                    },
                });
            }
            finished.push(request, self.judge(asked, has_data, status));
        }
        Ok(true)
    }

    /// What a response means for the request.
    fn judge(&mut self, asked: u8, has_data: bool, status: blkif::Status) -> Verdict {
        let barrier = asked == Operation::WriteBarrier as u8;
        let flush = asked == Operation::FlushDiskcache as u8;
        let refused = match status {
            blkif::Status::Okay => {
                self.barrier_works |= barrier;
                return Verdict::End(Status::Okay);
            }
            blkif::Status::NotSupported => barrier || flush,
            // Old backends that offer barriers but know none without data call that an error.
            blkif::Status::Error => barrier && !has_data && !self.barrier_works,
        };
        if !refused {
            return Verdict::End(Status::IoError);
        }
        self.flush = Flush::None;
        if has_data {
            // The data has not been written. It goes again, as a plain write.
            Verdict::Requeue
        } else {
            Verdict::End(Status::Okay)
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The channel is still there, but the link is down, so its handler does nothing. Whatever
        // the backend still has mapped is parked.
        for place in &mut self.in_flight {
            if let Some(mut request) = place.take() {
                let _ = request.data_mut().grants.end(&mut self.reserve);
                request.end(Status::IoError);
            }
        }
    }
}

/// Why a request could not be filled in.
#[derive(Clone, Copy)]
enum Problem {
    NoReference,
    Unsuitable,
}

/// How a queue is connected.
enum Link {
    /// Requests go to the backend.
    Up(Ring),
    /// The backend has broken the rules: nothing goes to it and nothing it says is believed.
    Broken {
        /// Kept until it can be dropped, which the event's handler cannot.
        _ring: Ring,
        fault: Fault,
    },
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
}

impl Queues {
    /// Makes `count` queues that are not connected.
    pub(crate) fn new(
        frontend: Arc<Frontend>,
        identity: Identity,
        count: u32,
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
        };
        Ok(Arc::new(queues, GFP_KERNEL)?)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.queues.len()
    }

    /// Which disk they are for.
    pub(crate) fn number(&self) -> DiskNumber {
        self.identity.number
    }

    /// The device that they belong to.
    pub(crate) fn frontend(&self) -> &Arc<Frontend> {
        &self.frontend
    }

    /// Looks at the ring of a queue, if it is connected. The queue's lock is held meanwhile.
    pub(crate) fn with_ring<R>(&self, index: usize, look: impl FnOnce(&Ring) -> R) -> Option<R> {
        match &*self.queues.get(index)?.link.lock() {
            Link::Up(ring) => Some(look(ring)),
            Link::Broken { .. } | Link::Down => None,
        }
    }

    /// Sets how data is made durable.
    pub(crate) fn set_flush(&self, flush: Flush) {
        for queue in &self.queues {
            if let Link::Up(ring) = &mut *queue.link.lock() {
                ring.flush = flush;
            }
        }
    }

    /// Whether the backend has broken the rules on any queue, and how.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.queues
            .iter()
            .find_map(|queue| match &*queue.link.lock() {
                Link::Broken { fault, .. } => Some(*fault),
                Link::Up(_) | Link::Down => None,
            })
    }

    /// Cuts all connections: requests in flight and all later ones end with an error. Process
    /// context.
    pub(crate) fn cut(&self) {
        for queue in &self.queues {
            let link = core::mem::replace(&mut *queue.link.lock(), Link::Down);
            // Not under the lock: this waits for the handler, which takes it.
            drop(link);
        }
    }

    /// See [`mq::Operations::queue_rq`].
    pub(crate) fn queue_rq(
        &self,
        index: u32,
        request: Request<Blkfront>,
        last: bool,
    ) -> Result<(), Request<Blkfront>> {
        let Some(queue) = self.queues.get(index as usize) else {
            request.end(Status::IoError);
            return Ok(());
        };
        let sent = match &mut *queue.link.lock() {
            Link::Up(ring) => {
                let sent = ring.send(request);
                if last {
                    ring.push();
                }
                sent
            }
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

    /// See [`mq::Operations::commit_rqs`].
    pub(crate) fn commit_rqs(&self, index: u32) {
        if let Some(queue) = self.queues.get(index as usize) {
            if let Link::Up(ring) = &mut *queue.link.lock() {
                ring.push();
            }
        }
    }
}

/// Receiver of a ring's events.
struct RingEvents {
    queues: Arc<Queues>,
    index: usize,
}

impl evtchn::Handler for RingEvents {
    fn handle(&self) -> Outcome {
        let Some(queue) = self.queues.queues.get(self.index) else {
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
                Link::Down => return Outcome::Spurious,
                Link::Broken { .. } => return Outcome::Silence,
            };
            let flush = ring.flush;
            let reaped = ring.reap(&mut finished);
            let flush_lost = ring.flush != flush;
            let batch = finished.used;
            if let Ok(false) = reaped {
                // Responses that came after the first look have an event of their own, which is
                // still to come and will find nothing to do. It is not sent for nothing.
                worked |= core::mem::replace(&mut ring.reaped_ahead, !first && batch > 0);
            }
            first = false;
            let fault = reaped.err();
            if let Some(fault) = fault {
                if let Link::Up(ring) = core::mem::replace(&mut *link, Link::Down) {
                    *link = Link::Broken { _ring: ring, fault };
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
            }
            if fault.is_some() {
                self.queues.frontend.kick();
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
