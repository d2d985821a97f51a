// SPDX-License-Identifier: GPL-2.0

//! A device from its appearance to its removal.
//!
//! The bus tells of every change on one thread that serves all devices of the domain. Nothing is done
//! there but to take note: each device has work of its own, one step at a time, because it may have to
//! wait for its block device, which another guest's must not.
//!
//! Ending a connection waits for what the block device is doing. If that takes long, whoever takes the
//! device away does not wait for it: the work goes on by itself, and the module stays until it is done.

use crate::{
    connection::{
        Agreement,
        Connection,
        Offer,
        Rings, //
    },
    disk::Disk,
    failure::Failure,
    files::Files,
    mover::MAX_SEGMENTS,
    statistics::Statistics,
    MAX_QUEUES,
    MAX_RING_PAGE_ORDER,
    MODERATION,
    WORK, //
};
use kernel::{
    device, new_mutex, new_work,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc,
        Mutex,
        MutexGuard, //
    },
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    },
};
use xen::{
    blk::DeviceNumber,
    domain,
    moderation::{
        Live,
        Moderated,
        Setting, //
    },
    work::{
        self,
        Completion, //
    },
    xenbus::{
        self,
        store,
        DeviceRef,
        State,
        Watch,
        WatchHandler,
        WatchThread, //
    },
};

/// How long whoever unbinds the driver waits for the block device, in milliseconds.
const PATIENCE: u32 = 30_000;

/// What there is of the device.
struct Life {
    disk: Option<Arc<Disk>>,
    connection: Option<Connection>,
    /// A device number that was refused, for the disk has another one.
    refused: Option<DeviceNumber>,
    /// Opening the block device has failed, with what is in xenstore now.
    unusable: Option<DeviceNumber>,
    /// The block device has been seen to be gone.
    gone: bool,
}

/// A device.
#[pin_data]
pub(crate) struct Backend {
    dev: DeviceRef,
    /// The frontend's directory.
    otherend: CString,
    offer: Offer,
    statistics: Arc<Statistics>,
    /// What is set of events.
    live: Live,
    /// ... and is to be known by the rings at once.
    set: Atomic<bool>,

    /// The frontend's state, as last heard of.
    #[pin]
    peer: Mutex<State>,
    /// It has been heard of since something was last made of it.
    news: Atomic<bool>,
    /// What has gone wrong at a ring.
    #[pin]
    fault: Mutex<Option<Failure>>,
    /// Flushes turned out not to work.
    flush_lost: Atomic<bool>,
    /// The device is closed, and may be taken off the bus.
    removable: Atomic<bool>,
    /// The device is losing its driver.
    leaving: Atomic<bool>,
    /// ... and everything that it was has gone.
    #[pin]
    left: Completion,

    #[pin]
    life: Mutex<Life>,
    #[pin]
    files: Mutex<Option<Files>>,
    #[pin]
    watches: Mutex<KVec<Watch<Backend>>>,

    #[pin]
    work: Work<Backend>,
}

impl_has_work! {
    impl HasWork<Self> for Backend { self.work }
}

impl WorkItem for Backend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.advance();
    }
}

impl WatchHandler for Backend {
    fn changed(this: &Arc<Self>, thread: &WatchThread) {
        if this.may_be_removed() {
            thread.unregister(&this.dev);
        }
    }
}

impl Moderated for Backend {
    fn live(&self) -> &Live {
        &self.live
    }

    fn device(&self) -> &DeviceRef {
        &self.dev
    }

    fn changed(self: &Arc<Self>, _setting: Setting) -> Result {
        self.set.store(true, Release);
        self.kick();
        Ok(())
    }
}

/// The device's driver has it. Dropped, nobody is told of changes any more.
pub(crate) struct Bound(Arc<Backend>);

