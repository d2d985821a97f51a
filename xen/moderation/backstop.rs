// SPDX-License-Identifier: GPL-2.0

//! The timer that ends a hold-off.
//!
//! Hold-offs come by the ten thousand a second, and end in time. Were the timer started for each and
//! cancelled, that would cost a guest two hypercalls or more; so it is started for one of them and then
//! left alone. When it fires, it sees whether the hold-off that is there by then has lasted long enough,
//! and otherwise goes on until that is so. It fires about once in `usecs` while events are held off, and
//! not at all otherwise.
//!
//! How that is done without ever losing a hold-off is searched for mistakes in `model.rs`.
//!
//! C header: [`include/linux/hrtimer.h`](srctree/include/linux/hrtimer.h)

use crate::{
    bindings, compat,
    thread::{
        now,
        Signal, //
    },
};
use core::marker::PhantomPinned;
use kernel::{
    container_of,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
    types::Opaque, //
};

/// What is told that a hold-off has lasted long enough.
pub trait Expire: Send + Sync + 'static {
    /// Looks for messages, and asks for events anew.
    ///
    /// # Context
    ///
    /// Interrupts are disabled.
    fn expired(this: ArcBorrow<'_, Self>);
}

/// A thread is woken.
impl Expire for Signal {
    fn expired(this: ArcBorrow<'_, Self>) {
        this.raise();
    }
}

/// Ends the hold-offs of one ring.
///
/// Dropping it waits for [`Expire::expired`], if that is running. Not with a lock held that it takes.
pub struct Backstop<T: Expire>(Pin<KBox<Inner<T>>>);

/// No hold-off.
const NONE: u64 = 0;

#[pin_data(PinnedDrop)]
struct Inner<T: Expire> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    /// When the hold-off ends, in nanoseconds since the machine was started; [`NONE`] if there is none.
    deadline: Atomic<u64>,
    /// The timer runs, or its function does and has not decided otherwise.
    running: Atomic<bool>,
    owner: Arc<T>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The timer's functions may be called from any thread; the rest is atomic or `Send`.
unsafe impl<T: Expire> Send for Inner<T> {}
// SAFETY: As above.
unsafe impl<T: Expire> Sync for Inner<T> {}

impl<T: Expire> Backstop<T> {
    /// One that is not running.
    pub fn new(owner: Arc<T>) -> Result<Self> {
        let inner = KBox::pin_init(
            pin_init!(Inner {
                timer <- Opaque::ffi_init(|timer| {
                    // SAFETY: `timer` is valid for writes, and stays where it is.
                    unsafe {
                        bindings::hrtimer_setup(
                            timer,
                            Some(Inner::<T>::callback),
                            // CAST: 1.
                            bindings::CLOCK_MONOTONIC as bindings::clockid_t,
                            bindings::hrtimer_mode_HRTIMER_MODE_REL,
                        );
                    }
                }),
                deadline: Atomic::new(NONE),
                running: Atomic::new(false),
                owner,
                _pin: PhantomPinned,
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(inner))
    }

    /// Events are held off from now on, for at most so many nanoseconds. Any context.
    ///
    /// To be called before the last look at the ring: what comes later finds the timer running.
    #[inline]
    pub fn hold(&self, nanoseconds: u64) {
        let inner = &*self.0;
        let deadline = now().saturating_add(nanoseconds).max(1);
        inner.deadline.store(deadline, Relaxed);
        // A full barrier: the timer's function sees the deadline, or this that it does not run.
        if !inner.running.xchg(true, Full) {
            inner.start(nanoseconds);
        }
    }

    /// Events are not held off any more. Says whether that was by the timer. Any context.
    #[inline]
    pub fn release(&self) -> bool {
        let inner = &*self.0;
        let has_expired = inner.deadline.load(Relaxed) == NONE;
        if !has_expired {
            inner.deadline.store(NONE, Relaxed);
        }
        has_expired
    }
}

impl<T: Expire> Inner<T> {
    fn start(&self, nanoseconds: u64) {
        // CAST: At most `MAX_USECS`, or the time until a deadline that is no further away.
        let time = nanoseconds as bindings::ktime_t;
        // SAFETY: The timer is initialised, and stays until `drop` has cancelled it.
        unsafe {
            bindings::hrtimer_start_range_ns(
                self.timer.get(),
                time,
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL,
            );
        }
    }

    /// # Safety
    ///
    /// `timer` must be that of an `Inner<T>`.
    unsafe extern "C" fn callback(timer: *mut bindings::hrtimer) -> bindings::hrtimer_restart {
        // SAFETY: By this function's requirements; `Opaque` has the same layout.
        let inner = unsafe { &*container_of!(Opaque::cast_from(timer), Self, timer) };
        inner.fire();
        // `start` has been called if it is to go on.
        compat::HRTIMER_NORESTART
    }

    fn fire(&self) {
        loop {
            let deadline = self.deadline.load(Relaxed);
            if deadline == NONE {
                self.running.xchg(false, Full);
                // Whoever began a hold-off just now may have taken the timer for one that goes on.
                if self.deadline.load(Relaxed) == NONE || self.running.xchg(true, Full) {
                    return;
                }
                continue;
            }
            let left = deadline.saturating_sub(now());
            if left > 0 {
                self.start(left);
                return;
            }
            // If that is another hold-off's by now, it is looked at once more.
            if self.deadline.cmpxchg(deadline, NONE, Full).is_ok() {
                self.running.xchg(false, Full);
                T::expired(self.owner.as_arc_borrow());
                return;
            }
        }
    }
}

#[pinned_drop]
impl<T: Expire> PinnedDrop for Inner<T> {
    fn drop(self: Pin<&mut Self>) {
        // Nobody else starts the timer any more: its function, which may, is waited for.
        // SAFETY: The timer is initialised.
        unsafe { bindings::hrtimer_cancel(self.timer.get()) };
    }
}
