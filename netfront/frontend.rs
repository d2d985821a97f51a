// SPDX-License-Identifier: GPL-2.0

//! A device from its appearance to its removal.
//!
//! The bus tells of every change on one thread that serves all devices of the guest. Connecting is done
//! there, since the bus has to see it in order; everything that may have to wait for the backend is work of
//! the device's own.

use crate::{
    connection::{
        self,
        Connection,
        Offer, //
    },
    fault::{
        Failure,
        Fault, //
    },
    interface::Interface,
    WORK, //
};
use core::ffi::CStr;
use kernel::{
    device, new_delayed_work, new_mutex, new_spinlock, new_work,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    time::{
        delay::fsleep,
        Delta, //
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
    net::{
        NoSoftirqs,
        Registration,
        Rtnl, //
    },
    work,
    xenbus::{
        self,
        store,
        DeviceRef,
        Peer,
        State, //
    },
};

/// How long a device that is to go waits for its backend to let go of its pages, in milliseconds, and how
/// often it looks.
const PATIENCE: u32 = 5_000;
const LOOK_INTERVAL: u32 = 20;

/// How often pages and references are given back that have not been needed since, in milliseconds.
const TRIM_INTERVAL: u32 = 10_000;

/// When memory for the backend's pages is asked for again after there was none, in milliseconds.
const REFILL_INTERVAL: u32 = 100;

/// What there is of the interface.
pub(crate) enum Life {
    /// Nothing yet.
    Waiting,
    /// It is registered; while there is a backend it is connected.
    Live {
        // Dropped first: after that nobody asks for anything.
        _registration: Registration<Interface>,
        interface: Arc<Interface>,
        connection: Option<Connection>,
    },
    /// Nothing any more.
    Over,
}

/// A device.
#[pin_data]
pub(crate) struct Frontend {
    pub(crate) dev: DeviceRef,
    #[pin]
    peer: Mutex<Peer>,
    #[pin]
    pub(crate) life: Mutex<Life>,
    /// What the backend has broken the protocol by. Locked in softirqs.
    #[pin]
    fault: SpinLock<Option<Fault>>,
    /// It has, and there has been no other backend since.
    broken: Atomic<bool>,
    /// The interface may be used.
    ready: Atomic<bool>,
    /// The neighbours are to be told where the interface is, once the backend has connected.
    announce: Atomic<bool>,
    /// The connection is to end, and another one to be made: somebody wants another number of queues.
    pub(crate) renewing: Atomic<bool>,
    /// There was another connection before, which the backend may still have to end.
    anew: Atomic<bool>,
    /// The backend has had time to leave another room before packets.
    pub(crate) settled: Atomic<bool>,

    /// Brings the device to where it should be.
    #[pin]
    work: Work<Frontend, ADVANCE>,
    /// Gives back what the queues have not needed for a while.
    #[pin]
    trimmer: DelayedWork<Frontend, TRIM>,
    /// Has the queues ask for memory again.
    #[pin]
    refiller: DelayedWork<Frontend, REFILL>,
    /// Ends a reconfiguration.
    #[pin]
    settler: DelayedWork<Frontend, SETTLE>,
    /// Tells the backend which multicast packets are wanted; and how often it has looked for an answer in vain.
    #[pin]
    grouper: DelayedWork<Frontend, GROUPS>,
    pub(crate) looks: Atomic<u32>,
    /// How often backends have refused what they were told.
    pub(crate) refused_groups: Atomic<u64>,
}

const ADVANCE: u64 = 0;
const TRIM: u64 = 1;
const REFILL: u64 = 2;
pub(crate) const SETTLE: u64 = 3;
pub(crate) const GROUPS: u64 = 4;

impl_has_work! {
    impl HasWork<Self, 0> for Frontend { self.work }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, 1> for Frontend { self.trimmer }
    impl HasDelayedWork<Self, 2> for Frontend { self.refiller }
    impl HasDelayedWork<Self, 3> for Frontend { self.settler }
    impl HasDelayedWork<Self, 4> for Frontend { self.grouper }
}

impl WorkItem<ADVANCE> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.advance();
    }
}

