// SPDX-License-Identifier: GPL-2.0

//! Event channels: one domain telling another that there is something to do.
//!
//! Events are bound with a late end of interrupt: the channel stays silent from the moment its
//! [`Handler`] is called until the kernel is told that the event is dealt with. A handler says how
//! that went, and the kernel slows down a peer that sends events for nothing.
//!
//! One end makes a channel, [`Channel`], and tells the other its port, which binds to it,
//! by [`Channel::to_remote`] or, if its events do nothing but wake a thread, [`RemoteChannel`].
//!
//! C header: [`include/xen/events.h`](srctree/include/xen/events.h)

use crate::{
    bindings,
    compat,
    xenbus::DeviceRef, //
};
use core::ffi::CStr;
use kernel::{
    error::to_result,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    types::ForeignOwnable, //
};

mod remote;

pub use self::remote::RemoteChannel;

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There was something to do and it is done: the next event may come.
    Handled,
    /// There was nothing to do. After several in a row the kernel lets the peer wait.
    Spurious,
    /// It is dealt with elsewhere, and [`Channel::dealt_with`] called in the end: no event is to come
    /// until then.
    Later,
    /// No event is to come any more: the peer cannot be trusted. Lasts until the channel is dropped.
    Silence,
}

impl Outcome {
    /// With what flags the event ends, if it does.
    #[inline]
    fn flags(self) -> Option<c_uint> {
        match self {
            Self::Handled => Some(0),
            Self::Spurious => Some(bindings::XEN_EOI_FLAG_SPURIOUS),
            Self::Later | Self::Silence => None,
        }
    }
}

fn set_priority(irq: c_uint, priority: u32) -> Result {
    // SAFETY: A number that is no channel's is refused by Xen.
    to_result(unsafe { bindings::xen_set_irq_priority(irq, priority) })
}

/// Receiver of a channel's events.
pub trait Handler: Sized + Send + Sync + 'static {
    /// Deals with an event.
    ///
    /// # Context
    ///
    /// Interrupts are disabled. Never called by two processors at once for the same channel.
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome;
}

/// A channel to the other end of a device, made by this end or by that one.
///
/// Dropping it waits for a running handler, then closes the channel. Process context, and not with
/// a lock held that the handler takes.
///
/// # Invariants
///
/// `irq` is bound to the channel, with `H`'s callback and `handler` as its argument.
pub struct Channel<H: Handler> {
    irq: c_uint,
    port: bindings::evtchn_port_t,
    handler: *mut c_void,
    /// Its name, if it is not a static one. The kernel has a pointer to it.
    _name: Option<CString>,
    /// The device, if the kernel counts events for it.
    _dev: Option<DeviceRef>,
    _handler: core::marker::PhantomData<Arc<H>>,
}

// SAFETY: `handler` is an `Arc` of a type that is `Send` and `Sync`; the rest are numbers.
unsafe impl<H: Handler> Send for Channel<H> {}
// SAFETY: As above; `&self` allows nothing but sending an event, which any number of threads may.
unsafe impl<H: Handler> Sync for Channel<H> {}

impl<H: Handler> Channel<H> {
    /// Makes a channel for the other end of `dev` to bind to, whose events go to `handler`. `name`
    /// is what `/proc/interrupts` shows.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the domain has no channel left, `ENOMEM`. The device is told of the first.
    pub fn new(dev: &DeviceRef, name: &'static CStr, handler: Arc<H>) -> Result<Self> {
        // SAFETY: A static name lives as long as the channel.
        unsafe { Self::bind(dev, name.as_char_ptr(), None, handler) }
    }

