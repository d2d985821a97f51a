// SPDX-License-Identifier: GPL-2.0

//! Channels that the other end has made.

use crate::{
    bindings,
    compat,
    thread::Signal,
    xenbus::DeviceRef, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    types::ForeignOwnable, //
};

struct Events {
    signal: Arc<Signal>,
    /// An event has come whose end the kernel has not been told.
    owed: Atomic<bool>,
}

/// A channel to the other end of a device, made by that end, whose events wake a thread.
///
/// The channel stays silent from an event until the thread says by [`end`](Self::end) that it has
/// dealt with it. Dropping it closes the channel. Process context.
///
/// # Invariants
///
/// `irq` is bound to the channel, with `callback` and `argument`, which is a reference to `events`.
pub struct RemoteChannel {
    irq: c_uint,
    argument: *mut c_void,
    events: Arc<Events>,
    /// The kernel counts events for it.
    _dev: DeviceRef,
}

// SAFETY: `argument` is an `Arc` of what is `Send` and `Sync`; so is the rest.
unsafe impl Send for RemoteChannel {}
// SAFETY: As above; any number of threads may send events, and `end` is atomic.
unsafe impl Sync for RemoteChannel {}

impl RemoteChannel {
    /// Binds to a channel of the other end of `dev`, by the port that it has told. `name` is what
    /// `/proc/interrupts` shows.
    ///
    /// # Errors
    ///
    /// `EINVAL` and others of Xen's if there is no such channel, `ENOSPC`, `ENOMEM`.
    pub fn bind(
        dev: &DeviceRef,
        port: u32,
        name: &'static CStr,
        signal: Arc<Signal>,
    ) -> Result<Self> {
        let events = Arc::new(
            Events {
                signal,
                owed: Atomic::new(false),
            },
            GFP_KERNEL,
        )?;
        let argument = events.clone().into_foreign();
        // SAFETY: The callback may be called with `argument` until the interrupt is unbound, which
        // `drop` does before it gives the reference up. The device stays as long. The name is static.
        let irq = unsafe {
            bindings::bind_interdomain_evtchn_to_irqhandler_lateeoi(
                dev.as_raw(),
                port,
                Some(Self::callback),
                0,
                name.as_char_ptr(),
                argument.cast(),
            )
        };
        let Ok(irq) = c_uint::try_from(irq) else {
            // SAFETY: The binding failed, so nobody else knows the pointer.
            drop(unsafe { Arc::<Events>::from_foreign(argument) });
            return Err(Error::from_errno(irq));
        };
        // INVARIANT: It was just bound like that.
        Ok(Self {
            irq,
            argument: argument.cast(),
            events,
            _dev: dev.clone(),
        })
    }

    /// Sends an event. Any context.
    #[inline]
    pub fn notify(&self) {
        // SAFETY: `irq` is bound by the type invariant.
        unsafe { bindings::notify_remote_via_irq(self.irq as c_int) };
    }

    /// As [`Channel::set_priority`](super::Channel::set_priority).
    ///
    /// # Errors
    ///
    /// The same.
    pub fn set_priority(&self, priority: u32) -> Result {
        super::set_priority(self.irq, priority)
    }

    /// Whether an event has come that has not been [ended](Self::end).
    #[inline]
    pub fn is_owed(&self) -> bool {
        self.events.owed.load(Relaxed)
    }

    /// Lets the next event come, if one was dealt with. If there was nothing to do for it, `spurious`
    /// says so: after several of that kind in a row the kernel lets the peer wait.
    #[inline]
    pub fn end(&self, spurious: bool) {
        if !self.events.owed.xchg(false, Full) {
            return;
        }
        let flags = if spurious {
            bindings::XEN_EOI_FLAG_SPURIOUS
        } else {
            0
        };
        // SAFETY: `irq` is bound, and the event it had is ended here only, once.
        unsafe { bindings::xen_irq_lateeoi(self.irq, flags) };
    }

    /// # Safety
    ///
    /// `argument` must be what `bind` bound.
    unsafe extern "C" fn callback(_irq: c_int, argument: *mut c_void) -> bindings::irqreturn_t {
        // SAFETY: By this function's requirements it is alive until the interrupt is unbound.
        let events = unsafe { <Arc<Events> as ForeignOwnable>::borrow(argument.cast()) };
        events.owed.xchg(true, Full);
        events.signal.raise();
        compat::IRQ_HANDLED
    }
}

impl Drop for RemoteChannel {
    fn drop(&mut self) {
        // This waits for the callback and closes the channel.
        // SAFETY: `irq` is bound with `argument` by the type invariant.
        unsafe { bindings::unbind_from_irqhandler(self.irq, self.argument) };
        // SAFETY: The pointer is from `into_foreign`, and no callback can run any more.
        drop(unsafe { Arc::<Events>::from_foreign(self.argument.cast()) });
    }
}