impl WorkItem<TRIM> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Life::Live {
            connection: Some(connection),
            ..
        } = &*this.life.lock()
        {
            if connection.trim() {
                this.trim_later();
            }
        }
    }
}

impl WorkItem<REFILL> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Life::Live {
            connection: Some(connection),
            ..
        } = &*this.life.lock()
        {
            connection.poll_all();
        }
    }
}

impl Frontend {
    /// A device has appeared.
    pub(crate) fn new(dev: &xenbus::Device<device::Core<'_>>) -> Result<Arc<Self>> {
        let peer = dev.with_otherend(Peer::new)?;
        // Of a device that has lost its driver before, the backend waits for this.
        let anew = dev.state() != State::Initialising;
        if anew {
            dev.switch_state(State::Initialising);
        }
        Arc::pin_init(
            pin_init!(Self {
                dev: DeviceRef::from(dev),
                peer <- new_mutex!(peer),
                life <- new_mutex!(Life::Waiting),
                fault <- new_spinlock!(None),
                broken: Atomic::new(false),
                ready: Atomic::new(false),
                announce: Atomic::new(false),
                renewing: Atomic::new(false),
                anew: Atomic::new(anew),
                settled: Atomic::new(false),
                work <- new_work!("netfront::Frontend::work"),
                trimmer <- new_delayed_work!("netfront::Frontend::trimmer"),
                refiller <- new_delayed_work!("netfront::Frontend::refiller"),
                settler <- new_delayed_work!("netfront::Frontend::settler"),
                grouper <- new_delayed_work!("netfront::Frontend::grouper"),
                looks: Atomic::new(0),
                refused_groups: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Whether the interface may be used.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Acquire)
    }

    /// Whether the backend has broken the protocol.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Acquire)
    }

    /// The backend has broken the protocol. Any context.
    pub(crate) fn fail(self: &Arc<Self>, fault: Fault) {
        {
            let mut place = self.fault.lock();
            if self.broken.load(Acquire) {
                return;
            }
            self.broken.store(true, Release);
            *place = Some(fault);
        }
        self.kick();
    }

    /// Has the queues ask for memory again in a while. Any context.
    pub(crate) fn refill_later(self: &Arc<Self>) {
        WORK.enqueue_delayed::<Arc<Self>, REFILL>(self.clone(), REFILL_INTERVAL);
    }

    /// Has the queues give back, in some time, what they have not needed until then. Any context.
    pub(crate) fn trim_later(self: &Arc<Self>) {
        WORK.enqueue_delayed::<Arc<Self>, TRIM>(self.clone(), TRIM_INTERVAL);
    }

    /// Has the device's work look at everything again. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, ADVANCE>(self.clone());
    }

    /// The backend has written its state.
    pub(crate) fn otherend_changed(
        self: &Arc<Self>,
        dev: &xenbus::Device<device::Bound>,
        state: State,
    ) {
        let peer = {
            let mut peer = self.peer.lock();
            if state == State::Connected && peer.state != state {
                // Also when the backend has only lost its driver and got it again.
                self.announce.store(true, Release);
            }
            peer.state = state;
            if let Err(errno) = dev.with_otherend(|dir| peer.follow(dir)) {
                dev.error(errno, fmt!("following the backend"));
            }
            peer.clone()
        };
        if state == State::Reconfigured {
            self.settle();
        }
        if state == State::Closed
            && matches!(dev.state(), State::Closing | State::Closed)
            && self.renewing.xchg(false, Full)
        {
            hang_up(&mut self.life.lock());
            self.anew.store(true, Release);
            dev.switch_state(State::Closed);
            // The bus takes a device for another one that has got this state on any other thread.
            dev.switch_state(State::Initialising);
            return;
        }
        if dev.state() == State::Initialising {
            match state {
                State::InitWait => {
                    if let Err(failure) = self.connect(&peer.dir) {
                        dev.fatal(failure.errno(), fmt!("{failure}"));
                    }
                }
                // That may be what is left of an earlier driver's connection: with a device that is to stay
                // the backend begins anew. Otherwise it has failed, and nobody is to wait for the interface.
                State::Closing | State::Closed => {
                    if !self.anew.load(Acquire) || !peer.is_to_stay() {
                        dev.frontend_closed();
                    }
                }
                _ => {}
            }
        }
        self.kick();
    }

