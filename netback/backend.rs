// SPDX-License-Identifier: GPL-2.0

//! A device from its appearance to its removal.
//!
//! Its interface exists all the time: the hotplug script needs it, which connects it to others in this
//! domain, and only when that has been done the frontend is told that it is connected.
//!
//! The bus tells of every change on one thread that serves all devices of the domain. Nothing is done there
//! but to take note, and to make and take away the interface: each device has work of its own, one step at
//! a time.

use crate::{
    connection::{
        Agreement,
        Connection, //
    },
    failure::{
        Failure,
        Fault, //
    },
    interface::Interface,
    keys::{
        self,
        Observer,
        Setup,
        Subject, //
    },
    rules::Rules,
    MAX_QUEUES,
    WORK, //
};
use kernel::{
    device, new_delayed_work, new_mutex, new_spinlock, new_work,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex,
        SpinLock, //
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
        Hotplug,
        State,
        Watch,
        WatchThread, //
    },
};

/// How often queues are looked at in which packets wait for the guest, in milliseconds: often enough to tell
/// when they have waited for too long.
const LOOK_INTERVAL: u32 = 500;

/// How often if the guest sends no events.
const SILENT_LOOK_INTERVAL: u32 = 10;

/// After how many milliseconds it is asked at the latest whether something may be sent, while it may not.
const MOST_ASK_INTERVAL: u64 = 20;

/// Most queues that an interface can have, whatever the module's parameter is.
const MOST_QUEUES: u32 = 256;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// What there is of the device.
struct Life {
    connection: Option<Connection>,
    /// The interface, until the device goes.
    registration: Option<Registration<Interface>>,
    interface: Option<Arc<Interface>>,
    /// The guest takes no packets, as last told to users.
    stalled: bool,
}

/// A device.
#[pin_data]
pub(crate) struct Backend {
    pub(crate) dev: DeviceRef,
    /// The frontend's directory.
    pub(crate) otherend: CString,
    /// The hotplug script.
    script: store::Text,
    /// Queues that the frontend was offered.
    max_queues: u32,
    rules: Arc<Rules>,

    /// The frontend's state, as last heard of.
    #[pin]
    peer: Mutex<State>,
    /// It has been heard of since something was last made of it.
    news: Atomic<bool>,
    rates_changed: Atomic<bool>,
    multicast_changed: Atomic<bool>,
    setup_changed: Atomic<bool>,
    /// The frontend has been told that a key makes no sense which it may write at any time. Once for each
    /// connection is enough: it could have this domain's log be filled.
    complained: Atomic<bool>,
    /// Some queue has stalled, or is ready again.
    stall_changed: Atomic<bool>,
    /// What the frontend has broken the protocol by. Locked in softirqs.
    #[pin]
    fault: SpinLock<Option<Fault>>,
    /// The device is closed, and may be taken off the bus.
    removable: Atomic<bool>,
    /// The device is losing its driver.
    leaving: Atomic<bool>,

    #[pin]
    life: Mutex<Life>,
    #[pin]
    watches: Mutex<KVec<Watch<Observer>>>,

    /// Brings the device to where it should be.
    #[pin]
    work: Work<Backend, ADVANCE>,
    /// Looks at queues in which packets wait.
    #[pin]
    looker: DelayedWork<Backend, LOOK>,
    /// Has the queues ask again whether something may be sent.
    #[pin]
    asker: DelayedWork<Backend, ASK>,
}

const ADVANCE: u64 = 0;
const LOOK: u64 = 1;
const ASK: u64 = 2;

impl_has_work! {
    impl HasWork<Self, 0> for Backend { self.work }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self, 1> for Backend { self.looker }
    impl HasDelayedWork<Self, 2> for Backend { self.asker }
}

impl WorkItem<ADVANCE> for Backend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.advance();
    }
}

impl WorkItem<LOOK> for Backend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.poll_all();
    }
}

impl WorkItem<ASK> for Backend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.poll_all();
    }
}

/// The device's driver has it. Dropped, nothing of it is left.
pub(crate) struct Bound(Arc<Backend>);

impl Bound {
    /// A device has appeared.
    pub(crate) fn new(dev: &xenbus::Device<device::Core<'_>>) -> Result<Self> {
        Self::try_new(dev).map_err(|failure| {
            let errno = failure.errno();
            dev.fatal(errno, fmt!("{failure}"));
            errno
        })
    }