    /// The same with a name that was made.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn named(dev: &DeviceRef, name: CString, handler: Arc<H>) -> Result<Self> {
        let text = name.as_char_ptr();
        // SAFETY: The channel keeps the name, whose bytes do not move with it.
        unsafe { Self::bind(dev, text, Some(name), handler) }
    }

    /// # Safety
    ///
    /// `name` must be NUL-terminated and live as long as the channel, of which `owned` is part.
    unsafe fn bind(
        dev: &DeviceRef,
        name: *const c_char,
        owned: Option<CString>,
        handler: Arc<H>,
    ) -> Result<Self> {
        let mut port = 0;
        // SAFETY: The device is valid and `port` outlives the call.
        to_result(unsafe { bindings::xenbus_alloc_evtchn(dev.as_raw(), &mut port) })?;

        let handler = handler.into_foreign();
        // SAFETY: The callback may be called with `handler` until the interrupt is unbound, which
        // `drop` does before it gives the reference up. The name lives as long by this function's
        // requirements.
        let irq = unsafe {
            bindings::bind_evtchn_to_irqhandler_lateeoi(
                port,
                Some(Self::callback),
                0,
                name,
                handler.cast(),
            )
        };
        let Ok(irq) = c_uint::try_from(irq) else {
            // SAFETY: The binding failed, so nobody else knows the pointer.
            drop(unsafe { Arc::<H>::from_foreign(handler) });
            // The port is not closed here: if it was bound before something else failed, that has
            // been done, and the number may be another channel's by now.
            return Err(Error::from_errno(irq));
        };
        // INVARIANT: It was just bound like that.
        Ok(Self {
            irq,
            port,
            handler: handler.cast(),
            _name: owned,
            _dev: None,
            _handler: core::marker::PhantomData,
        })
    }

    /// Binds to a channel that the other end of `dev` has made, by the port that it has told. The bus
    /// counts its events for the device.
    ///
    /// # Errors
    ///
    /// `EINVAL` and others of Xen's if there is no such channel, `ENOSPC`, `ENOMEM`.
    pub fn to_remote(dev: &DeviceRef, port: u32, name: CString, handler: Arc<H>) -> Result<Self> {
        let handler = handler.into_foreign();
        // SAFETY: The callback may be called with `handler` until the interrupt is unbound, which
        // `drop` does before it gives the reference up. The channel keeps the device, and the name,
        // whose bytes do not move with it.
        let irq = unsafe {
            bindings::bind_interdomain_evtchn_to_irqhandler_lateeoi(
                dev.as_raw(),
                port,
                Some(Self::callback),
                0,
                name.as_char_ptr(),
                handler.cast(),
            )
        };
        let Ok(irq) = c_uint::try_from(irq) else {
            // SAFETY: The binding failed, so nobody else knows the pointer.
            drop(unsafe { Arc::<H>::from_foreign(handler) });
            return Err(Error::from_errno(irq));
        };
        // INVARIANT: It was just bound like that.
        Ok(Self {
            irq,
            port,
            handler: handler.cast(),
            _name: Some(name),
            _dev: Some(dev.clone()),
            _handler: core::marker::PhantomData,
        })
    }

    /// The port to tell the other end, or that it has told.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends an event. Any context.
    #[inline]
    pub fn notify(&self) {
        // SAFETY: `irq` is bound by the type invariant.
        unsafe { bindings::notify_remote_via_irq(self.irq as c_int) };
    }

    /// Gives its events a priority among those of this domain, 0 to 15, of which 0 is the highest and 7
    /// what a channel has at first. Any context.
    ///
    /// # Errors
    ///
    /// `ENOSYS` if this kernel and Xen have agreed on events without priorities (two-level ones).
    pub fn set_priority(&self, priority: u32) -> Result {
        set_priority(self.irq, priority)
    }

    /// Has events handled by the processor that `place` remembers, or, if there is none, by the one that
    /// comes as number `nth` among those that are online, counted round; users can choose another one.
    /// Process context.
    pub fn prefer_cpu(&self, nth: u32, place: &Place) {
        let remembered = place.cpu.load(Relaxed);
        // SAFETY: `irq` is bound by the type invariant; `drop` takes the hint back. The function looks at
        // whether there is such a processor.
        if remembered == Place::NOWHERE
            || !unsafe { bindings::xen_irq_use_cpu(self.irq, remembered) }
        {
            // SAFETY: As above.
            unsafe { bindings::xen_irq_prefer_cpu(self.irq, nth) };
        }
    }

    /// Has `place` remember which processor handles the events now. Process context.
    pub fn remember_cpu(&self, place: &Place) {
        // SAFETY: `irq` is bound by the type invariant.
        let cpu = unsafe { bindings::xen_irq_cpu(self.irq) };
        place.cpu.store(cpu, Relaxed);
    }

    /// Says what became of an event whose handler has returned [`Outcome::Later`]. To be called once
    /// for each such event. Any context.
    pub fn dealt_with(&self, outcome: Outcome) {
        if let Some(flags) = outcome.flags() {
            // SAFETY: `irq` is bound by the type invariant.
            unsafe { bindings::xen_irq_lateeoi(self.irq, flags) };
        }
    }

    /// # Safety
    ///
    /// `irq` must be one that `new` bound, which is just being handled, and `handler` its argument.
    unsafe extern "C" fn callback(irq: c_int, handler: *mut c_void) -> bindings::irqreturn_t {
        // SAFETY: `handler` is what `new` bound, and alive until the interrupt is unbound.
        let borrowed = unsafe { <Arc<H> as ForeignOwnable>::borrow(handler.cast()) };
        if let Some(flags) = H::handle(borrowed).flags() {
            // SAFETY: `irq` is the one whose event is being handled, and nobody else ends it.
            unsafe { bindings::xen_irq_lateeoi(irq as c_uint, flags) };
        }
        compat::IRQ_HANDLED
    }
}

/// Which processor has handled a channel's events, for the channel that comes after it: users may have
/// chosen it.
pub struct Place {
    cpu: Atomic<u32>,
}

impl Place {
    /// No processor has that number.
    const NOWHERE: u32 = u32::MAX;

    /// That of a channel that there has not been yet.
    pub const fn new() -> Self {
        Self {
            cpu: Atomic::new(Self::NOWHERE),
        }
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Handler> Drop for Channel<H> {
    fn drop(&mut self) {
        // SAFETY: `irq` is bound by the type invariant.
        unsafe { bindings::xen_irq_prefer_none(self.irq) };
        // This waits for the handler and closes the port.
        // SAFETY: `irq` is bound with `handler` by the type invariant.
        unsafe { bindings::unbind_from_irqhandler(self.irq, self.handler) };
        // SAFETY: The pointer is from `into_foreign`, and no handler can run any more.
        drop(unsafe { Arc::<H>::from_foreign(self.handler.cast()) });
    }
}
