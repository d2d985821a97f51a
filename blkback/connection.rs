// SPDX-License-Identifier: GPL-2.0

//! The rings of a device: what the frontend has written of them, and their threads.

use crate::{
    backend::Backend,
    disk::Disk,
    failure::Failure,
    features::{
        RingChoice,
        RingLayout, //
    },
    mover::Mover,
    ring::{
        Handle,
        Parts,
        Ring, //
    },
    statistics::Statistics,
    FEATURE_PERSISTENT, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    blk::bio::Mailbox,
    evtchn::RemoteChannel,
    io::blkif::{
        back::{
            Abi,
            Narrow,
            Wide,
            Wire, //
        },
        MAX_RING_ORDER, //
    },
    ring::Back,
    thread::{
        Signal,
        Thread, //
    },
    xenbus::{
        store,
        DeviceRef,
        MappedPages, //
    },
};

/// What was agreed on with the frontend.
#[derive(Clone, Copy)]
pub(crate) struct Agreement {
    abi: Abi,
    rings: RingLayout,
    /// What this side says of persistent grants. The parameter may change at any time.
    pub(crate) offers_persistent: bool,
    persistent: bool,
}

/// The limits that the frontend was told.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) max_queues: u32,
    pub(crate) max_order: u32,
}

impl Agreement {
    /// Reads what the frontend has chosen.
    pub(crate) fn read(dev: &DeviceRef, otherend: &CStr, offer: Offer) -> Result<Self, Failure> {
        let protocol = store::read_text(otherend, c"protocol")
            .map_err(|errno| Failure::Errno("reading protocol", errno))?;
        let Some(abi) = Abi::parse(protocol.as_ref().map(store::Text::as_bytes)) else {
            return Err(Failure::Protocol(protocol));
        };
        let offers_persistent = FEATURE_PERSISTENT.get();
        let persistent =
            offers_persistent && store::read(otherend, c"feature-persistent")?.unwrap_or(false);
        let choice = RingChoice {
            queues: store::read(otherend, c"multi-queue-num-queues")?,
            max_queues: offer.max_queues,
            order: store::read(otherend, c"ring-page-order")?,
            max_order: offer.max_order,
        };
        let rings = choice.check().map_err(Failure::Choice)?;
        let name = dev.nodename();
        let suffix = if persistent { "persistent grants" } else { "" };
        match protocol {
            Some(text) => pr_info!(
                "{name}: using {} queues, protocol {} ({text}) {suffix}\n",
                rings.rings,
                abi.number()
            ),
            None => pr_info!(
                "{name}: using {} queues, protocol {} (unspecified, assuming default) {suffix}\n",
                rings.rings,
                abi.number()
            ),
        }
        Ok(Self {
            abi,
            rings,
            offers_persistent,
            persistent,
        })
    }
}

/// A ring that is mapped, before it has a thread.
enum AnyRing {
    Wide(Ring<Wide>),
    Narrow(Ring<Narrow>),
}

