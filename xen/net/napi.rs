// SPDX-License-Identifier: GPL-2.0

//! NAPI: receiving packets by polling, for as long as there are any.

use super::{
    Netdev,
    Rtnl, //
};
use crate::bindings;
use core::ops::Deref;
use kernel::{
    container_of,
    prelude::*,
    sync::Arc,
    types::{
        NotThreadSafe,
        Opaque, //
    },
};

/// How far polling has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// As many packets were received as were allowed, and there may be more: it is to be polled again.
    More,
    /// So many packets were received, less than were allowed, and there are none left.
    All(u32),
}

/// What is polled.
pub trait Poll: Send + Sync + Sized + 'static {
    /// Receives packets, `budget` of them at most. With a budget of 0 nothing may be received; what else
    /// there is to do can be done.
    ///
    /// # Context
    ///
    /// Softirq. Never called by two processors at once.
    fn poll(&self, napi: &Polling<'_, Self>, budget: u32) -> Polled;

    /// Polling has ended: asks for events, and calls [`Napi::schedule`] if there is something to do
    /// already. Called on the same processor just after [`poll`](Self::poll) has returned
    /// [`Polled::All`].
    fn idle(&self, napi: &Napi<Self>);
}

/// Proof that a [`Napi`] is being polled by this processor: only then can packets be made and handed over, and
/// pages be taken from its pool.
pub struct Polling<'a, P: Poll> {
    napi: &'a Napi<P>,
    _not_send: NotThreadSafe,
}

impl<P: Poll> Deref for Polling<'_, P> {
    type Target = Napi<P>;

    #[inline]
    fn deref(&self) -> &Napi<P> {
        self.napi
    }
}

/// A place in the kernel's list of what is to be polled.
///
/// # Invariants
///
/// `raw` is added to `netdev` by the [`NapiGuard`] made with this value, until that is dropped.
#[pin_data]
pub struct Napi<P: Poll> {
    #[pin]
    raw: Opaque<bindings::napi_struct>,
    poller: P,
    netdev: Arc<Netdev>,
}

// SAFETY: The kernel synchronises what is called here; the poller is `Send` and `Sync`.
unsafe impl<P: Poll> Send for Napi<P> {}
// SAFETY: As above.
unsafe impl<P: Poll> Sync for Napi<P> {}

impl<P: Poll> Napi<P> {
    /// Makes one for the queue `queue` of an interface, which is not polled before
    /// [`enable`](NapiGuard::enable). Process context, with or without the lock of rtnl.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the interface has no such queue.
    pub fn new(netdev: Arc<Netdev>, queue: u32, poller: P) -> Result<(Arc<Self>, NapiGuard<P>)> {
        if queue >= netdev.most_queues() {
            return Err(EINVAL);
        }
        let napi = Arc::pin_init(
            pin_init!(Self {
                // SAFETY: All zeroes is what the kernel expects of a new one.
                raw <- Opaque::ffi_init(|slot: *mut bindings::napi_struct| unsafe {
                    slot.write_bytes(0, 1)
                }),
                poller,
                netdev,
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The interface is valid, and `raw` zeroed and pinned; it lives until the guard has
        // removed it, since that has a reference.
        unsafe {
            bindings::xen_napi_add(
                napi.netdev.as_raw(),
                napi.as_raw(),
                Some(Self::poll_callback),
            );
        }
        let guard = NapiGuard {
            napi: napi.clone(),
            queue,
            enabled: false,
        };
        Ok((napi, guard))
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::napi_struct {
        self.raw.get()
    }

    /// What is polled.
    #[inline]
    pub fn poller(&self) -> &P {
        &self.poller
    }

    /// The interface that it belongs to.
    #[inline]
    pub fn netdev(&self) -> &Netdev {
        &self.netdev
    }

    /// Has it polled, now or once more if it is being polled. Does nothing before it was enabled, or when
    /// the guard has been dropped. Any context.
    #[inline]
    pub fn schedule(&self) {
        // SAFETY: It was added by the type invariant. Once it has been disabled for good its state says
        // that it is scheduled, so that it is not.
        unsafe { bindings::xen_napi_schedule(self.as_raw()) };
    }

    unsafe extern "C" fn poll_callback(raw: *mut bindings::napi_struct, budget: c_int) -> c_int {
        // SAFETY: The kernel calls this with what `new` has added, and the guard keeps it alive.
        let this = unsafe { &*container_of!(Opaque::cast_from(raw), Self, raw) };
        let polling = Polling {
            napi: this,
            _not_send: NotThreadSafe,
        };
        // CAST: The kernel's budget is small and not negative.
        match this.poller.poll(&polling, budget as u32) {
            Polled::More => budget,
            Polled::All(work) => {
                // CAST: See below.
                let work = (work as c_int).clamp(0, (budget - 1).max(0));
                // Without a budget it has not ended.
                // SAFETY: It is being polled, and `work` is less than `budget`.
                if budget > 0 && unsafe { bindings::napi_complete_done(raw, work) } {
                    this.poller.idle(this);
                }
                work
            }
        }
    }
}

/// Keeps a [`Napi`] in the kernel's list. Dropping it waits for the end of polling. Process context, without the
/// lock of rtnl unless it was [disabled](Self::disable).
///
/// # Invariants
///
/// `napi` was added to its interface, and `enabled` tells whether it is polled, and known to its queue.
pub struct NapiGuard<P: Poll> {
    napi: Arc<Napi<P>>,
    queue: u32,
    enabled: bool,
}

impl<P: Poll> NapiGuard<P> {
    /// Has it polled from now on, at once for the first time. Users see which queue it is for. Process
    /// context.
    pub fn enable(&mut self, _rtnl: &Rtnl) {
        if !core::mem::replace(&mut self.enabled, true) {
            // INVARIANT: It is enabled.
            // SAFETY: It is added and was not enabled, by the type invariant. The interface has the queue, by
            // `new`, and the lock of rtnl is held.
            unsafe {
                bindings::xen_napi_set_queue(
                    self.napi.netdev.as_raw(),
                    self.queue,
                    self.napi.as_raw(),
                );
                bindings::napi_enable(self.napi.as_raw());
            }
            self.napi.schedule();
        }
    }

    /// Ends polling, if it was enabled, and waits for the end. Process context.
    pub fn disable(&mut self, _rtnl: &Rtnl) {
        if core::mem::replace(&mut self.enabled, false) {
            // INVARIANT: It is not enabled any more.
            // SAFETY: It was enabled by the type invariant, and the lock of rtnl is held.
            unsafe {
                bindings::xen_napi_set_queue(
                    self.napi.netdev.as_raw(),
                    self.queue,
                    core::ptr::null_mut(),
                );
                bindings::napi_disable(self.napi.as_raw());
            }
        }
    }
}

impl<P: Poll> Drop for NapiGuard<P> {
    fn drop(&mut self) {
        if self.enabled {
            self.disable(&Rtnl::lock());
        }
        // SAFETY: It is added by the type invariant, and not enabled. This waits for whoever may still see
        // it.
        unsafe { bindings::xen_napi_del(self.napi.as_raw()) };
    }
}
