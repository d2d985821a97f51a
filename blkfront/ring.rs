// SPDX-License-Identifier: GPL-2.0

//! A connected ring: requests in, responses out.
//!
//! Each request in flight has a place in the ring's table, whose number is its id on the wire. The
//! table says which ids the backend may answer; only what is in the table is ever completed, and
//! taking it out is what gives the right to complete it.

use crate::{
    features::{
        Flush,
        RingLimits, //
    },
    frontend::Failure,
    queue::{
        Queues,
        RingEvents, //
    },
    Blkfront, //
};
use core::fmt;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
};
use xen::{
    blk::mq::{
        Op,
        Request,
        Status, //
    },
    evtchn::Channel,
    grant::{
        Access,
        BouncePage,
        BouncePool,
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

/// How long to wait between two looks whether the backend has let go of all pages, in milliseconds,
/// and how many looks that is worth.
const UNMAP_INTERVAL: i64 = 10;
pub(crate) const UNMAP_PATIENCE: u32 = 300;

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

/// A piece of a request's memory that the backend may use.
#[derive(Default)]
struct Lent {
    grant: Option<Grant>,
    /// What was granted in place of the memory.
    bounce: Option<BouncePage>,
}

/// All pieces of one request.
#[derive(Default)]
struct Loan {
    list: [Lent; blkif::MAX_SEGMENTS],
    used: usize,
}

impl Loan {
    /// Keeps a piece; [`false`] if there are as many as a request can have.
    #[must_use]
    fn push(&mut self, lent: Lent) -> bool {
        match self.list.get_mut(self.used) {
            Some(place) => {
                *place = lent;
                self.used += 1;
                true
            }
            None => false,
        }
    }

    fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Ends the backend's access to all pieces. All of them, even if it turns out to have one still
    /// mapped.
    fn end(&mut self, reserve: &mut Reserve) -> Result<(), StillMapped> {
        let mut result = Ok(());
        for lent in self.list.iter_mut().take(self.used) {
            if let Some(grant) = lent.grant.take() {
                result = reserve.end(grant).and(result);
            }
        }
        result
    }

    /// Ends the backend's access to those pieces that it has not mapped, and says whether that is
    /// all.
    fn try_end(&mut self) -> bool {
        let mut all = true;
        for lent in self.list.iter_mut().take(self.used) {
            if let Some(grant) = lent.grant.take() {
                lent.grant = grant.try_end().err();
                all &= lent.grant.is_none();
            }
        }
        all
    }

    /// Gives the pages back to the pool. A grant that is left is parked.
    fn clear(&mut self, pool: &mut BouncePool) {
        for lent in self.list.iter_mut().take(self.used) {
            let Lent { grant, bounce } = core::mem::take(lent);
            match (grant, bounce) {
                (None, Some(page)) => pool.give(page),
                // Not to be used again while it is mapped.
                (Some(grant), page) => {
                    drop(grant);
                    drop(page);
                }
                (None, None) => {}
            }
        }
        self.used = 0;
    }
}

/// This driver's part of a request.
#[derive(Default)]
pub(crate) struct Command {
    /// What was sent to the backend for it.
    operation: u8,
    loan: Loan,
    /// Data that must be durable was written to a backend which must be told to flush for that.
    flush_next: bool,
    /// ... and it is written; see [`Request::is_prepared`].
    flush_now: bool,
}

/// What is to become of a request once the lock is let go.
enum Verdict {
    End(Status),
    /// It must be sent again, in another way.
    Requeue,
}

/// Requests that have their responses.
pub(crate) struct Finished {
    list: [Option<(Request<Blkfront>, Verdict)>; BATCH],
    used: usize,
}

impl Finished {
    pub(crate) fn new() -> Self {
        Self {
            list: [const { None }; BATCH],
            used: 0,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.used
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
    pub(crate) fn complete(&mut self) {
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
pub(crate) enum Sent {
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
    pool: BouncePool,
    front: Front<Blkif, GrantedPages>,
    domain: u16,
    handle: u16,
    /// The backend is to see nothing but the data: no page is granted that has anything else.
    untrusted: bool,
    /// Tags that a hardware queue has.
    depth: usize,
    /// This is the ring of every hardware queue whose number modulo `rings` is `index`.
    index: u32,
    rings: u32,
    /// The backend has connected: requests may be sent.
    open: bool,
    /// How data is made durable. The backend may turn out not to do what it offered.
    flush: Flush,
    /// Responses came in while their event was being handled. The events they were sent with will
    /// find nothing to do, but were not sent for nothing.
    reaped_ahead: bool,
    /// A barrier has been answered with success.
    barrier_works: bool,
}

impl Ring {
    /// Makes ring number `index`, with the event channel that goes with it.
    pub(crate) fn new(
        dev: &DeviceRef,
        queues: &Arc<Queues>,
        index: u32,
        limits: RingLimits,
        untrusted: bool,
    ) -> Result<Self, Failure> {
        let pages = GrantedPages::new(dev, limits.order)
            .map_err(|errno| Failure::Errno("granting a ring", errno))?;
        let front = Front::<Blkif, _>::new(pages)
            .map_err(|_| Failure::Errno("ring without slots", EINVAL))?;

        // As many references as can be in use at once, if there are. With those of one request the
        // ring can always make progress, for the requests in flight give theirs back.
        let least = blkif::MAX_SEGMENTS;
        let wanted = least.saturating_mul(front.entries() as usize);
        // CAST: 11 times the number of slots of the largest ring, 512, is less than 2^16.
        let reserve = Reserve::new(wanted as u16, least as u16)
            .map_err(|errno| Failure::Errno("reserving grant references", errno))?;
        if (reserve.free() as usize) < wanted {
            dev_warn!(
                dev.as_ref(),
                "only {} of {wanted} grant references left for a ring: it will be slower, consider a larger max_grant_frames\n",
                reserve.free()
            );
        }

        // A ring needs these for few requests, if at all, unless the backend is not trusted.
        let most = if untrusted { wanted } else { least };
        let pool = BouncePool::new(least, most)
            .map_err(|errno| Failure::Errno("allocating bounce pages", errno))?;

        let depth = queues.depth() as usize;
        let shares = queues.count().div_ceil(limits.queues.max(1)) as usize;
        let places = depth.saturating_mul(shares);
        let mut in_flight = KVec::with_capacity(places, GFP_KERNEL)?;
        for _ in 0..places {
            in_flight.push(None, GFP_KERNEL)?;
        }

        let events = Arc::new(RingEvents::new(queues.clone(), index), GFP_KERNEL)?;
        let channel = Channel::new(dev, c"blkif", events)
            .map_err(|errno| Failure::Errno("allocating an event channel", errno))?;

        Ok(Self {
            channel,
            in_flight,
            reserve,
            pool,
            front,
            untrusted,
            domain: dev.otherend_id(),
            handle: queues.handle(),
            depth,
            index,
            rings: limits.queues,
            open: false,
            flush: Flush::None,
            reaped_ahead: false,
            barrier_works: false,
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

    /// The backend has connected and makes data durable like this.
    pub(crate) fn open(&mut self, flush: Flush) {
        self.open = true;
        self.flush = flush;
    }

    /// Whether the backend is to see nothing but the data.
    pub(crate) fn is_untrusted(&self) -> bool {
        self.untrusted
    }

    /// How data is made durable.
    pub(crate) fn flush(&self) -> Flush {
        self.flush
    }

    /// Notes whether responses came in while their event was being handled, and says whether some
    /// had before.
    pub(crate) fn reaped_ahead(&mut self, now: bool) -> bool {
        core::mem::replace(&mut self.reaped_ahead, now)
    }

    /// Publishes what has been filled in.
    pub(crate) fn push(&mut self) {
        if self.front.push() == Notify::Needed {
            self.channel.notify();
        }
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

    /// Fills in a request of a hardware queue.
    pub(crate) fn send(&mut self, queue: u32, mut request: Request<Blkfront>) -> Sent {
        if !self.open {
            return Sent::Busy(request);
        }
        let Some(place) = self.place(queue, request.tag()) else {
            return Sent::Busy(request);
        };
        if !matches!(self.in_flight.get(place), Some(None)) {
            return Sent::Done(request, Status::IoError);
        }

        let flush_now = request.is_prepared() && request.data().flush_now;
        let op = if flush_now { Op::Flush } else { request.op() };
        let mut flush_next = false;
        let operation = match (op, self.flush) {
            (Op::Read, _) => Operation::Read,
            (Op::Write { fua: true }, Flush::Barrier) => Operation::WriteBarrier,
            // The backend could do barriers when the block layer began this, but not now.
            (Op::Write { fua: true }, Flush::Diskcache) => {
                flush_next = true;
                Operation::Write
            }
            (Op::Write { .. }, _) => Operation::Write,
            (Op::Flush, Flush::Diskcache) => Operation::FlushDiskcache,
            (Op::Flush, Flush::Barrier) => Operation::WriteBarrier,
            (Op::Flush, Flush::None) => return Sent::Done(request, Status::Okay),
            (Op::Other, _) => return Sent::Done(request, Status::NotSupported),
        };
        // CAST: `usize` fits into `u64` on every machine that runs Linux.
        let mut wire = blkif::Request::new(operation, self.handle, place as u64, request.sector());
        let mut loan = Loan::default();
        let problem = match flush_now {
            true => Ok(()),
            false => self.lend(&request, operation, &mut wire, &mut loan),
        };
        let slot = problem.is_ok().then(|| self.front.reserve()).flatten();
        let Some(slot) = slot else {
            // Nobody has been told of these references, so they can be ended.
            let _ = loan.end(&mut self.reserve);
            loan.clear(&mut self.pool);
            return match problem {
                // The limits given to the block layer rule this out, but for a disk whose sectors
                // have grown meanwhile.
                Err(Problem::Unsuitable) => Sent::Done(request, Status::IoError),
                Err(Problem::Short) | Ok(()) => {
                    self.push();
                    Sent::Busy(request)
                }
            };
        };
        slot.fill(&wire);
        let command = request.data_mut();
        command.operation = wire.operation();
        command.loan = loan;
        command.flush_next = flush_next;
        command.flush_now = false;
        if let Some(place) = self.in_flight.get_mut(place) {
            *place = Some(request);
        }
        Sent::InFlight
    }

    /// Grants a request's memory, piece by piece, and writes that into the request for the ring.
    fn lend(
        &mut self,
        request: &Request<Blkfront>,
        operation: Operation,
        wire: &mut blkif::Request,
        loan: &mut Loan,
    ) -> Result<(), Problem> {
        let read = operation == Operation::Read;
        let access = if read {
            Access::ReadWrite
        } else {
            Access::ReadOnly
        };
        for memory in request.pieces() {
            let mut lent = Lent::default();
            let held = if self.untrusted { None } else { memory.held() };
            lent.grant = match held {
                Some(held) => self.reserve.grant(self.domain, &held, access),
                None => {
                    let mut page = self.pool.take().ok_or(Problem::Short)?;
                    if !read {
                        memory.copy_to(&mut page);
                    }
                    let page = lent.bounce.insert(page);
                    self.reserve.grant(self.domain, page, access)
                }
            };
            let gref = lent.grant.as_ref().map(Grant::gref);
            if !loan.push(lent) {
                return Err(Problem::Unsuitable);
            }
            let segment = blkif::Segment::new(
                gref.ok_or(Problem::Short)?,
                memory.offset(),
                memory.length(),
            );
            if !segment.is_some_and(|segment| wire.push_segment(segment)) {
                return Err(Problem::Unsuitable);
            }
        }
        Ok(())
    }

    /// Takes responses until there are none, or `finished` is full. Says whether to come again.
    pub(crate) fn reap(&mut self, finished: &mut Finished) -> Result<bool, Fault> {
        while !finished.is_full() {
            let Some(response) = self.front.next_response().map_err(Fault::Producer)? else {
                return self.front.wait_for_responses().map_err(Fault::Producer);
            };
            let place = usize::try_from(response.id)
                .ok()
                .and_then(|id| self.in_flight.get_mut(id));
            let Some(mut request) = place.and_then(Option::take) else {
                return Err(Fault::Id(response.id));
            };

            let command = request.data_mut();
            let asked = command.operation;
            let has_data = !command.loan.is_empty();
            let ended = command.loan.end(&mut self.reserve);
            let status = blkif::Status::from_wire(response.status);
            let verdict = if asked != response.operation || ended.is_err() {
                // What the backend did with the data is anybody's guess.
                Verdict::End(Status::IoError)
            } else {
                if asked == Operation::Read as u8 && status == blkif::Status::Okay {
                    // The backend cannot change it any more.
                    for (memory, lent) in request.pieces().zip(&request.data().loan.list) {
                        if let Some(page) = &lent.bounce {
                            memory.copy_from(page);
                        }
                    }
                }
                self.judge(&mut request, has_data, status)
            };
            request.data_mut().loan.clear(&mut self.pool);
            finished.push(request, verdict);
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

    /// What a response means for the request.
    fn judge(
        &mut self,
        request: &mut Request<Blkfront>,
        has_data: bool,
        status: blkif::Status,
    ) -> Verdict {
        let command = request.data_mut();
        let barrier = command.operation == Operation::WriteBarrier as u8;
        let flush = command.operation == Operation::FlushDiskcache as u8;
        let refused = match status {
            blkif::Status::Okay => {
                self.barrier_works |= barrier;
                if !command.flush_next {
                    return Verdict::End(Status::Okay);
                }
                command.flush_now = true;
                request.mark_prepared();
                return Verdict::Requeue;
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

    /// Gives the requests in flight back to the block layer, to be sent again by another ring. The
    /// backend of this one is no more, and so is whatever it had mapped. Not under a queue's lock.
    pub(crate) fn give_back(mut self) {
        for place in &mut self.in_flight {
            if let Some(mut request) = place.take() {
                // A flush that followed a write goes again as the write and the flush.
                let loan = &mut request.data_mut().loan;
                loan.try_end();
                loan.clear(&mut self.pool);
                request.requeue();
            }
        }
    }

    /// Ends the requests in flight with an error, once the backend has let go of their pages. One that
    /// is just being taken down does so soon; until then it could still write into memory whose
    /// request has ended. Looks as often as `patience` says, with [`UNMAP_INTERVAL`] in between.
    ///
    /// Process context, and not under a queue's lock.
    pub(crate) fn close(mut self, patience: &mut u32) {
        let mut left = self.fail_unmapped();
        while left > 0 && *patience > 0 {
            *patience -= 1;
            fsleep(Delta::from_millis(UNMAP_INTERVAL));
            left = self.fail_unmapped();
        }
        if left > 0 {
            pr_warn!(
                "the backend keeps pages of {left} requests mapped: they end with an error, and the pages stay reserved\n"
            );
        }
    }

    /// Ends those requests with an error that the backend has no page of any more. Says how many are
    /// left.
    fn fail_unmapped(&mut self) -> usize {
        let mut left = 0;
        for place in &mut self.in_flight {
            if let Some(request) = place {
                if !request.data_mut().loan.try_end() {
                    left += 1;
                    continue;
                }
            }
            if let Some(mut request) = place.take() {
                request.data_mut().loan.clear(&mut self.pool);
                request.end(Status::IoError);
            }
        }
        left
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The channel is still there, but the link is down, so its handler does nothing. What the
        // backend still has mapped is parked.
        for place in &mut self.in_flight {
            if let Some(mut request) = place.take() {
                request.data_mut().loan.clear(&mut self.pool);
                request.end(Status::IoError);
            }
        }
    }
}

/// Why a request could not be filled in.
#[derive(Clone, Copy)]
enum Problem {
    /// There is no reference or no page left.
    Short,
    /// It does not fit.
    Unsuitable,
}
