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
    disk::{
        self,
        Offer, //
    },
    features::{
        Flush,
        GeometryError, //
    },
    number::{
        DiskNumber,
        NumberError, //
    },
    queue::Queues,
    ring::Fault,
    Blkfront,
    WORK, //
};
use core::{
    ffi::CStr,
    fmt, //
};
use kernel::{
    alloc::AllocError,
    device, new_mutex, new_work,
    prelude::*,
    str::CString,
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
        impl_has_work,
        Work,
        WorkItem, //
    },
};
use xen::{
    blk::Disk,
    domain,
    io::blkif,
    work::{
        self,
        Completion,
        NoIoScope, //
    },
    xenbus::{
        self,
        store,
        value::AnyRadix,
        DeviceRef,
        State, //
    },
};

/// How long a device that is to go waits for the requests in flight, in milliseconds.
const PATIENCE: u32 = 30_000;

/// How often a connected backend is told that what it says makes no sense.
const MOST_COMPLAINTS: u32 = 10;

/// Why a device cannot be used.
pub(crate) enum Failure {
    /// A key in xenstore is missing or makes no sense.
    Key(store::KeyError),
    /// The virtual device number makes no sense.
    Number(u32, NumberError),
    /// The disk's size or sectors make no sense.
    Geometry(GeometryError),
    /// Another disk has the minor numbers.
    MinorsInUse(DiskNumber),
    /// Something else went wrong, while doing what is named.
    Errno(&'static str, Error),
}

impl Failure {
    fn errno(&self) -> Error {
        match self {
            Self::Key(error) => error.errno(),
            Self::Number(..) => ENODEV,
            Self::Geometry(_) => EINVAL,
            Self::MinorsInUse(_) => EBUSY,
            Self::Errno(_, errno) => *errno,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Number(number, error) => {
                write!(f, "virtual-device {number:#x} cannot be used: {error}")
            }
            Self::Geometry(error) => error.fmt(f),
            Self::MinorsInUse(number) => {
                write!(f, "the minor numbers of {number} are another disk's")
            }
            Self::Errno(what, errno) => write!(f, "{what}: error {}", errno.to_errno()),
        }
    }
}

impl From<store::KeyError> for Failure {
    fn from(error: store::KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<GeometryError> for Failure {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Errno("allocating memory", ENOMEM)
    }
}

xen::printable!(DiskNumber, Failure, Fault);

/// Which disk a device is.
#[derive(Clone, Copy)]
pub(crate) struct Identity {
    pub(crate) number: DiskNumber,
    /// What its requests call it.
    pub(crate) handle: u16,
}

/// What there is of the disk.
enum Life {
    /// Nothing yet.
    Waiting(Identity),
    /// The rings are announced.
    Announced(Arc<Queues>),
    /// The disk is there.
    Live {
        disk: Disk<Blkfront>,
        /// What the backend has last said of it.
        offer: Offer,
        /// The toolstack has been told that the disk is in use.
        refused: bool,
        /// How often it has been told that the size makes no sense.
        complaints: u32,
    },
    /// Nothing any more.
    Over,
}

/// What is known of the backend.
#[derive(Clone)]
struct Peer {
    /// Its directory, which a resumed guest may find elsewhere.
    dir: Arc<CString>,
    /// Its state as last heard of.
    state: State,
}

impl Peer {
    /// Whether nothing can be expected of it any more.
    fn has_gone(&self) -> bool {
        match self.state {
            State::Closed => true,
            // The state may just have been unreadable; that it is not there is final.
            State::Unknown => store::is_missing(&self.dir, c"state"),
            _ => false,
        }
    }
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

