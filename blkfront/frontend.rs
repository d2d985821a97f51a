// SPDX-License-Identifier: GPL-2.0

//! A device from its appearance to its removal.
//!
//! The bus tells of every change on one thread that serves all devices of the guest. Little is done
//! there but to take note: most changes are made by work of the device's own, one at a time, because
//! they may have to wait for the backend, which another device's must not.
//!
//! What may wait for the backend can always be cut short: [`Frontend::unbind`] cuts the connection, if
//! it has to, without taking the lock that the work holds.

use crate::{
    connection,
    fault::{
        Failure,
        Fault, //
    },
    identity::{
        identify,
        Identity, //
    },
    live::Live,
    number::DiskNumber,
    queues::Queues,
    traffic::Remains,
    POLL_QUEUES,
    REQUEST_TIMEOUT,
    WORK, //
};
use core::ffi::CStr;
use kernel::{
    device, new_delayed_work, new_mutex, new_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        impl_has_delayed_work,
        impl_has_work,
        DelayedWork,
        Work,
        WorkItem, //
    },
};
use xen::{
    io::blkif,
    work::{
        self,
        Completion,
        NoIoScope, //
    },
    xenbus::{
        self,
        DeviceRef,
        Peer,
        State, //
    },
};

/// How long a device that is to go waits for the requests in flight, in milliseconds.
const PATIENCE: u32 = 30_000;

/// How often references and pages are given back that have not been needed since, in milliseconds.
const TRIM_INTERVAL: u32 = 10_000;

/// What there is of the disk.
enum Life {
    /// Nothing yet.
    Waiting(Identity),
    /// The rings are announced.
    Announced(Arc<Queues>),
    /// The disk is there.
    Live(Live),
    /// Nothing any more.
    Over,
}

/// A device.
#[pin_data]
pub(crate) struct Frontend {
    dev: DeviceRef,
    #[pin]
    peer: Mutex<Peer>,
    /// What the backend has broken the protocol by.
    #[pin]
    fault: Mutex<Option<(DiskNumber, Fault)>>,
    /// The connection has been cut.
    severed: Atomic<bool>,
    /// It had another driver before, whose connection the backend may still have to end.
    anew: bool,
    /// The disk may be used.
    ready: Atomic<bool>,
    /// The device is losing its driver.
    leaving: Atomic<bool>,
    /// ... and everything that it was has gone.
    #[pin]
    left: Completion,

    #[pin]
    life: Mutex<Life>,
    /// The queues of `life`, for those who must not wait for its lock.
    #[pin]
    queues: Mutex<Option<Arc<Queues>>>,
    /// What the backend may have mapped as long as it is connected.
    #[pin]
    remains: Mutex<KVec<Remains>>,

    /// Brings the device to where it should be.
    #[pin]
    work: Work<Frontend, ADVANCE>,
    /// Cuts the connection, which `work` may be waiting for.
    #[pin]
    cutter: Work<Frontend, SEVER>,
    /// Gives back what the queues have not needed for a while.
    #[pin]
    trimmer: DelayedWork<Frontend, TRIM>,
    /// Gives the disk up that waits for a backend after a restore, if it is to.
    #[pin]
    expiry: DelayedWork<Frontend, EXPIRE>,
}

const ADVANCE: u64 = 0;
const SEVER: u64 = 1;
const TRIM: u64 = 2;
const EXPIRE: u64 = 3;

impl_has_work! {
    impl HasWork<Self, 0> for Frontend { self.work }
    impl HasWork<Self, 1> for Frontend { self.cutter }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, 2> for Frontend { self.trimmer }
    impl HasDelayedWork<Self, 3> for Frontend { self.expiry }
}

impl WorkItem<ADVANCE> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIoScope::new();
        this.advance();
    }
}

impl WorkItem<SEVER> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIoScope::new();
        let queues = this.queues.lock().clone();
        if let Some(queues) = queues {
            if let Some(fault) = queues.fault() {
                *this.fault.lock() = Some((queues.number(), fault));
                this.cut();
            }
        }
        let peer = this.peer.lock().clone();
        if peer.has_gone() {
            this.cut();
        }
        this.kick();
    }
}

impl WorkItem<TRIM> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let queues = this.queues.lock().clone();
        if queues.is_some_and(|queues| queues.trim()) {
            this.trim_later();
        }
    }
}