impl Bound {
    /// A device has appeared.
    pub(crate) fn new(dev: &xenbus::Device<device::Core<'_>>) -> Result<Self> {
        let max_queues = match MAX_QUEUES.get() {
            0 => domain::online_cpus(),
            queues => queues,
        };
        let offer = Offer {
            max_queues,
            max_order: MAX_RING_PAGE_ORDER.get().try_into().unwrap_or(0),
        };
        let otherend = dev.with_otherend(|dir| CString::try_from(dir))?;
        let backend = Arc::pin_init(
            try_pin_init!(Backend {
                dev: DeviceRef::from(dev),
                otherend,
                offer,
                statistics: Statistics::new()?,
                live: Live::new(&MODERATION),
                set: Atomic::new(false),
                peer <- new_mutex!(State::Unknown),
                news: Atomic::new(false),
                fault <- new_mutex!(None),
                flush_lost: Atomic::new(false),
                removable: Atomic::new(false),
                leaving: Atomic::new(false),
                left <- Completion::new(),
                life <- new_mutex!(Life {
                    disk: None,
                    connection: None,
                    refused: None,
                    unusable: None,
                    gone: false,
                }),
                files <- new_mutex!(None),
                watches <- new_mutex!(KVec::new()),
                work <- new_work!("blkback::Backend::work"),
            }? Error),
            GFP_KERNEL,
        )?;
        store::Transaction::run(|transaction| {
            let node = dev.nodename();
            transaction.write(
                node,
                c"feature-max-indirect-segments",
                fmt!("{MAX_SEGMENTS}"),
            )?;
            transaction.write(node, c"multi-queue-max-queues", fmt!("{max_queues}"))?;
            transaction.write(node, c"max-ring-page-order", fmt!("{}", offer.max_order))
        })?;
        let mut watches = KVec::with_capacity(3, GFP_KERNEL)?;
        for key in [c"physical-device", c"online", c"state"] {
            let watch = Watch::new(dev.nodename(), key, backend.clone())?;
            watches.push(watch, GFP_KERNEL)?;
        }
        *backend.watches.lock() = watches;
        dev.switch_state(State::InitWait);
        Ok(Self(backend))
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
        self.0.forget_watches();
    }
}

impl Backend {
    /// The frontend has written its state.
    pub(crate) fn otherend_changed(self: &Arc<Self>, state: State) {
        *self.peer.lock() = state;
        self.news.store(true, Release);
        self.kick();
    }

    /// Has the device's work look at everything again. Any context.
    fn kick(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, 0>(self.clone());
    }

    /// A ring cannot go on.
    pub(crate) fn fail(self: &Arc<Self>, failure: Failure) {
        let mut fault = self.fault.lock();
        if fault.is_none() {
            *fault = Some(failure);
        }
        drop(fault);
        self.kick();
    }

    /// The block device does not flush, although it said so.
    pub(crate) fn flush_lost(self: &Arc<Self>, disk: &Disk) {
        if !disk.flush_lost.xchg(true, Full) {
            self.flush_lost.store(true, Release);
            self.kick();
        }
    }

    /// Called about once a second while there is a connection.
    pub(crate) fn look_after(self: &Arc<Self>, disk: &Disk) {
        let unreadable = *self.peer.lock() == State::Unknown;
        if unreadable || disk.is_resized() || disk.device.has_gone() {
            self.kick();
        }
    }

