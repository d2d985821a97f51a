// SPDX-License-Identifier: GPL-2.0

//! A ring: requests in, responses out, by a thread of its own.
//!
//! Everything that belongs to the ring is the thread's, so nothing here needs a lock. What the block
//! device is done with comes back through a mailbox, and is answered by the thread, many at once.
//!
//! A request that cannot be begun for want of something is *held*, and no other is taken from the ring
//! until it has been begun: so requests keep their order, and at most one is held.

mod intake;

use crate::{
    backend::Backend,
    disk::Disk,
    failure::Failure,
    job::{
        Held,
        Job,
        Kind,
        Wrong, //
    },
    mover::Mover,
    pressure,
    statistics::Counters,
    LOG_STATS, //
};
use kernel::{
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};
use xen::{
    blk::bio::{
        self,
        Mailbox, //
    },
    evtchn::RemoteChannel,
    io::blkif::{
        back::{
            Answer,
            Wire, //
        },
        Status, //
    },
    moderation::{
        settings::DEFAULT_PRIORITY,
        Backstop,
        HoldOff,
        Moderated,
        Polling,
        Setting,
        Settings, //
    },
    ring::{
        Back,
        Impossible,
        Notify, //
    },
    thread::{
        Current,
        Signal,
        Worker, //
    },
    work::NoIoScope,
    xenbus::MappedPages,
};

/// Requests that are begun before answers are looked for.
const BUDGET: usize = 32;

/// How long a request is held for want of memory or the like before it fails, in milliseconds. It does
/// not fail while others are under way: these will give back what it wants, however long it takes.
const PATIENCE: u64 = 30_000;

/// How often a held request is tried again, and pages that somebody still sends are looked at, in
/// milliseconds.
const RETRY: u32 = 10;

/// How often the disk's size, and what is kept in reserve, are looked at, in milliseconds.
const TIDY: u64 = 1_000;

/// How long a ring sleeps that has nothing to look at.
const LONG: u32 = 60_000;

/// How often statistics are printed, if they are to be, in milliseconds.
const PRINT: u64 = 10_000;

/// How long a ring is left alone after a request that makes no sense, in milliseconds.
const PENALTY: u32 = 1;

/// What the device's owner has of a ring, besides its thread.
pub(crate) struct Handle {
    /// The ring is to end.
    closing: Atomic<bool>,
    signal: Arc<Signal>,
}

impl Handle {
    pub(crate) fn new(signal: Arc<Signal>) -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                closing: Atomic::new(false),
                signal,
            },
            GFP_KERNEL,
        )?)
    }

    /// Has the ring end: it takes no request any more, and its thread ends once those under way are
    /// answered.
    pub(crate) fn close(&self) {
        self.closing.store(true, Release);
        self.wake();
    }

    /// Has the ring's thread look at everything.
    pub(crate) fn wake(&self) {
        self.signal.raise();
    }
}

/// What a ring is made of.
pub(crate) struct Parts<W: Wire> {
    pub(crate) channel: RemoteChannel,
    pub(crate) back: Back<W, MappedPages>,
    pub(crate) mover: Mover,
    pub(crate) mailbox: Arc<Mailbox<Job>>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) handle: Arc<Handle>,
    /// Its number.
    pub(crate) index: u32,
    /// What logs call it.
    pub(crate) name: CString,
}

/// A ring, as its thread has it.
///
/// Fields are dropped in this order: the channel first, then nobody wakes the thread any more; the
/// frontend's memory, of which nothing is mapped any more; and the ring's pages.
pub(crate) struct Ring<W: Wire> {
    parts: Parts<W>,
    backstop: Backstop<Signal>,
    held: Option<(Held, u64)>,
    /// A barrier is under way: nothing that came after it may begin.
    barrier: bool,
    /// Transfers that the block device has.
    under_way: usize,
    /// Transfers that are being dealt with.
    done: KVec<KBox<bio::Transfer<Job>>>,
    /// Transfers that are done, but somebody still sends their pages.
    lingering: KVec<KBox<bio::Transfer<Job>>>,
    /// Answers to be given once what they are about is unmapped.
    answers: KVec<Answer>,
    /// The frontend has broken the protocol.
    broken: bool,
    /// It was said that a request makes no sense.
    complained: bool,
    /// A request made no sense since the thread last slept.
    penalty: bool,
    /// What is set of events, as of this round.
    settings: Settings,
    priority: u32,
    polling: Polling,
    hold_off: HoldOff,
    /// With which request the next event comes, as of when the thread last slept.
    ahead: u32,
    /// The timer came first.
    expired: bool,
    /// Requests taken since then.
    taken: u32,
    /// ... and how many were without an answer at once, at most.
    depth: u32,
    /// Since when there has been no request, in nanoseconds since the machine was started, if there
    /// is none.
    idle: Option<u64>,
    /// Requests were found since the last event was ended.
    found: bool,
    /// Requests were found before their event came, which will find nothing but was not sent for
    /// nothing.
    found_ahead: bool,
    /// Requests were found since the ring was last tidied up.
    busy: bool,
    tidied: u64,
    printed: u64,
    /// The time, as of this round.
    now: u64,
}