impl WorkItem<EXPIRE> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let _scope = NoIoScope::new();
        let mut life = this.life.lock();
        let waits = matches!(&*life, Life::Live(live) if live.is_waiting());
        let timeout = REQUEST_TIMEOUT.get();
        // The user may have taken it back meanwhile.
        if waits && timeout != 0 && !this.leaving.load(Acquire) {
            this.dev.fatal(
                ETIMEDOUT,
                fmt!("no backend has connected within {timeout} s of the restore"),
            );
            this.hang_up(&mut life);
        }
    }
}

impl Frontend {
    /// A device has appeared.
    pub(crate) fn new(dev: &xenbus::Device<device::Core<'_>>) -> Result<Arc<Self>> {
        let life = match identify(dev) {
            Ok(identity) => Life::Waiting(identity),
            // It is for somebody else.
            Err(Failure::Errno(_, errno)) if errno == ENODEV => return Err(errno),
            // With a driver the device can say so, and be detached in good order.
            Err(failure) => {
                dev.fatal(failure.errno(), fmt!("{failure}"));
                Life::Over
            }
        };
        let peer = dev.with_otherend(Peer::new)?;
        // Of a device that has lost its driver before, the backend waits for this.
        let anew = matches!(life, Life::Waiting(_)) && dev.state() != State::Initialising;
        if anew {
            dev.switch_state(State::Initialising);
        }
        Arc::pin_init(
            pin_init!(Self {
                dev: DeviceRef::from(dev),
                peer <- new_mutex!(peer),
                fault <- new_mutex!(None),
                severed: Atomic::new(false),
                anew,
                ready: Atomic::new(false),
                leaving: Atomic::new(false),
                left <- Completion::new(),
                life <- new_mutex!(life),
                queues <- new_mutex!(None),
                remains <- new_mutex!(KVec::new()),
                work <- new_work!("blkfront::Frontend::work"),
                cutter <- new_work!("blkfront::Frontend::cutter"),
                trimmer <- new_delayed_work!("blkfront::Frontend::trimmer"),
                expiry <- new_delayed_work!("blkfront::Frontend::expiry"),
            }),
            GFP_KERNEL,
        )
    }

    /// The device.
    pub(crate) fn device(&self) -> &DeviceRef {
        &self.dev
    }