    fn try_new(dev: &xenbus::Device<device::Core<'_>>) -> Result<Self, Failure> {
        let failed = |what| move |errno| Failure::Errno(what, errno);
        let max_queues = MAX_QUEUES.get().clamp(1, MOST_QUEUES);
        let node = dev.nodename();
        let script = store::read_text(node, c"script")
            .and_then(|text| text.ok_or(ENOENT))
            .map_err(failed("reading script"))?;
        let handle = store::require(node, c"handle")?;
        let otherend = dev
            .with_otherend(|dir| CString::try_from(dir))
            .map_err(|_| Failure::Errno("allocating memory", ENOMEM))?;
        let rules = Rules::new().map_err(failed("allocating memory"))?;
        let own_rules = rules.clone();
        let backend = Arc::pin_init(
            pin_init!(Backend {
                dev: DeviceRef::from(dev),
                otherend,
                script,
                max_queues,
                rules: own_rules,
                peer <- new_mutex!(State::Unknown),
                news: Atomic::new(false),
                rates_changed: Atomic::new(true),
                multicast_changed: Atomic::new(false),
                setup_changed: Atomic::new(false),
                complained: Atomic::new(false),
                stall_changed: Atomic::new(false),
                fault <- new_spinlock!(None, "netback::Backend::fault"),
                removable: Atomic::new(false),
                leaving: Atomic::new(false),
                life <- new_mutex!(Life {
                    connection: None,
                    registration: None,
                    interface: None,
                    stalled: false,
                }),
                watches <- new_mutex!(KVec::new()),
                work <- new_work!("netback::Backend::work"),
                looker <- new_delayed_work!("netback::Backend::looker"),
                asker <- new_delayed_work!("netback::Backend::asker"),
            }),
            GFP_KERNEL,
        )
        .map_err(failed("allocating memory"))?;
        // From here on it takes away what there is.
        let bound = Self(backend);
        bound.begin(handle, rules)?;
        Ok(bound)
    }
}

impl core::ops::Deref for Bound {
    type Target = Arc<Backend>;

    fn deref(&self) -> &Arc<Backend> {
        &self.0
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        self.0.dissolve();
    }
}

impl Backend {
    /// Makes the interface, and says what there is to choose.
    fn begin(self: &Arc<Self>, handle: u32, rules: Arc<Rules>) -> Result<(), Failure> {
        let failed = |what| move |errno| Failure::Errno(what, errno);
        let (interface, registration) = Interface::new(&self.dev, handle, self.max_queues, rules)
            .map_err(failed("creating interface"))?;
        {
            let mut life = self.life.lock();
            life.interface = Some(interface);
            life.registration = Some(registration);
        }
        keys::write_offer(&self.dev, self.max_queues).map_err(failed("writing features"))?;
        *self.watches.lock() = keys::watch(self).map_err(failed("watching xenstore"))?;
        // Whoever runs the hotplug script waits for one or the other.
        self.dev.switch_state(State::InitWait);
        self.announce(Hotplug::Online);
        Ok(())
    }

    /// Tells user space that the interface is there, or is about to go.
    fn announce(&self, what: Hotplug) {
        let life = self.life.lock();
        let Some(interface) = &life.interface else {
            return;
        };
        let script = keys::Script(self.script.as_bytes());
        let name = CString::try_from(interface.netdev().name(&Rtnl::lock()));
        let sent = name.map_err(Error::from).and_then(|name| {
            let name = &*name;
            self.dev
                .announce(what, [fmt!("script={script}"), fmt!("vif={name}")])
        });
        // Whoever has the script run by the toolstack does not listen.
        if let Err(errno) = sent {
            dev_warn!(
                self.dev.as_ref(),
                "no uevent could be sent: error {}\n",
                errno.to_errno()
            );
        }
    }

    /// The frontend has written its state.
    pub(crate) fn otherend_changed(self: &Arc<Self>, state: State) {
        *self.peer.lock() = state;
        self.news.store(true, Release);
        self.kick();
    }

    /// Has the device's work look at everything again. Any context.
    fn kick(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, ADVANCE>(self.clone());
    }

    /// The frontend has broken the protocol. Any context but an interrupt.
    pub(crate) fn fail(self: &Arc<Self>, fault: Fault) {
        let scope = NoSoftirqs::new();
        self.fault.lock().get_or_insert(fault);
        drop(scope);
        self.kick();
    }

    fn take_fault(&self) -> Option<Fault> {
        let _scope = NoSoftirqs::new();
        let mut fault = self.fault.lock();
        fault.take()
    }

    /// Some queue has stalled, or is ready again. Any context.
    pub(crate) fn stall_changed(self: &Arc<Self>) {
        self.stall_changed.store(true, Release);
        self.kick();
    }

    /// Looks at all queues in a while. Any context.
    pub(crate) fn look_later(self: &Arc<Self>) {
        let interval = if self.rules.is_silent() {
            SILENT_LOOK_INTERVAL
        } else {
            LOOK_INTERVAL
        };
        WORK.enqueue_delayed::<Arc<Self>, LOOK>(self.clone(), interval);
    }