    /// Brings the device to where it should be.
    #[pin]
    work: Work<Frontend, ADVANCE>,
    /// Cuts the connection, which `work` may be waiting for.
    #[pin]
    cutter: Work<Frontend, SEVER>,
}

const ADVANCE: u64 = 0;
const SEVER: u64 = 1;

impl_has_work! {
    impl HasWork<Self, 0> for Frontend { self.work }
    impl HasWork<Self, 1> for Frontend { self.cutter }
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
        let peer = Peer {
            dir: shared_copy(dev.otherend())?,
            state: State::Unknown,
        };
        Arc::pin_init(
            pin_init!(Self {
                dev: DeviceRef::from(dev),
                peer <- new_mutex!(peer),
                fault <- new_mutex!(None),
                severed: Atomic::new(false),
                ready: Atomic::new(false),
                leaving: Atomic::new(false),
                left <- Completion::new(),
                life <- new_mutex!(life),
                queues <- new_mutex!(None),
                work <- new_work!("blkfront::Frontend::work"),
                cutter <- new_work!("blkfront::Frontend::cutter"),
            }),
            GFP_KERNEL,
        )
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
            if **peer.dir != *dev.otherend() {
                match shared_copy(dev.otherend()) {
                    Ok(dir) => peer.dir = dir,
                    Err(errno) => dev.error(errno, fmt!("following the backend")),
                }
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
            State::Closing | State::Closed => self.dev.frontend_closed(),
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

    /// The guest has been restored: the backend is another one. What was in flight is sent again once
    /// that has connected, which the device's work sees to. The work stands still now.
    pub(crate) fn resume(&self, dev: &xenbus::Device<device::Bound>) -> Result {
        let _scope = NoIoScope::new();
        let mut life = self.life.lock();
        match &*life {
            Life::Live { .. } => {
                let queues = self.queues.lock().clone();
                if let Some(queues) = queues {
                    queues.suspend();
                }
            }
            Life::Announced(queues) => {
                let identity = queues.identity();
                queues.cut();
                *self.queues.lock() = None;
                *life = Life::Waiting(identity);
            }
            Life::Waiting(_) | Life::Over => {}
        }
        let mut peer = self.peer.lock();
        peer.state = State::Unknown;
        peer.dir = shared_copy(dev.otherend())?;
        Ok(())
    }

    /// The device loses its driver. When this returns, nothing is shared with the backend any more.
    pub(crate) fn unbind(self: &Arc<Self>, dev: &xenbus::Device<device::Core<'_>>) {
        let _scope = NoIoScope::new();
        self.leaving.store(true, Release);
        // A backend that is closing still answers.
        let answers = matches!(self.peer.lock().state, State::Connected | State::Closing);
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
    }

    /// Ends the requests in flight, and all later ones, with an error.
    fn cut(&self) {
        self.severed.store(true, Release);
        let queues = self.queues.lock().clone();
        if let Some(queues) = queues {
            queues.cut();
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
            (Connected, Connected) => self.refresh(&mut life, &peer.dir),

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
                let queues = Queues::new(self.clone(), *identity, limits.queues, depth)
                    .map_err(|errno| Failure::Errno("allocating queues", errno))?;
                // From here on `hang_up` undoes it all.
                *self.queues.lock() = Some(queues.clone());
                queues
            }
            // After a resume the disk has its queues.
            Life::Live { .. } => match self.queues.lock().clone() {
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
        let untrusted = connection::is_untrusted(self.dev.nodename())?;
        connection::make_rings(&self.dev, &queues, limits, untrusted)?;
        connection::announce(&self.dev, &queues, limits)?;
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
                let offer = Offer::read(otherend)?;
                let mut disk = disk::make(&offer, queues)?;
                queues.open(offer.flush);
                self.dev.switch_state(State::Connected);
                self.tell(queues, &offer);
                disk.add(&self.dev)
                    .map_err(|errno| Failure::Errno("adding the disk", errno))?;
                *life = Life::Live {
                    disk,
                    offer,
                    refused: false,
                    complaints: 0,
                };
                self.ready.store(true, Release);
            }
            Life::Live { disk, offer, .. } => {
                let Some(queues) = self.queues.lock().clone() else {
                    return Ok(());
                };
                *offer = Offer::read(otherend)?;
                queues.open(offer.flush);
                self.dev.switch_state(State::Connected);
                self.tell(&queues, offer);
                // This waits for the requests that were handed back. They, and those begun until
                // then, go by the old limits: what does not suit the new backend fails.
                disk.update_limits(offer.limits())
                    .map_err(|errno| Failure::Errno("changing the disk's limits", errno))?;
                self.set_capacity(disk, offer.geometry.sectors);
            }
            Life::Waiting(_) | Life::Over => {}
        }
        Ok(())
    }

    fn tell(&self, queues: &Queues, offer: &Offer) {
        pr_info!(
            "{}: {} persistent grants: disabled; indirect descriptors: disabled; bounce buffer: {};\n",
            queues.number(),
            offer.flush.name(),
            if queues.is_untrusted() { "enabled" } else { "disabled" },
        );
    }

    /// The backend has written its state once more: the disk may have another size. Or a ring has
    /// found that the backend cannot do what it offered.
    fn refresh(&self, life: &mut Life, otherend: &CStr) {
        let Life::Live {
            disk,
            offer,
            refused,
            complaints,
        } = life
        else {
            return;
        };
        *refused = false;
        let queues = self.queues.lock().clone();
        if offer.flush != Flush::None && queues.is_some_and(|q| q.flush_lost(offer.flush)) {
            offer.flush = Flush::None;
            if let Err(errno) = disk.update_limits(offer.limits()) {
                self.dev.error(errno, fmt!("changing the disk's limits"));
            }
        }
        match disk::read_sectors(otherend) {
            Ok(sectors) => self.set_capacity(disk, sectors),
            // The disk is as good as it was. The backend can do this as often as it likes, but not
            // fill the log by it.
            Err(failure) if *complaints < MOST_COMPLAINTS => {
                *complaints += 1;
                self.dev.error(failure.errno(), fmt!("{failure}"));
            }
            Err(_) => {}
        }
    }

    fn set_capacity(&self, disk: &Disk<Blkfront>, sectors: u64) {
        if sectors != disk.capacity() {
            dev_info!(self.dev.as_ref(), "Setting capacity to {sectors}\n");
            disk.set_capacity(sectors);
        }
    }

    /// The toolstack wants the disk back. It gets it once nobody has it open.
    fn close_unless_used(&self, life: &mut Life) {
        if let Life::Live { disk, refused, .. } = life {
            if disk.openers() > 0 {
                if !core::mem::replace(refused, true) {
                    self.dev
                        .error(EBUSY, fmt!("Device in use; refusing to close"));
                }
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
        let old = core::mem::replace(life, Life::Over);
        if let Life::Live { disk, .. } = &old {
            if self.severed.load(Acquire) {
                disk.mark_dead();
            }
        }
        drop(old);
        self.cut();
        *self.queues.lock() = None;
    }
}

fn shared_copy(text: &CStr) -> Result<Arc<CString>> {
    Ok(Arc::new(CString::try_from(text)?, GFP_KERNEL)?)
}

/// Which disk a device is, and what its requests call it.
fn identify(dev: &xenbus::Device<device::Core<'_>>) -> Result<Identity, Failure> {
    let node = dev.nodename();
    let AnyRadix(vdevice) = match store::read(node, c"virtual-device")? {
        Some(vdevice) => vdevice,
        None => match store::read(node, c"virtual-device-ext")? {
            Some(vdevice) => vdevice,
            None => store::require(node, c"virtual-device")?,
        },
    };
    if domain::is_hvm() {
        let emulated = vdevice >> 28 == 0 && vdevice >> 8 != crate::number::XENVBD_MAJOR;
        if domain::has_emulated_disks_too() && emulated {
            pr_info!("HVM does not support vbd {vdevice} as xen block device\n");
            return Err(Failure::Errno("an emulated disk", ENODEV));
        }
        // An emulated CD-ROM drive cannot be unplugged and stays the guest's.
        let cdrom = store::read_text(node, c"device-type")
            .map_err(|errno| Failure::Errno("reading device-type", errno))?
            .is_none_or(|text| text.as_bytes().starts_with(b"cdrom"));
        if cdrom {
            return Err(Failure::Errno("an emulated CD-ROM drive", ENODEV));
        }
    }
    let number = DiskNumber::decode(vdevice).map_err(|error| Failure::Number(vdevice, error))?;
    // The directory's name is the number again, of which the protocol has the lower 16 bits.
    let handle = node
        .to_bytes()
        .rsplit(|byte| *byte == b'/')
        .next()
        .and_then(<u32 as xenbus::value::Value>::parse)
        .unwrap_or(vdevice);
    Ok(Identity {
        number,
        handle: handle as u16,
    })
}