    /// Whether the disk may be used.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Acquire)
    }

    /// The backend has written its state.
    pub(crate) fn otherend_changed(
        self: &Arc<Self>,
        dev: &xenbus::Device<device::Bound>,
        state: State,
    ) {
        let _scope = NoIoScope::new();
        let peer = {
            let mut peer = self.peer.lock();
            peer.state = state;
            if let Err(errno) = dev.with_otherend(|dir| peer.follow(dir)) {
                dev.error(errno, fmt!("following the backend"));
            }
            peer.clone()
        };
        match (dev.state(), state) {
            (State::Initialising, _) => self.begin(&peer),
            // The work may be waiting for a backend that has gone.
            (_, State::Closed | State::Unknown) => self.sever(),
            _ => {}
        }
        self.kick();
    }

    /// The steps from the first state on.
    ///
    /// They are the only ones done on the bus' thread: when it finds that state in xenstore but
    /// another one here, as it could if the state changed meanwhile, it takes the device for one that
    /// was replaced. Nothing here waits for the backend, or for the disk's users: what is left to do
    /// is the work's.
    fn begin(self: &Arc<Self>, peer: &Peer) {
        let mut life = self.life.lock();
        match peer.state {
            // With `Connected` the backend was faster than the bus.
            State::InitWait | State::Connected => match self.announce(&mut life, &peer.dir) {
                Ok(()) => {}
                Err(failure) => self.dev.fatal(failure.errno(), fmt!("{failure}")),
            },
            // That may be what is left of an earlier driver's connection: with a device that is to stay
            // the backend begins anew. Otherwise it has failed, and nobody is to wait for the disk.
            State::Closing | State::Closed => {
                if !self.anew || !peer.is_to_stay() {
                    self.dev.frontend_closed();
                }
            }
            State::Unknown
            | State::Initialising
            | State::Initialised
            | State::Reconfiguring
            | State::Reconfigured => {}
        }
    }

    /// Has the device's work look at everything again. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, ADVANCE>(self.clone());
    }

    /// Has the connection cut if there is reason to. Any context.
    pub(crate) fn sever(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, SEVER>(self.clone());
    }

    /// Has the queues give back, in some time, what they have not needed until then. Any context.
    pub(crate) fn trim_later(self: &Arc<Self>) {
        WORK.enqueue_delayed::<Arc<Self>, TRIM>(self.clone(), TRIM_INTERVAL);
    }

    /// The guest has been restored: the backend is another one. What was in flight is sent again once
    /// that has connected, which the device's work sees to. The work stands still now.
    pub(crate) fn resume(self: &Arc<Self>, dev: &xenbus::Device<device::Bound>) -> Result {
        let _scope = NoIoScope::new();
        // Requests that wait are not begun, so that none of them can run out of time.
        work::cancel_delayed::<Self, EXPIRE>(self);
        let timeout = REQUEST_TIMEOUT.get();
        if timeout != 0 {
            let milliseconds = timeout.saturating_mul(1000);
            WORK.enqueue_delayed::<Arc<Self>, EXPIRE>(self.clone(), milliseconds);
        }
        let mut life = self.life.lock();
        match &mut *life {
            Life::Live(live) => {
                live.wait();
                let queues = self.queues.lock().clone();
                if let Some(queues) = queues {
                    queues.suspend();
                }
            }
            Life::Announced(queues) => {
                let identity = queues.identity();
                // Nothing has been sent, and nobody has anything mapped any more.
                queues.cut().for_each(drop);
                *self.queues.lock() = None;
                *life = Life::Waiting(identity);
            }
            Life::Waiting(_) | Life::Over => {}
        }
        self.remains.lock().clear();
        let mut peer = self.peer.lock();
        peer.state = State::Unknown;
        dev.with_otherend(|dir| peer.follow(dir))
    }

    /// The device loses its driver. When this returns, nothing is shared with the backend any more.
    pub(crate) fn unbind(self: &Arc<Self>, dev: &xenbus::Device<device::Core<'_>>) {
        let _scope = NoIoScope::new();
        self.leaving.store(true, Release);
        // A backend that is closing still answers.
        let answers = matches!(self.peer.lock().state, State::Connected | State::Closing);
        if dev.has_vanished() {
            // This is the bus' thread: the other devices wait.
            let queues = self.queues.lock().clone();
            if let Some(queues) = queues {
                queues.hurry();
            }
        }
        if dev.has_vanished() || !answers {
            self.cut();
        }
        self.kick();
        if !self.left.wait_within(PATIENCE) {
            dev_warn!(
                dev.as_ref(),
                "the backend has not answered for {} s, ending the requests in flight\n",
                PATIENCE / 1000
            );
            self.cut();
        }
        work::flush::<Self, SEVER>(self);
        work::flush::<Self, ADVANCE>(self);
        // No request comes any more, so that nobody queues this again.
        work::cancel_delayed::<Self, TRIM>(self);
        work::cancel_delayed::<Self, EXPIRE>(self);
        self.remains.lock().clear();
    }

    /// Ends the requests in flight, and all later ones, with an error.
    fn cut(&self) {
        self.severed.store(true, Release);
        let queues = self.queues.lock().clone();
        if let Some(queues) = queues {
            for remains in queues.cut() {
                // If there is no memory for it, it is parked.
                let _ = self.remains.lock().push(remains, GFP_KERNEL);
            }
        }
    }

    /// Brings the device to where its own state and the backend's say that it should be.
    fn advance(self: &Arc<Self>) {
        let mut life = self.life.lock();
        if self.leaving.load(Acquire) {
            self.end(&mut life);
            self.left.complete_all();
            return;
        }
        let fault = self.fault.lock().take();
        if let Some((number, fault)) = fault {
            self.dev.fatal(
                EIO,
                fmt!("{number}: {fault}; {number} disabled for further use"),
            );
        }

        let peer = self.peer.lock().clone();
        if peer.state == State::Closed {
            // It has unmapped everything before it said so.
            self.remains.lock().clear();
        }
        use State::*;
        match (self.dev.state(), peer.state) {
            // See `begin`.
            (Initialising, _) => {}

            (Initialised, Connected) => {
                if let Err(failure) = self.connect(&mut life, &peer.dir) {
                    self.dev.fatal(failure.errno(), fmt!("{failure}"));
                    self.hang_up(&mut life);
                }
            }
            (Connected, Connected) => {
                let queues = self.queues.lock().clone();
                if let (Life::Live(live), Some(queues)) = (&mut *life, queues) {
                    live.refresh(&self.dev, &queues, &peer.dir);
                }
            }

            (Connected, Closing) => self.close_unless_used(&mut life),
            (Initialised | Closing, Closing) => {
                self.hang_up(&mut life);
                self.dev.frontend_closed();
            }
            (Initialised | Connected | Closing, Closed | Unknown) if peer.has_gone() => {
                self.hang_up(&mut life);
                self.dev.frontend_closed();
            }
            // Something has failed.
            (Closing | Closed, _) => self.hang_up(&mut life),

            (_, Unknown | Initialising | InitWait | Initialised | Reconfiguring | Reconfigured)
            | (Unknown | InitWait | Reconfiguring | Reconfigured, _)
            | (Initialised | Connected, Closed) => {}
        }
    }

    /// Makes the rings and tells the backend of them.
    fn announce(self: &Arc<Self>, life: &mut Life, otherend: &CStr) -> Result<(), Failure> {
        let mut limits = connection::agree(otherend)?;
        let queues = match life {
            Life::Waiting(identity) => {
                let depth = blkif::ring_slots(limits.order);
                let polled = limits.polled(POLL_QUEUES.get());
                let count = (limits.queues, polled);
                let queues = Queues::new(self.clone(), *identity, count, depth)
                    .map_err(|errno| Failure::Errno("allocating queues", errno))?;
                // From here on `hang_up` undoes it all.
                *self.queues.lock() = Some(queues.clone());
                queues
            }
            // After a resume the disk has its queues.
            Life::Live(_) => match self.queues.lock().clone() {
                Some(queues) => queues,
                None => return Ok(()),
            },
            Life::Announced(_) => return Ok(()),
            // It was closed, or failed, before the guest was restored.
            Life::Over => {
                self.dev.frontend_closed();
                return Ok(());
            }
        };
        limits.queues = limits.queues.min(queues.count());
        let conduct = connection::conduct(self.dev.nodename())?;
        connection::make_rings(&self.dev, &queues, limits, conduct)?;
        connection::announce(&self.dev, &queues, limits, conduct)?;
        if let Life::Waiting(_) = life {
            *life = Life::Announced(queues);
        }
        self.dev.switch_state(State::Initialised);
        Ok(())
    }

    /// The backend has connected: makes the disk, or has it go on.
    fn connect(&self, life: &mut Life, otherend: &CStr) -> Result<(), Failure> {
        match life {
            Life::Announced(queues) => {
                let mut live = Live::new(queues, otherend)?;
                self.dev.switch_state(State::Connected);
                live.add(&self.dev, queues)?;
                *life = Life::Live(live);
                self.ready.store(true, Release);
            }
            Life::Live(live) => {
                let queues = self.queues.lock().clone();
                if let Some(queues) = queues {
                    live.reconnect(&self.dev, &queues, otherend)?;
                }
            }
            Life::Waiting(_) | Life::Over => {}
        }
        Ok(())
    }

    /// The toolstack wants the disk back. It gets it once nobody has it open.
    fn close_unless_used(&self, life: &mut Life) {
        if let Life::Live(live) = life {
            if live.refuses_to_close(&self.dev) {
                return;
            }
        }
        self.end(life);
        self.dev.frontend_closed();
    }

    /// The backend has gone, or cannot be trusted: whatever waits for it gets an error.
    fn hang_up(&self, life: &mut Life) {
        self.cut();
        self.end(life);
    }

    /// Takes the disk away, then the rings. What is written to the disk until then still gets to the
    /// backend, unless the connection has been cut.
    fn end(&self, life: &mut Life) {
        self.ready.store(false, Release);
        let mut old = core::mem::replace(life, Life::Over);
        if let Life::Live(live) = &mut old {
            if live.is_waiting() {
                // Nobody else ends the requests that wait.
                self.cut();
            }
            if self.severed.load(Acquire) {
                live.lose();
            }
        }
        drop(old);
        self.cut();
        *self.queues.lock() = None;
    }
}