    /// Has all queues ask again what may be sent, after so many nanoseconds. Any context.
    pub(crate) fn ask_again(self: &Arc<Self>, wait: u64) {
        // For another queue or direction it may be sooner than for the one that has asked first.
        let milliseconds = wait.div_ceil(MILLISECOND).min(MOST_ASK_INTERVAL);
        // CAST: Small.
        let milliseconds = milliseconds as u32;
        WORK.enqueue_delayed::<Arc<Self>, ASK>(self.clone(), milliseconds);
    }

    fn poll_all(&self) {
        if let Some(connection) = &self.life.lock().connection {
            connection.poll_all();
        }
    }

    /// Whether the device is to be taken off the bus. On the bus' thread.
    fn may_be_removed(&self) -> bool {
        if !self.removable.load(Acquire) || self.leaving.load(Acquire) {
            return false;
        }
        let peer = *self.peer.lock();
        match peer {
            // That it is not there is final; what makes no sense may be followed by what does.
            State::Unknown => store::is_missing(&self.otherend, c"state"),
            State::Closed => !self.is_online(),
            _ => false,
        }
    }

    /// Whether the toolstack wants the device to stay. If it cannot be told, it stays.
    fn is_online(&self) -> bool {
        matches!(
            store::read::<bool>(self.dev.nodename(), c"online"),
            Ok(Some(true)) | Err(_)
        )
    }

    /// Takes away everything that there is, as the device loses its driver: nothing is shared with the frontend
    /// any more, and the interface has gone. Does nothing if that has been done.
    pub(crate) fn dissolve(self: &Arc<Self>) {
        self.leaving.store(true, Release);
        // Without the lock: a handler may be running.
        let watches = core::mem::replace(&mut *self.watches.lock(), KVec::new());
        drop(watches);
        self.announce_removal();
        let mut life = self.life.lock();
        life.connection = None;
        let registration = life.registration.take();
        let interface = life.interface.take();
        drop(life);
        // This waits for everybody who uses the interface.
        drop(registration);
        drop(interface);
        work::flush::<Self, ADVANCE>(self);
        work::cancel_delayed::<Self, LOOK>(self);
        work::cancel_delayed::<Self, ASK>(self);
    }

    fn announce_removal(&self) {
        if self.life.lock().interface.is_none() {
            return;
        }
        self.announce(Hotplug::Offline);
        // Whoever gets the device next has to be set up as well. If it has been removed, so has this.
        let _ = store::Transaction::run(|transaction| {
            transaction.remove(self.dev.nodename(), c"hotplug-status")
        });
    }

    /// Brings the device to where its own state and the frontend's say that it should be.
    fn advance(self: &Arc<Self>) {
        let mut life = self.life.lock();
        if self.leaving.load(Acquire) {
            return;
        }
        if let Some(fault) = self.take_fault() {
            life.connection = None;
            self.dev
                .fatal(EIO, fmt!("fatal error; disabling device: {fault}"));
        }
        self.follow_setup(&mut life);
        self.follow_keys(&life);
        self.follow_stall(&mut life);

        let news = self.news.xchg(false, Full);
        let peer = *self.peer.lock();
        use State::*;
        match (self.dev.state(), peer) {
            (InitWait, Initialising) if life.connection.is_none() => {}
            // It has been so since before this end closed.
            (Closing | Closed, Initialising) if !news => {}
            (Closing | Closed, Initialising) => {
                self.removable.store(false, Release);
                life.connection = None;
                self.dev.switch_state(Closed);
                self.dev.switch_state(InitWait);
            }
            // The frontend has begun anew without saying that it had ended.
            (_, Initialising) => {
                life.connection = None;
                self.dev.switch_state(Closing);
                self.dev.switch_state(Closed);
                self.dev.switch_state(InitWait);
            }
            (_, InitWait | Initialised) => {}

            (InitWait | Reconfigured, Connected) => self.connect(&mut life),
            (Closed, Connected) if news => {
                self.removable.store(false, Release);
                self.dev.switch_state(InitWait);
                self.connect(&mut life);
            }
            (_, Connected) => {}
            (_, Reconfiguring) => {
                if news && life.connection.is_some() {
                    self.heed(keys::read_headroom(&self.otherend, &self.rules));
                    self.dev.switch_state(Reconfigured);
                }
            }

            (_, Closing) => {
                life.connection = None;
                self.dev.switch_state(Closing);
            }
            (_, Closed) => {
                life.connection = None;
                self.close();
            }
            // The state may just have been unreadable; that it is not there is final.
            (_, Unknown) if news && store::is_missing(&self.otherend, c"state") => {
                life.connection = None;
                self.close();
            }
            // To be looked at again.
            (_, Unknown) => self.keep_news(news),
            (_, Reconfigured) => {
                if news {
                    let failure = Failure::State(peer);
                    self.dev.fatal(failure.errno(), fmt!("{failure}"));
                }
            }
        }
    }