/// The thread of a ring.
enum AnyThread {
    Wide(#[expect(dead_code, reason = "dropped")] Thread<Ring<Wide>>),
    Narrow(#[expect(dead_code, reason = "dropped")] Thread<Ring<Narrow>>),
}

struct Prepared {
    ring: AnyRing,
    signal: Arc<Signal>,
    handle: Arc<Handle>,
    name: CString,
}

/// Rings that are mapped, with their channels. Nothing is taken from them yet.
pub(crate) struct Rings(KVec<Prepared>);

impl Rings {
    /// Maps all rings and binds their channels.
    pub(crate) fn open(
        backend: &Arc<Backend>,
        dev: &DeviceRef,
        otherend: &CStr,
        disk: &Arc<Disk>,
        agreement: Agreement,
        statistics: &Statistics,
        name: &CStr,
    ) -> Result<Self, Failure> {
        let layout = agreement.rings;
        let mut rings = KVec::with_capacity(layout.rings as usize, GFP_KERNEL)?;
        for index in 0..layout.rings {
            let own;
            let dir = if layout.own_directories {
                own = CString::try_from_fmt(fmt!("{otherend}/queue-{index}"))
                    .map_err(|errno| Failure::Errno("allocating memory", errno))?;
                &*own
            } else {
                otherend
            };
            let keys = Keys::read(dir, layout)?;
            let name = CString::try_from_fmt(fmt!("{name}-{index}"))
                .map_err(|errno| Failure::Errno("allocating memory", errno))?;
            let signal = Signal::new().map_err(allocating)?;
            let handle = Handle::new(signal.clone()).map_err(allocating)?;
            let context = Context {
                backend,
                dev,
                disk,
                agreement,
                statistics,
                signal: &signal,
                handle: &handle,
                index,
                name: &name,
            };
            let ring = match agreement.abi {
                Abi::Native | Abi::X86_64 => AnyRing::Wide(context.open(&keys)?),
                Abi::X86_32 => AnyRing::Narrow(context.open(&keys)?),
            };
            rings.push(
                Prepared {
                    ring,
                    signal,
                    handle,
                    name,
                },
                GFP_KERNEL,
            )?;
        }
        Ok(Self(rings))
    }

    /// Gives each ring a thread.
    pub(crate) fn start(self) -> Result<Connection, Failure> {
        let mut rings = KVec::with_capacity(self.0.len(), GFP_KERNEL)?;
        for Prepared {
            ring,
            signal,
            handle,
            name,
        } in self.0
        {
            let thread = match ring {
                AnyRing::Wide(ring) => Thread::start(&name, signal, ring).map(AnyThread::Wide),
                AnyRing::Narrow(ring) => Thread::start(&name, signal, ring).map(AnyThread::Narrow),
            };
            let thread = thread.map_err(|errno| Failure::Errno("starting a thread", errno))?;
            rings.push(
                Running {
                    handle,
                    _thread: thread,
                },
                GFP_KERNEL,
            )?;
        }
        Ok(Connection(rings))
    }
}

fn allocating(errno: Error) -> Failure {
    Failure::Errno("allocating memory", errno)
}

/// What the frontend has written of a ring.
struct Keys {
    grefs: [u32; 1 << MAX_RING_ORDER],
    pages: usize,
    port: u32,
}

impl Keys {
    fn read(dir: &CStr, layout: RingLayout) -> Result<Self, Failure> {
        let mut grefs = [0; 1 << MAX_RING_ORDER];
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        let pages = layout.pages as usize;
        for (page, gref) in grefs.iter_mut().take(pages).enumerate() {
            if layout.numbered {
                let key = CString::try_from_fmt(fmt!("ring-ref{page}")).map_err(allocating)?;
                *gref = store::require_numbered(dir, &key, c"ring-ref")?;
            } else {
                *gref = store::require(dir, c"ring-ref")?;
            }
        }
        Ok(Self {
            grefs,
            pages,
            port: store::require(dir, c"event-channel")?,
        })
    }
}

/// Where a ring belongs.
struct Context<'a> {
    backend: &'a Arc<Backend>,
    dev: &'a DeviceRef,
    disk: &'a Arc<Disk>,
    agreement: Agreement,
    statistics: &'a Statistics,
    signal: &'a Arc<Signal>,
    handle: &'a Arc<Handle>,
    index: u32,
    name: &'a CString,
}

impl Context<'_> {
    fn open<W: Wire + 'static>(&self, keys: &Keys) -> Result<Ring<W>, Failure> {
        let grefs = keys.grefs.get(..keys.pages).unwrap_or(&[]);
        let pages = MappedPages::new(self.dev, grefs)
            .map_err(|errno| Failure::Mapping(keys.port, errno))?;
        let back = Back::<W, _>::attach(pages).map_err(|error| match error {
            xen::ring::AttachError::TooSmall => Failure::Errno("ring without slots", EINVAL),
            xen::ring::AttachError::Impossible(impossible) => Failure::Ring(impossible),
        })?;
        let channel =
            RemoteChannel::bind(self.dev, keys.port, c"blkif-backend", self.signal.clone())
                .map_err(|errno| Failure::Mapping(keys.port, errno))?;
        let parts = Parts {
            channel,
            back,
            mover: Mover::new(self.dev.otherend_id(), self.agreement.persistent)
                .map_err(allocating)?,
            mailbox: Mailbox::new(self.signal.clone()).map_err(allocating)?,
            disk: self.disk.clone(),
            backend: self.backend.clone(),
            counters: self
                .statistics
                .ring(self.index as usize)
                .map_err(allocating)?,
            handle: self.handle.clone(),
            index: self.index,
            name: CString::try_from_fmt(fmt!("{}", **self.name)).map_err(allocating)?,
        };
        Ring::new(parts).map_err(allocating)
    }
}

struct Running {
    handle: Arc<Handle>,
    _thread: AnyThread,
}

/// Rings that are served by their threads.
///
/// Dropping them ends the threads, once the block device is done with what is under way, and unmaps
/// everything. Process context.
pub(crate) struct Connection(KVec<Running>);

impl Connection {
    /// Has all threads look at what is set.
    pub(crate) fn wake(&self) {
        for ring in &self.0 {
            ring.handle.wake();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // All at once, before the first one is waited for.
        for ring in &self.0 {
            ring.handle.close();
        }
    }
}
