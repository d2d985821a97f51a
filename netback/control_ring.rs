// SPDX-License-Identifier: GPL-2.0

//! The control ring of a device, by which its frontend says which packets go to which queue.

use crate::{
    backend::Backend,
    control::{
        Command,
        Granted,
        Reply,
        MOST_GRANTED, //
    },
    failure::{
        Failure,
        Fault, //
    },
    features,
    rules::Rules,
    WORK, //
};
use kernel::{
    new_mutex, new_work,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    },
};
use xen::{
    evtchn::{
        Channel,
        Handler,
        Outcome, //
    },
    grant::{
        BouncePage,
        Copier,
        Copy,
        Direction, //
    },
    io::netif::control::{
        Control,
        Request,
        Status,
        SLOTS, //
    },
    ring::{
        AttachError,
        Back,
        Notify, //
    },
    work,
    xenbus::{
        DeviceRef,
        MappedPages, //
    },
};

/// What is shared with the frontend.
struct Shared {
    ring: Back<Control, MappedPages>,
    channel: Channel<Events>,
    copier: Copier,
    /// Where memory of the guest is copied to.
    page: BouncePage,
    bytes: KVec<u8>,
    /// There has been a request since the last event was dealt with.
    useful: bool,
}

/// Who serves the ring, in process context: memory of the guest may have to be waited for.
#[pin_data]
struct Server {
    backend: Arc<Backend>,
    rules: Arc<Rules>,
    queues: u32,
    /// An event has come that was not dealt with.
    owed: Atomic<bool>,
    #[pin]
    shared: Mutex<Option<Shared>>,
    #[pin]
    work: Work<Server>,
}

impl_has_work! {
    impl HasWork<Self> for Server { self.work }
}

impl WorkItem for Server {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.serve();
    }
}

/// Receiver of the channel's events.
struct Events(Arc<Server>);

impl Handler for Events {
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome {
        this.0.owed.xchg(true, Full);
        WORK.enqueue::<Arc<Server>, 0>(this.0.clone());
        Outcome::Later
    }
}

/// A control ring that is served. Dropping it waits for what is being done, and unmaps it. Process context.
pub(crate) struct ControlRing(Arc<Server>);

impl ControlRing {
    /// Maps and serves a ring, for a device of so many queues.
    ///
    /// # Errors
    ///
    /// The ring or its channel cannot be used, or there is no memory.
    pub(crate) fn new(
        backend: &Arc<Backend>,
        dev: &DeviceRef,
        rules: &Arc<Rules>,
        keys: features::ControlRing,
        queues: u32,
    ) -> Result<Self, Failure> {
        let allocating = |errno| Failure::Errno("allocating memory", errno);
        let mapping = |errno| Failure::ControlRing(keys.gref, keys.port, errno);
        let server = Arc::pin_init(
            pin_init!(Server {
                backend: backend.clone(),
                rules: rules.clone(),
                queues,
                owed: Atomic::new(false),
                shared <- new_mutex!(None),
                work <- new_work!("netback::control_ring::Server::work"),
            }),
            GFP_KERNEL,
        )
        .map_err(allocating)?;
        let pages = MappedPages::new(dev, &[keys.gref]).map_err(mapping)?;
        let ring = Back::attach(pages).map_err(|error| match error {
            AttachError::TooSmall => mapping(EINVAL),
            AttachError::Impossible(impossible) => Failure::Ring(impossible),
        })?;
        let mut bytes = KVec::with_capacity(MOST_GRANTED, GFP_KERNEL)?;
        bytes
            .extend_with(MOST_GRANTED, 0, GFP_KERNEL)
            .map_err(Failure::from)?;
        let copier = Copier::new(dev.otherend_id()).map_err(allocating)?;
        let page =
            BouncePage::with_patience().ok_or(Failure::Errno("allocating memory", ENOMEM))?;
        let name = CString::try_from_fmt(fmt!("xen-netback-ctrl"))
            .map_err(|errno| Failure::Errno("allocating memory", errno))?;
        let handler = Arc::new(Events(server.clone()), GFP_KERNEL)?;
        let channel = Channel::to_remote(dev, keys.port, name, handler).map_err(mapping)?;
        *server.shared.lock() = Some(Shared {
            ring,
            channel,
            copier,
            page,
            bytes,
            useful: false,
        });
        // There may be requests already, as there was no channel yet when they were made.
        WORK.enqueue::<Arc<Server>, 0>(server.clone());
        Ok(Self(server))
    }
}

impl Drop for ControlRing {
    fn drop(&mut self) {
        let shared = self.0.shared.lock().take();
        // The channel is dropped without the lock: nothing is queued any more afterwards.
        drop(shared);
        work::flush::<Server, 0>(&self.0);
    }
}

impl Server {
    /// Serves requests, as many as a ring has at most.
    fn serve(self: &Arc<Self>) {
        let mut guard = self.shared.lock();
        let Some(shared) = &mut *guard else {
            return;
        };
        match self.serve_some(shared) {
            Ok(true) => WORK.enqueue::<Arc<Server>, 0>(self.clone()),
            Ok(false) => {
                let outcome = if core::mem::replace(&mut shared.useful, false) {
                    Outcome::Handled
                } else {
                    Outcome::Spurious
                };
                if self.owed.xchg(false, Full) {
                    shared.channel.dealt_with(outcome);
                }
            }
            Err(fault) => {
                drop(guard);
                self.backend.fail(fault);
            }
        }
    }

    /// Says whether there are more.
    fn serve_some(&self, shared: &mut Shared) -> Result<bool, Fault> {
        for _ in 0..SLOTS {
            let next = shared.ring.next_request();
            let Some(request) = next.map_err(Fault::ControlProducer)? else {
                break;
            };
            shared.useful = true;
            let reply = self.reply(&request, shared);
            // The request was just taken.
            let _ = shared.ring.respond(&reply.to(&request));
            if shared.ring.push() == Notify::Needed {
                shared.channel.notify();
            }
        }
        shared
            .ring
            .wait_for_requests()
            .map_err(Fault::ControlProducer)
    }

    fn reply(&self, request: &Request, shared: &mut Shared) -> Reply {
        let command = match Command::decode(request) {
            Ok(command) => command,
            Err(status) => return status.into(),
        };
        let length = match command.granted() {
            None => 0,
            Some(granted) if shared.copy(granted) => granted.bytes,
            Some(_) => return Status::InvalidParameter.into(),
        };
        let bytes = shared.bytes.get(..length).unwrap_or(&[]);
        self.rules
            .with_hashing(|hashing| command.execute(hashing, bytes, self.queues))
    }
}

impl Shared {
    /// Copies memory of the guest; [`false`] if it has not granted it.
    fn copy(&mut self, granted: Granted) -> bool {
        let copy = Copy {
            gref: granted.gref,
            page: &self.page,
            offset: 0,
            // CAST: A few hundred.
            length: granted.bytes as u32,
        };
        let copied = self.copier.copy(Direction::FromGrant, [copy]);
        let Some(bytes) = self.bytes.get_mut(..granted.bytes) else {
            return false;
        };
        copied.is_ok() && self.page.read(0, bytes)
    }
}