    /// Nothing could be made of what has been heard yet.
    fn keep_news(&self, news: bool) {
        // There may have been more since.
        if news {
            self.news.store(true, Release);
        }
    }

    /// Connects if that has not been done, and says so once the interface is set up.
    fn connect(self: &Arc<Self>, life: &mut Life) {
        if let Err(failure) = self.try_connect(life) {
            life.connection = None;
            // Nobody is there to be told otherwise.
            if !self.leaving.load(Acquire) && !self.dev.has_vanished() {
                self.dev.fatal(failure.errno(), fmt!("{failure}"));
            }
        }
    }

    fn try_connect(self: &Arc<Self>, life: &mut Life) -> Result<(), Failure> {
        let Some(interface) = life.interface.clone() else {
            return Ok(());
        };
        if life.connection.is_none() {
            // Nobody but an earlier connection can have had one.
            let _ = self.take_fault();
            self.complained.store(false, Relaxed);
            let agreement = Agreement::read(&self.dev, &self.otherend, self.max_queues)?;
            life.connection = Some(Connection::new(
                self,
                &self.dev,
                &self.otherend,
                &interface,
                &self.rules,
                &agreement,
            )?);
            life.stalled = false;
        }
        let setup = keys::read_setup(&self.dev)
            .map_err(|errno| Failure::Errno("reading hotplug-status", errno))?;
        match setup {
            Setup::Done => self.dev.switch_state(State::Connected),
            Setup::Failed => return Err(Failure::Hotplug),
            // Whoever runs the script will say so.
            Setup::Pending => {}
        }
        Ok(())
    }

    /// Closes the device if its hotplug script has failed, whether or not there is a frontend yet.
    fn follow_setup(&self, life: &mut Life) {
        if !self.setup_changed.xchg(false, Full)
            || self.dev.state() != State::InitWait
            || !matches!(keys::read_setup(&self.dev), Ok(Setup::Failed))
        {
            return;
        }
        let had_connection = life.connection.take().is_some();
        self.dev
            .fatal(Failure::Hotplug.errno(), fmt!("{}", Failure::Hotplug));
        if !had_connection {
            // No frontend has anything to close first.
            self.close();
        }
    }

    /// The frontend has written a key that it may write at any time.
    fn heed(&self, read: Result<(), store::KeyError>) {
        if let Err(error) = read {
            if !self.complained.xchg(true, Relaxed) {
                self.dev.error(error.errno(), fmt!("{error}"));
            }
        }
    }

    /// Something that is watched has changed. On the bus' thread.
    pub(crate) fn changed(self: &Arc<Self>, subject: Subject, thread: &WatchThread) {
        match subject {
            Subject::Device => {}
            Subject::Hotplug => self.setup_changed.store(true, Release),
            Subject::Rates => self.rates_changed.store(true, Release),
            Subject::Multicast => self.multicast_changed.store(true, Release),
        }
        self.kick();
        if subject == Subject::Device && self.may_be_removed() {
            thread.unregister(&self.dev);
        }
    }

    /// Reads what may have changed in xenstore.
    fn follow_keys(&self, life: &Life) {
        if self.rates_changed.xchg(false, Full) {
            keys::read_rates(&self.dev, &self.rules);
            if let Some(connection) = &life.connection {
                connection.poll_all();
            }
        }
        if self.multicast_changed.xchg(false, Full) && life.connection.is_some() {
            self.heed(keys::read_multicast(&self.otherend, &self.rules));
        }
    }

    /// Tells users whether the guest takes packets.
    fn follow_stall(&self, life: &mut Life) {
        if !self.stall_changed.xchg(false, Full) || life.connection.is_none() {
            return;
        }
        let Some(interface) = &life.interface else {
            return;
        };
        let stalled = interface.used_queues().any(|queue| queue.is_stalled());
        if stalled == life.stalled {
            return;
        }
        life.stalled = stalled;
        let netdev = interface.netdev();
        netdev.info(if stalled {
            fmt!("Guest Rx stalled")
        } else {
            fmt!("Guest Rx ready")
        });
        netdev.set_carrier(&Rtnl::lock(), !stalled);
    }

    /// Nothing is shared with the frontend any more: says so, and lets the device go if it is to.
    fn close(&self) {
        if self.removable.xchg(true, Full) {
            return;
        }
        if self.dev.has_vanished() {
            return;
        }
        if self.dev.state() == State::Closed {
            // The bus' thread looks whether the device may go when the state is written.
            let _ = store::Transaction::run(|to| to.write_again(self.dev.nodename(), c"state"));
        } else {
            self.dev.switch_state(State::Closed);
        }
    }
}