    /// The backend offers to connect: makes the rings and tells it of them, and makes the interface if
    /// there is none yet.
    fn connect(self: &Arc<Self>, otherend: &CStr) -> Result<(), Failure> {
        let mut life = self.life.lock();
        let offer = Offer::read(&self.dev, otherend)?;
        let was_waiting = matches!(&*life, Life::Waiting);
        self.forgive();
        match &mut *life {
            Life::Waiting => {
                let interface = connection::make_interface(self, &self.dev, &offer)?;
                let connection = Connection::new(self, &self.dev, &interface, &offer)?;
                let netdev = interface.netdev().clone();
                let registration = Registration::new(netdev, &self.dev, interface.clone())
                    .map_err(|errno| Failure::Errno("registering the interface", errno))?;
                *life = Life::Live {
                    _registration: registration,
                    interface,
                    connection: Some(connection),
                };
            }
            Life::Live {
                interface,
                connection,
                ..
            } => {
                disconnect(interface, connection);
                self.forgive();
                let made = Connection::new(self, &self.dev, interface, &offer)?;
                *connection = Some(made);
            }
            Life::Over => {
                self.dev.frontend_closed();
                return Ok(());
            }
        }
        let Life::Live {
            interface,
            connection: Some(connection),
            ..
        } = &*life
        else {
            return Ok(());
        };
        {
            let rtnl = Rtnl::lock();
            interface.follow_offer(&rtnl);
            interface.spread(&rtnl);
            if was_waiting {
                if let Some(mtu) = offer.mtu {
                    // It was found to be one that the interface can have.
                    let _ = interface.netdev().set_mtu(&rtnl, mtu);
                }
            } else {
                connection::set_address(interface, &rtnl, offer.address);
            }
            interface.netdev().set_carrier(&rtnl, true);
            if interface.netdev().is_running() {
                interface.netdev().wake_all();
            }
        }
        self.dev.switch_state(State::Connected);
        connection.wake_backend();
        self.ready.store(true, Release);
        Ok(())
    }

    /// Whatever a backend has done wrong, it was not the next one.
    fn forgive(&self) {
        let _scope = NoSoftirqs::new();
        let mut fault = self.fault.lock();
        *fault = None;
        self.broken.store(false, Release);
    }

