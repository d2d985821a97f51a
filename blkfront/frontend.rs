// SPDX-License-Identifier: GPL-2.0

//! A device from its appearance to its removal.
//!
//! The bus tells of every change on one thread that serves all devices of the guest. Nothing is done
//! there but to take note: changes are made by work of the device's own, one at a time, because
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
    features::GeometryError,
    number::{
        DiskNumber,
        NumberError, //
    },
    queue::{
        Fault,
        Queues, //
    },
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
    work::{
        self,
        Completion, //
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
    /// The device was reset while it was connected.
    Reset,
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
            Self::Reset => ENOTSUPP,
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
            Self::Reset => f.write_str("cannot reconnect a disk, as after a restore, yet"),
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
        /// The toolstack has been told that the disk is in use.
        refused: bool,
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

/// A device.
#[pin_data]
pub(crate) struct Frontend {
    dev: DeviceRef,
    #[pin]
    peer: Mutex<Peer>,
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

    #[pin]
    work: Work<Frontend>,
}

impl_has_work! {
    impl HasWork<Self> for Frontend { self.work }
}

impl WorkItem for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.advance();
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
                ready: Atomic::new(false),
                leaving: Atomic::new(false),
                left <- Completion::new(),
                life <- new_mutex!(life),
                queues <- new_mutex!(None),
                work <- new_work!("blkfront::Frontend::work"),
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
        let mut peer = self.peer.lock();
        peer.state = state;
        if **peer.dir != *dev.otherend() {
            match shared_copy(dev.otherend()) {
                Ok(dir) => peer.dir = dir,
                Err(errno) => dev.error(errno, fmt!("following the backend")),
            }
        }
        drop(peer);
        self.kick();
    }

    /// Has the device's work look at everything again. Any context.
    pub(crate) fn kick(self: &Arc<Self>) {
        WORK.enqueue::<Arc<Self>, 0>(self.clone());
    }

    /// The device loses its driver. When this returns, nothing is shared with the backend any more.
    pub(crate) fn unbind(self: &Arc<Self>, dev: &xenbus::Device<device::Core<'_>>) {
        self.leaving.store(true, Release);
        if dev.has_vanished() || self.peer.lock().state != State::Connected {
            // Nobody will answer.
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
        work::flush(&**self);
    }

    /// Ends the requests in flight, and all later ones, with an error.
    fn cut(&self) {
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
        let queues = self.queues.lock().clone();
        if let Some((fault, number)) = queues.and_then(|q| Some((q.fault()?, q.number()))) {
            self.dev.fatal(
                EIO,
                fmt!("{number}: {fault}; {number} disabled for further use"),
            );
            self.hang_up(&mut life);
        }

        let peer = self.peer.lock().clone();
        use State::*;
        let result = match (self.dev.state(), peer.state) {
            // The bus starts over when a guest is restored, or the toolstack has reset the device.
            (Initialising, _) if matches!(*life, Life::Announced(_) | Life::Live { .. }) => {
                Err(Failure::Reset)
            }
            (Initialising, InitWait) => self.announce(&mut life, &peer.dir),
            // The backend was faster than the bus.
            (Initialising, Connected) => self
                .announce(&mut life, &peer.dir)
                .and_then(|()| self.connect(&mut life, &peer.dir)),
            (Initialised, Connected) => self.connect(&mut life, &peer.dir),
            (Connected, Connected) => self.resize(&life, &peer.dir),

            (Connected, Closing) => {
                self.close_unless_used(&mut life);
                Ok(())
            }
            (Initialising | Initialised | Closing, Closing)
            | (Initialising | Initialised | Connected | Closing, Closed) => {
                self.hang_up(&mut life);
                self.dev.frontend_closed();
                Ok(())
            }
            // The state may just have been unreadable; that its directory has gone is final.
            (Initialised | Connected | Closing, Unknown) if !store::exists(&peer.dir, c"state") => {
                self.hang_up(&mut life);
                self.dev.frontend_closed();
                Ok(())
            }

            (_, Unknown | Initialising | InitWait | Initialised | Reconfiguring | Reconfigured)
            | (Unknown | InitWait | Closed | Reconfiguring | Reconfigured, _)
            | (Closing, Connected) => Ok(()),
        };
        if let Err(failure) = result {
            self.dev.fatal(failure.errno(), fmt!("{failure}"));
            self.hang_up(&mut life);
        }
    }

    /// Makes the rings and tells the backend of them.
    fn announce(self: &Arc<Self>, life: &mut Life, otherend: &CStr) -> Result<(), Failure> {
        let Life::Waiting(identity) = *life else {
            return Ok(());
        };
        let limits = connection::agree(otherend)?;
        let queues = Queues::new(self.clone(), identity, limits.queues)
            .map_err(|errno| Failure::Errno("allocating queues", errno))?;
        // From here on `hang_up` undoes it all.
        *self.queues.lock() = Some(queues.clone());
        connection::make_rings(&self.dev, &queues, limits)?;
        connection::announce(&self.dev, &queues, limits)?;
        *life = Life::Announced(queues);
        self.dev.switch_state(State::Initialised);
        Ok(())
    }

    /// The backend has connected: makes the disk.
    fn connect(&self, life: &mut Life, otherend: &CStr) -> Result<(), Failure> {
        let Life::Announced(queues) = life else {
            return Ok(());
        };
        let offer = Offer::read(otherend)?;
        queues.set_flush(offer.flush);
        let mut disk = disk::make(&offer, queues)?;
        self.dev.switch_state(State::Connected);

        pr_info!(
            "{}: {} persistent grants: disabled; indirect descriptors: disabled; bounce buffer: disabled;\n",
            queues.number(),
            offer.flush.name(),
        );
        disk.add(&self.dev)
            .map_err(|errno| Failure::Errno("adding the disk", errno))?;
        *life = Life::Live {
            disk,
            refused: false,
        };
        self.ready.store(true, Release);
        Ok(())
    }

    /// The backend has written its state once more: the disk may have another size.
    fn resize(&self, life: &Life, otherend: &CStr) -> Result<(), Failure> {
        let Life::Live { disk, .. } = life else {
            return Ok(());
        };
        match disk::read_sectors(otherend) {
            Ok(sectors) if sectors != disk.capacity() => {
                dev_info!(self.dev.as_ref(), "Setting capacity to {sectors}\n");
                disk.set_capacity(sectors);
            }
            Ok(_) => {}
            // The disk is as good as it was.
            Err(failure) => self.dev.error(failure.errno(), fmt!("{failure}")),
        }
        Ok(())
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
        if let Life::Live { disk, .. } = life {
            disk.mark_dead();
        }
        self.end(life);
    }

    /// Takes the disk away, then the rings. What is written to the disk until then still gets to the
    /// backend, unless the connection has been cut.
    fn end(&self, life: &mut Life) {
        self.ready.store(false, Release);
        drop(core::mem::replace(life, Life::Over));
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