    /// Whether the device is to be taken off the bus. On the bus' thread.
    fn may_be_removed(self: &Arc<Self>) -> bool {
        self.kick();
        if !self.removable.load(Acquire) || self.leaving.load(Acquire) {
            return false;
        }
        match *self.peer.lock() {
            State::Unknown => true,
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

    /// Removes the watches, without the lock: a handler may be running.
    fn forget_watches(&self) {
        let watches = core::mem::replace(&mut *self.watches.lock(), KVec::new());
        drop(watches);
    }

    /// Removes the files in sysfs, without the lock: somebody may be reading one.
    fn remove_files(&self) {
        let files = self.files.lock().take();
        drop(files);
    }

    /// The device loses its driver. When this returns nothing is shared with the frontend any more, or
    /// the frontend has gone.
    pub(crate) fn unbind(self: &Arc<Self>, dev: &xenbus::Device<device::Core<'_>>) {
        self.forget_watches();
        self.leaving.store(true, Release);
        self.remove_files();
        self.kick();
        // The bus' thread, which finds directories gone, must not wait for a block device.
        let patience = match *self.peer.lock() {
            State::Unknown => 0,
            _ if dev.has_vanished() => 0,
            _ => PATIENCE,
        };
        if self.left.wait_within(patience) {
            work::flush::<Self, 0>(self);
        } else if patience > 0 {
            dev_warn!(
                dev.as_ref(),
                "the block device has not finished for {} s, going on without waiting for it\n",
                PATIENCE / 1000
            );
        }
    }

    /// Brings the device to where its own state and the frontend's say that it should be.
    fn advance(self: &Arc<Self>) {
        let mut life = self.life.lock();
        if self.leaving.load(Acquire) {
            let connection = life.connection.take();
            let disk = life.disk.take();
            drop(life);
            drop(connection);
            drop(disk);
            self.left.complete_all();
            return;
        }
        let fault = self.fault.lock().take();
        if let Some(fault) = fault {
            self.dev.fatal(fault.errno(), fmt!("{fault}"));
        }
        self.look_for_device(&mut life);

        let news = self.news.xchg(false, Full);
        let peer = *self.peer.lock();
        use State::*;
        match (self.dev.state(), peer) {
            (Closed, Initialising) => {
                dev_info!(
                    self.dev.as_ref(),
                    "{}: prepare for reconnect\n",
                    self.dev.nodename()
                );
                self.removable.store(false, Release);
                self.dev.switch_state(InitWait);
            }
            (_, Initialising | InitWait) => {}

            (Connected, Initialised | Connected) => self.refresh(&mut life),
            (_, Initialised | Connected) => {
                if let Some(disk) = life.disk.clone() {
                    if news || life.connection.is_none() && self.dev.state() != Closing {
                        self.connect(&mut life, &disk);
                    }
                } else {
                    // The block device is not there yet.
                    self.keep_news(news);
                }
            }

            (_, Closing) => self.dev.switch_state(Closing),
            (_, Closed) => {
                // The hotplug script may be about to take the block device away.
                let disk = if self.is_online() {
                    None
                } else {
                    life.disk.take()
                };
                self.disconnect(life);
                if disk.is_some() {
                    self.remove_files();
                }
                drop(disk);
                self.close();
            }
            // The state may just have been unreadable; that it is not there is final.
            (_, Unknown) if news && store::is_missing(&self.otherend, c"state") => {
                self.disconnect(life);
                self.close();
            }
            // To be looked at again: soon, if there is a ring.
            (_, Unknown) => self.keep_news(news),
            (_, Reconfiguring | Reconfigured) => {
                let failure = Failure::State(peer);
                self.dev.fatal(failure.errno(), fmt!("{failure}"));
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

    /// Opens the block device once the hotplug script has written its number.
    fn look_for_device(self: &Arc<Self>, life: &mut Life) {
        if self.removable.load(Acquire) {
            return;
        }
        let number = match Disk::number(self.dev.nodename()) {
            Ok(Some(number)) => number,
            Ok(None) => return,
            Err(failure) => {
                if life.disk.is_none() && self.dev.state() != State::Closing {
                    self.dev.fatal(failure.errno(), fmt!("{failure}"));
                }
                return;
            }
        };
        if let Some(disk) = &life.disk {
            if disk.number != number && life.refused != Some(number) {
                life.refused = Some(number);
                pr_warn!(
                    "changing physical device (from {} to {number}) not supported.\n",
                    disk.number
                );
            }
            return;
        }
        if life.unusable == Some(number) {
            return;
        }
        match self.open(number) {
            Ok(disk) => life.disk = Some(disk),
            Err(failure) => {
                life.unusable = Some(number);
                self.dev.fatal(failure.errno(), fmt!("{failure}"));
            }
        }
    }

    fn open(self: &Arc<Self>, number: DeviceNumber) -> Result<Arc<Disk>, Failure> {
        let disk = Disk::open(self.dev.nodename(), &self.otherend, number)?;
        let mut files = self.files.lock();
        if !self.leaving.load(Acquire) {
            *files = Some(
                Files::new(
                    &self.dev,
                    disk.clone(),
                    self.statistics.clone(),
                    self.clone(),
                )
                .map_err(|errno| Failure::Errno("creating sysfs entries", errno))?,
            );
        }
        Ok(disk)
    }

    /// Shows the counters of the rings.
    fn show_rings(&self) {
        let mut files = self.files.lock();
        if let Some(files) = &mut *files {
            if let Err(errno) = files.add_rings(&self.dev, &self.statistics) {
                dev_warn!(
                    self.dev.as_ref(),
                    "statistics of a ring cannot be shown: error {}\n",
                    errno.to_errno()
                );
            }
        }
    }

    /// Maps the rings and serves them.
    fn connect(self: &Arc<Self>, life: &mut Life, disk: &Arc<Disk>) {
        life.connection = None;
        match self.make_connection(disk) {
            Ok(connection) => {
                life.connection = Some(connection);
                self.removable.store(false, Release);
                self.show_rings();
            }
            // Nobody is there to be told.
            Err(_) if self.leaving.load(Acquire) || self.dev.has_vanished() => {}
            Err(failure) => self.dev.fatal(failure.errno(), fmt!("{failure}")),
        }
    }

    fn make_connection(self: &Arc<Self>, disk: &Arc<Disk>) -> Result<Connection, Failure> {
        self.live.read_keys(self.dev.nodename())?;
        let agreement = Agreement::read(&self.dev, &self.otherend, self.offer)?;
        let name = self.thread_name()?;
        let rings = Rings::open(
            self,
            &self.dev,
            &self.otherend,
            disk,
            agreement,
            &self.statistics,
            &name,
        )?;
        // What this domain has read of the disk will not be true any more.
        disk.device
            .drop_cache()
            .map_err(|errno| Failure::Errno("block flush", errno))?;
        if self.leaving.load(Acquire) || self.dev.has_vanished() {
            return Err(Failure::Errno("connecting", ENODEV));
        }
        let sectors = store::Transaction::run(|transaction| {
            let node = self.dev.nodename();
            // Somebody may have removed the device, which writing would bring back in part.
            transaction.require(node, c"state")?;
            let persistent = u32::from(agreement.offers_persistent);
            transaction.write(node, c"feature-persistent", fmt!("{persistent}"))?;
            disk.write_keys(transaction, node)
        })
        .map_err(|errno| Failure::Errno("writing to xenstore", errno))?;
        disk.set_announced(sectors);
        let connection = rings.start()?;
        self.dev.switch_state(State::Connected);
        Ok(connection)
    }

    /// What the threads are called, but for the number of the ring: the guest and its disk.
    fn thread_name(&self) -> Result<CString, Failure> {
        /// What a thread's name has room for.
        const MOST: usize = 15;

        let text = store::read_text(self.dev.nodename(), c"dev")
            .map_err(|errno| Failure::Errno("reading dev", errno))?;
        let text = text.as_ref().map_or(&b"?"[..], |text| text.as_bytes());
        let text = text.strip_prefix(b"/dev/").unwrap_or(text);
        let text = core::str::from_utf8(text.get(..MOST).unwrap_or(text)).unwrap_or("?");
        CString::try_from_fmt(fmt!("{}.{text}", self.dev.otherend_id()))
            .map_err(|errno| Failure::Errno("allocating memory", errno))
    }

    /// Tells a connected frontend what has changed.
    fn refresh(&self, life: &mut Life) {
        if self.set.xchg(false, Full) {
            if let Some(connection) = &life.connection {
                connection.wake();
            }
        }
        let Some(disk) = &life.disk else { return };
        let node = self.dev.nodename();
        if self.flush_lost.xchg(false, Full) {
            let written = store::Transaction::run(|to| {
                to.require(node, c"state")?;
                disk.write_flush(to, node)
            });
            if let Err(errno) = written {
                self.dev.error(errno, fmt!("writing feature-flush-cache"));
            }
        }
        if disk.device.has_gone() {
            if !core::mem::replace(&mut life.gone, true) {
                self.dev
                    .error(ENODEV, fmt!("device {} has been removed", disk.number));
            }
        } else if disk.is_resized() {
            self.announce_size(disk);
        }
    }

    /// Tells the frontend that the disk has another size.
    fn announce_size(&self, disk: &Disk) {
        pr_info!(
            "VBD Resize: Domid: {}, Device: ({}, {})\n",
            self.dev.otherend_id(),
            disk.number.major,
            disk.number.minor
        );
        let node = self.dev.nodename();
        let written = store::Transaction::run(|to| {
            let sectors = disk.write_size(to, node)?;
            // The frontend looks at the size when it is told the state once more.
            to.write_again(node, c"state")?;
            Ok(sectors)
        });
        match written {
            Ok(sectors) => {
                disk.set_announced(sectors);
                pr_info!("VBD Resize: new size {sectors}\n");
            }
            Err(errno) => self.dev.error(errno, fmt!("writing the new size")),
        }
    }

    /// Ends the connection, without the lock: it waits for the block device.
    fn disconnect(&self, mut life: MutexGuard<'_, Life>) {
        let connection = life.connection.take();
        drop(life);
        drop(connection);
    }

    /// Nothing is shared with the frontend any more: says so, and lets the device go if it is to.
    fn close(&self) {
        if self.removable.xchg(true, Full) {
            return;
        }
        if self.leaving.load(Acquire) || self.dev.has_vanished() {
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