    /// Brings the device to where its own state and the backend's say that it should be.
    fn advance(self: &Arc<Self>) {
        let mut life = self.life.lock();
        let fault = {
            let _scope = NoSoftirqs::new();
            let mut fault = self.fault.lock();
            fault.take()
        };
        if let Some(fault) = fault {
            self.renewing.store(false, Release);
            self.dev
                .fatal(EIO, fmt!("{fault}; Disabled for further use"));
        }
        let peer = self.peer.lock().clone();
        use State::*;
        match (self.dev.state(), peer.state) {
            // That is done on the bus' thread.
            (Initialising, _) => {}

            // The backend lets go of the rings first.
            (Connected, Connected | Reconfigured) if self.renewing.load(Acquire) => {
                self.dev.switch_state(Closing);
            }
            (Closing, Connected | Reconfigured) if self.renewing.load(Acquire) => {}
            (Connected, Connected | Reconfigured) => {
                if let Life::Live { interface, .. } = &*life {
                    if self.announce.xchg(false, Full) {
                        interface.netdev().notify_peers(&Rtnl::lock());
                    }
                    self.reconfigure(interface);
                    interface.tell_hashing();
                    self.groups_changed();
                }
            }
            (Reconfiguring, Connected | Reconfigured) => {
                if self.settled.xchg(false, Full) {
                    self.dev.switch_state(Connected);
                    // There may have been another change meanwhile.
                    self.kick();
                }
            }

            (Initialised | Connected | Reconfiguring | Closing, Closing) => {
                hang_up(&mut life);
                if self.renewing.load(Acquire) {
                    self.dev.switch_state(Closed);
                } else {
                    self.dev.frontend_closed();
                }
            }
            // That is done on the bus' thread.
            (Closing | Closed, Closed) if self.renewing.load(Acquire) => {}
            (Initialised | Connected | Reconfiguring | Closing, Closed | Unknown)
                if peer.has_gone() =>
            {
                hang_up(&mut life);
                self.dev.frontend_closed();
            }
            // Something has failed.
            (Closing | Closed, _) => hang_up(&mut life),

            (_, Unknown | Initialising | InitWait | Initialised | Reconfiguring | Reconfigured)
            | (Unknown | InitWait | Reconfiguring | Reconfigured, _)
            | (Initialised, Connected)
            | (Initialised | Connected, Closed) => {}
        }
    }

    /// The guest has been restored: the backend is another one, which knows nothing of the rings.
    pub(crate) fn resume(self: &Arc<Self>, dev: &xenbus::Device<device::Bound>) -> Result {
        hang_up(&mut self.life.lock());
        // That is what happens now.
        self.renewing.store(false, Release);
        let mut peer = self.peer.lock();
        peer.state = State::Unknown;
        dev.with_otherend(|dir| peer.follow(dir))
    }

    /// The device loses its driver. When this returns, nothing is shared with the backend any more.
    pub(crate) fn unbind(self: &Arc<Self>, dev: &xenbus::Device<device::Core<'_>>) {
        self.ready.store(false, Release);
        self.renewing.store(false, Release);
        let peer = self.peer.lock().clone();
        let has_peer = !dev.has_vanished() && is_connected(peer.state);
        use State::*;
        if has_peer && matches!(dev.state(), Connected | Reconfiguring | Closing) {
            // It unmaps the rings, and says that it does not use them any more.
            dev.switch_state(Closing);
            wait_for_closing(&peer.dir);
        }
        let mut life = self.life.lock();
        hang_up(&mut life);
        let old = core::mem::replace(&mut *life, Life::Over);
        drop(life);
        // This takes the interface away, and waits for everybody who uses it.
        drop(old);
        work::flush::<Self, ADVANCE>(self);
        work::cancel_delayed::<Self, TRIM>(self);
        work::cancel_delayed::<Self, REFILL>(self);
        work::cancel_delayed::<Self, SETTLE>(self);
        work::cancel_delayed::<Self, GROUPS>(self);
    }
}

/// Whether a backend in this state has the rings. C's stays in the one to which it was reconfigured.
fn is_connected(state: State) -> bool {
    matches!(state, State::Connected | State::Reconfigured)
}

/// Waits until the backend has let go of the rings, or for some time.
fn wait_for_closing(dir: &CStr) {
    let mut left = PATIENCE / LOOK_INTERVAL;
    while left > 0 {
        match store::read::<u32>(dir, c"state") {
            Ok(Some(state)) if is_connected(State::from_number(state)) => {}
            _ => return,
        }
        fsleep(Delta::from_millis(LOOK_INTERVAL.into()));
        left -= 1;
    }
}

/// There is no backend any more, or it cannot be trusted.
fn hang_up(life: &mut Life) {
    if let Life::Live {
        interface,
        connection,
        ..
    } = life
    {
        disconnect(interface, connection);
    }
}

fn disconnect(interface: &Interface, connection: &mut Option<Connection>) {
    let Some(connection) = connection.take() else {
        return;
    };
    interface.netdev().set_carrier(&Rtnl::lock(), false);
    interface.netdev().stop_all();
    drop(connection);
}