impl<W: Wire + 'static> Ring<W> {
    /// Makes a ring of its parts.
    pub(crate) fn new(parts: Parts<W>) -> Result<Self> {
        // No more requests can be without their answers.
        let most = parts.back.entries() as usize;
        Ok(Self {
            backstop: Backstop::new(parts.handle.signal.clone())?,
            settings: parts.backend.live().settings(),
            priority: DEFAULT_PRIORITY,
            hold_off: HoldOff::new(),
            ahead: 1,
            expired: false,
            taken: 0,
            depth: 0,
            held: None,
            barrier: false,
            under_way: 0,
            done: KVec::with_capacity(most, GFP_KERNEL)?,
            lingering: KVec::with_capacity(most, GFP_KERNEL)?,
            answers: KVec::with_capacity(most, GFP_KERNEL)?,
            broken: false,
            complained: false,
            penalty: false,
            polling: Polling::new(),
            idle: None,
            found: false,
            found_ahead: false,
            busy: false,
            tidied: pressure::now(),
            printed: pressure::now(),
            now: pressure::now(),
            parts,
        })
    }

    fn is_closing(&self) -> bool {
        self.parts.handle.closing.load(Acquire)
    }

    /// Whether no request is under way whose end would give something back.
    fn is_alone(&self) -> bool {
        self.under_way == 0 && self.lingering.is_empty()
    }

    /// Does what there is to do, and sleeps if there is nothing. Says whether to come again.
    fn round(&mut self, thread: &Current<'_>) -> bool {
        thread.signal().take();
        self.now = pressure::now();
        self.look_at_settings();
        // Asked each time: a thread that does not know that it is to stop does not sleep.
        let stop = thread.should_stop();
        let closing = stop || self.is_closing();
        let mut worked = self.collect();
        if !closing {
            worked |= self.serve();
            // A device that is done at once is answered at once.
            if self.parts.mailbox.has_mail() {
                worked |= self.collect();
            }
        }
        self.publish();
        self.tidy(thread);
        if closing && self.is_alone() {
            return false;
        }
        if self.penalty {
            self.penalty = false;
            // What the frontend does with its time is its own affair.
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(PENALTY.into()));
        }
        if worked {
            thread.yield_now();
            return true;
        }
        if !closing && !self.broken && !self.barrier && self.held.is_none() {
            if self.poll(thread) {
                return true;
            }
            match self.ask() {
                Ok(true) => return true,
                Ok(false) => {}
                Err(impossible) => self.break_off(impossible),
            }
        } else {
            // Whatever it waits for wakes the thread.
            self.ahead = 1;
        }
        self.end_event();
        thread.sleep(self.rest());
        if self.ahead > 1 {
            self.expired |= self.backstop.release();
        }
        true
    }

    /// Asks for an event with one of the next requests. Says whether there are enough of them already.
    fn ask(&mut self) -> Result<bool, Impossible> {
        let taken = core::mem::replace(&mut self.taken, 0);
        let depth = core::mem::replace(&mut self.depth, 0);
        let expired = core::mem::replace(&mut self.expired, false);
        if taken > 0 {
            if expired {
                self.parts.counters.events_expired.add(1);
                self.hold_off.expired(taken);
            } else {
                self.hold_off.learn(depth);
            }
            self.parts.counters.count_batch(taken);
        } else if expired {
            self.hold_off.idle();
        }
        // The ring has no room for more requests than that, so half of them must do.
        let room = self.parts.back.entries() - self.parts.back.unanswered();
        let most = (room / 2).max(1);
        // If the timer has found none, the next one is worth an event. If the thread was woken by the
        // block device, events are held off as before.
        self.ahead = if taken > 0 || self.ahead > 1 && !expired {
            self.hold_off.ahead(&self.settings).min(most)
        } else {
            1
        };
        if self.ahead > 1 {
            self.backstop.hold(self.settings.nanoseconds());
        }
        let enough = self.parts.back.wait_for_requests_beyond(self.ahead - 1)?;
        if enough {
            self.backstop.release();
        } else {
            self.parts
                .counters
                .events_held
                .add(u64::from(self.ahead > 1));
        }
        Ok(enough)
    }

    /// Sees what is set of events.
    fn look_at_settings(&mut self) {
        let live = self.parts.backend.live();
        self.settings = live.settings();
        let priority = live.get(Setting::Priority);
        if priority == self.priority {
            return;
        }
        self.priority = priority;
        if let Err(errno) = self.parts.channel.set_priority(priority) {
            pr_warn!(
                "({}): events have no priorities here, error {}\n",
                *self.parts.name,
                errno.to_errno()
            );
        }
    }

    /// How long to sleep if nobody wakes the thread, in milliseconds.
    fn rest(&self) -> u32 {
        let waits_for_others =
            matches!(self.held, Some((Held::Memory(_) | Held::Descriptors(_), _)));
        if waits_for_others || !self.lingering.is_empty() {
            return RETRY;
        }
        // The first ring watches over the disk's size.
        if self.parts.index == 0 || self.parts.mover.has_spare() {
            // CAST: 1000.
            return TIDY as u32;
        }
        LONG
    }

    /// Looks for something to do for some time before the thread sleeps.
    fn poll(&mut self, thread: &Current<'_>) -> bool {
        let begun = *self.idle.get_or_insert_with(xen::thread::now);
        let span = self.polling.span(self.settings.poll_nanoseconds());
        if span == 0 {
            return false;
        }
        let end = begun.saturating_add(span);
        if xen::thread::now() >= end {
            return false;
        }
        loop {
            let found = match self.parts.back.has_requests() {
                Ok(found) => found || thread.signal().is_raised(),
                Err(impossible) => {
                    self.break_off(impossible);
                    return true;
                }
            };
            if found {
                self.parts.counters.poll_hits.add(1);
                return true;
            }
            if thread.should_stop() {
                return true;
            }
            if xen::thread::now() >= end || thread.should_yield() {
                self.parts.counters.poll_misses.add(1);
                return false;
            }
            thread.relax();
        }
    }

    /// Lets the next event come, if one is owed that.
    fn end_event(&mut self) {
        // A frontend that breaks the protocol is not listened to any more.
        if self.broken {
            return;
        }
        if self.parts.channel.is_owed() {
            let nothing = !self.found && self.held.is_none();
            let spurious = nothing && !core::mem::replace(&mut self.found_ahead, false);
            self.found = false;
            self.parts.counters.events.add(1);
            self.parts.channel.end(spurious);
        } else if core::mem::replace(&mut self.found, false) {
            self.found_ahead = true;
        }
    }

    /// Deals with the transfers that are done. Says whether there was one.
    fn collect(&mut self) -> bool {
        // There is room in `done` for as many as the ring has requests.
        let mut done = core::mem::take(&mut self.done);
        for transfer in self.lingering.drain_all() {
            let _ = done.push_within_capacity(transfer);
        }
        let lingering = done.len();
        for transfer in self.parts.mailbox.take() {
            let _ = done.push_within_capacity(transfer);
        }
        self.under_way = self.under_way.saturating_sub(done.len() - lingering);
        let mut worked = done.len() > lingering;
        // What was read is brought to the frontend all at once. If that does not work, it is one by one,
        // to know whose fault it is.
        let read = done.iter().filter(|transfer| has_data(transfer));
        let delivered = self
            .parts
            .mover
            .deliver(read.map(|transfer| &**transfer))
            .is_ok();
        for transfer in done.drain_all() {
            worked |= self.settle(transfer, delivered);
        }
        self.done = done;
        // A frame must not be answered for before it is unmapped.
        self.parts.mover.unmap_returned();
        for index in 0..self.answers.len() {
            if let Some(answer) = self.answers.get(index).copied() {
                self.answer(answer);
            }
        }
        self.answers.clear();
        worked
    }

    /// Deals with a transfer that is done. `delivered` says that what it has read is with the frontend.
    /// Says whether it is over.
    fn settle(&mut self, mut transfer: KBox<bio::Transfer<Job>>, delivered: bool) -> bool {
        let lingers = transfer.parts.iter().any(|part| {
            !part.keep
                && matches!(&part.buffer, bio::Buffer::Mapped(mapping) if mapping.is_shared())
        });
        if lingers {
            // There is room for as many as the ring has requests.
            let _ = self.lingering.push_within_capacity(transfer);
            return false;
        }
        let job = transfer.data;
        let mut status = match transfer.status() {
            bio::Status::Okay => Status::Okay,
            bio::Status::IoError => Status::Error,
            bio::Status::NotSupported => match job.kind {
                Kind::Flush | Kind::Barrier => {
                    self.parts.backend.flush_lost(&self.parts.disk);
                    Status::NotSupported
                }
                Kind::Discard => Status::NotSupported,
                Kind::Read | Kind::Write => Status::Error,
            },
        };
        if has_data(&transfer) && !delivered {
            if let Err(trouble) = self.parts.mover.deliver([&*transfer]) {
                self.complain(&Wrong::Trouble(trouble));
                status = Status::Error;
            }
        }
        self.parts.mover.unload(&mut transfer, self.now);
        if job.kind == Kind::Barrier {
            self.barrier = false;
        }
        if status != Status::Okay {
            self.parts.counters.err_req.add(1);
        }
        // There is room for as many as the ring has requests.
        let _ = self.answers.push_within_capacity(Answer {
            id: job.id,
            operation: job.operation,
            status,
        });
        true
    }

    /// Answers a request, which the frontend does not see yet.
    fn answer(&mut self, answer: Answer) {
        // There is a request for it: each is answered once.
        let _ = self.parts.back.respond(&W::response(answer));
    }

    /// Answers a request that cannot be done.
    fn refuse(&mut self, answer: Answer, wrong: Wrong) {
        self.complain(&wrong);
        self.penalty = true;
        self.parts.counters.err_req.add(1);
        self.answer(answer);
    }

    /// Says once what is wrong with a request.
    fn complain(&mut self, wrong: &Wrong) {
        if core::mem::replace(&mut self.complained, true) {
            return;
        }
        pr_warn!(
            "({}): request refused: {wrong}; later ones are counted in err_req only\n",
            *self.parts.name
        );
    }

    /// Shows the frontend the answers given, and wakes it if it wants to be.
    fn publish(&mut self) {
        if self.parts.back.push() == Notify::Needed {
            self.parts.counters.notifications.add(1);
            self.parts.channel.notify();
        }
    }

    /// The frontend has broken the protocol.
    fn break_off(&mut self, impossible: Impossible) {
        if core::mem::replace(&mut self.broken, true) {
            return;
        }
        let Impossible {
            produced, consumed, ..
        } = impossible;
        pr_warn!(
            "Frontend provided bogus ring requests ({} - {} = {}). Halting ring processing on dev={}\n",
            produced.raw(),
            consumed.raw(),
            produced.since(consumed),
            self.parts.disk.number
        );
        self.parts.backend.fail(Failure::Ring(impossible));
    }

    /// Looks after the disk's size and what is kept in reserve, from time to time.
    fn tidy(&mut self, _thread: &Current<'_>) {
        if self.now.saturating_sub(self.tidied) < TIDY {
            return;
        }
        let before = core::mem::replace(&mut self.tidied, self.now);
        let idle = !core::mem::replace(&mut self.busy, false);
        self.parts.mover.tidy(before, self.now, idle);
        if self.parts.index == 0 {
            self.parts.backend.look_after(&self.parts.disk);
        }
        if LOG_STATS.get() != 0 && self.now.saturating_sub(self.printed) >= PRINT {
            self.printed = self.now;
            self.print();
        }
    }

    fn print(&self) {
        let counters = &self.parts.counters;
        let (count, most) = self.parts.mover.persistent();
        pr_info!(
            "({}): oo {:3}  |  rd {:4}  |  wr {:4}  |  f {:4}  |  ds {:4} | pg: {:4}/{}\n",
            *self.parts.name,
            counters.oo_req.get(),
            counters.rd_req.get(),
            counters.wr_req.get(),
            counters.f_req.get(),
            counters.ds_req.get(),
            count,
            most
        );
    }
}

/// Whether a transfer has read something.
fn has_data(transfer: &bio::Transfer<Job>) -> bool {
    transfer.data.kind == Kind::Read && transfer.status() == bio::Status::Okay
}

impl<W: Wire + 'static> Worker for Ring<W> {
    fn run(mut self, thread: &Current<'_>) {
        // What this thread allocates must not have to be written to a disk first, least of all to one of
        // those that it serves.
        let _scope = NoIoScope::new();
        while self.round(thread) {}
        self.parts.mover.clear();
    }
}
