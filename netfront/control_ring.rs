// SPDX-License-Identifier: GPL-2.0

//! The control ring of a device, by which the backend is told which packets are to come by which queue.
//!
//! One request at a time is on it, and whoever makes it waits for the answer: users want to know what came of
//! it. A backend that does not answer in time is not asked again.

use crate::hash::{
    Hashing,
    Request,
    ENTRIES,
    KEY_SIZE, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Full,
            Release, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
};
use xen::{
    compat::EOPNOTSUPP,
    evtchn::{
        Channel,
        Handler,
        Outcome, //
    },
    grant::{
        Access,
        BouncePage,
        Reserve, //
    },
    io::netif::control::{
        self,
        Control,
        Operation,
        Status, //
    },
    ring::{
        Front,
        Notify, //
    },
    thread,
    work::Completion,
    xenbus::{
        DeviceRef,
        GrantedPages, //
    },
};

/// How long an answer is waited for, in milliseconds.
const PATIENCE: u32 = 1_000;

/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// Says when the backend has answered.
#[pin_data]
struct Events {
    /// An answer is waited for.
    expected: Atomic<bool>,
    #[pin]
    answered: Completion,
}

impl Handler for Events {
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome {
        if this.expected.xchg(false, Full) {
            this.answered.complete();
            Outcome::Handled
        } else {
            Outcome::Spurious
        }
    }
}

/// What the answer is waited for with.
struct Shared {
    ring: Front<Control, GrantedPages>,
    reserve: Reserve,
    /// What the backend is to read.
    page: BouncePage,
    next_id: u16,
    /// The backend has not answered, or not as the protocol has it.
    is_dead: bool,
}

/// A control ring.
#[pin_data]
pub(crate) struct ControlRing {
    // Dropped first: then nobody tells of answers any more.
    channel: Channel<Events>,
    events: Arc<Events>,
    domain: u16,
    gref: u32,
    #[pin]
    shared: Mutex<Shared>,
}

impl ControlRing {
    /// Makes one for the backend of `dev`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENOSPC`.
    pub(crate) fn new(dev: &DeviceRef) -> Result<Arc<Self>> {
        let ring = Front::new(GrantedPages::new(dev, 0)?).map_err(|_| EINVAL)?;
        let gref = ring.memory().grefs().first().copied().ok_or(EINVAL)?;
        let shared = Shared {
            ring,
            reserve: Reserve::new(1, 1)?,
            page: BouncePage::with_patience().ok_or(ENOMEM)?,
            next_id: 0,
            is_dead: false,
        };
        let events = Arc::pin_init(
            pin_init!(Events {
                expected: Atomic::new(false),
                answered <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let name = CString::try_from_fmt(fmt!("vif{}-ctrl", dev.id()))?;
        let channel = Channel::named(dev, name, events.clone())?;
        Arc::pin_init(
            pin_init!(Self {
                channel,
                events,
                domain: dev.otherend_id(),
                gref,
                shared <- new_mutex!(shared),
            }),
            GFP_KERNEL,
        )
    }

    /// The reference of the ring's page, to tell the backend.
    pub(crate) fn gref(&self) -> u32 {
        self.gref
    }

    /// The port of its channel, to tell the backend.
    pub(crate) fn port(&self) -> u32 {
        self.channel.port()
    }

    /// Tells the backend what users have chosen, for so many queues. It may have a table already. Process
    /// context; waits for [`PATIENCE`] at most with each request that is not answered, of which there is only one.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, `EINVAL` or `ENOSPC` if the backend says so, `ETIMEDOUT` if it says nothing, `EIO` if what
    /// it says makes no sense, or if it has been given up.
    pub(crate) fn apply(&self, hashing: &Hashing, queues: u32, has_table: bool) -> Result {
        let mut shared = self.shared.lock();
        for request in hashing.requests(has_table) {
            match request {
                Request::Plain(operation, word) => {
                    self.ask(&mut shared, operation, [word, 0, 0])?;
                }
                Request::Key => {
                    // CAST: 40.
                    let size = KEY_SIZE as u32;
                    let operation = Operation::SetHashKey;
                    self.ask_with(&mut shared, operation, hashing.key(), size)?;
                }
                Request::Table => {
                    let bytes = hashing.table_bytes(queues);
                    // CAST: 128.
                    let entries = ENTRIES as u32;
                    let operation = Operation::SetHashMapping;
                    self.ask_with(&mut shared, operation, &bytes, entries)?;
                }
            }
        }
        Ok(())
    }

    /// Makes a request with bytes that the backend may read until it has answered.
    fn ask_with(
        &self,
        shared: &mut Shared,
        operation: Operation,
        bytes: &[u8],
        count: u32,
    ) -> Result<u32> {
        if !shared.page.write(0, bytes) {
            return Err(EINVAL);
        }
        let grant = shared
            .reserve
            .grant(self.domain, &shared.page, Access::ReadOnly)
            .ok_or(ENOSPC)?;
        let result = self.ask(shared, operation, [grant.gref(), count, 0]);
        // If the backend has it mapped, which it should not, it keeps the page.
        if shared.reserve.end(grant).is_err() {
            shared.is_dead = true;
        }
        result
    }

    /// Makes a request and waits for the answer.
    fn ask(&self, shared: &mut Shared, operation: Operation, words: [u32; 3]) -> Result<u32> {
        if shared.is_dead {
            return Err(EIO);
        }
        // Until it has answered it cannot be told what it makes of the next one.
        shared.is_dead = true;
        let id = shared.next_id;
        shared.next_id = id.wrapping_add(1);
        let request = control::Request::new(id, operation, words);
        shared.ring.reserve().ok_or(EIO)?.fill(&request);
        self.events.expected.store(true, Release);
        if let Notify::Needed = shared.ring.push() {
            self.channel.notify();
        }
        let response = self.answer(shared)?;
        if !response.answers(&request) {
            return Err(EIO);
        }
        shared.is_dead = false;
        match Status::from_wire(response.status) {
            Some(Status::Success) => Ok(response.word),
            Some(Status::NotSupported) => Err(EOPNOTSUPP),
            Some(Status::InvalidParameter) => Err(EINVAL),
            Some(Status::BufferOverflow) => Err(ENOSPC),
            None => Err(EIO),
        }
    }

    /// Waits for the answer to the only request that there is.
    fn answer(&self, shared: &mut Shared) -> Result<control::Response> {
        let start = thread::now();
        let patience = u64::from(PATIENCE) * MILLISECOND;
        loop {
            if let Some(response) = shared.ring.next_response().map_err(|_| EIO)? {
                return Ok(response);
            }
            if shared.ring.wait_for_responses().map_err(|_| EIO)? {
                continue;
            }
            let waited = thread::now().wrapping_sub(start);
            if waited >= patience {
                return Err(ETIMEDOUT);
            }
            // CAST: No more than `PATIENCE`.
            let left = (patience - waited).div_ceil(MILLISECOND) as u32;
            let _ = self.events.answered.wait_within(left);
            self.events.expected.store(true, Release);
        }
    }
}
