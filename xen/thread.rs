// SPDX-License-Identifier: GPL-2.0

//! Kernel threads, and waking them.
//!
//! A thread that serves several sources of work (an event channel, a block device, a timer) sleeps on
//! one [`Signal`], which each of them raises. The order is what keeps a wake-up from being lost: the
//! thread [takes](Signal::take) the signal *before* it looks for work, and sleeps only if the signal
//! has not been raised since.
//!
//! C header: [`include/linux/kthread.h`](srctree/include/linux/kthread.h)

use crate::bindings;
use core::{
    cell::Cell,
    ffi::CStr, //
};
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
};

/// The time since the machine was started, in nanoseconds. It never goes back.
#[inline]
pub fn now() -> u64 {
    // CAST: It is never negative.
    // SAFETY: The function has no requirement.
    unsafe { bindings::ktime_get() as u64 }
}

/// Whether others are to run on this processor.
#[inline]
pub fn should_yield() -> bool {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_need_resched() }
}

/// Lets the processor's sibling run for a moment.
#[inline]
pub fn relax() {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_cpu_relax() };
}

/// Wakes one thread.
pub struct Signal {
    raised: Atomic<i32>,
    /// The thread, with a reference to it, once there is one.
    task: Atomic<*mut bindings::task_struct>,
}

impl Signal {
    /// A signal that is not raised and wakes nobody yet.
    pub fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(
            Self {
                raised: Atomic::new(0),
                task: Atomic::new(core::ptr::null_mut()),
            },
            GFP_KERNEL,
        )?)
    }

    /// Wakes the thread, now or as soon as it would sleep. Any context.
    #[inline]
    pub fn raise(&self) {
        // A full barrier: whoever takes the signal sees what was done before it was raised.
        if self.raised.xchg(1, Full) != 0 {
            return;
        }
        let task = self.task.load(Acquire);
        if !task.is_null() {
            // SAFETY: The signal has a reference to the thread as long as it lives.
            unsafe { bindings::wake_up_process(task) };
        }
    }

    /// Takes the signal back, and says whether it was raised. To be called before looking for what
    /// it may have been raised for.
    #[inline]
    pub fn take(&self) -> bool {
        self.raised.xchg(0, Full) != 0
    }

    /// Whether it is raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Relaxed) != 0
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        let task = self.task.load(Relaxed);
        if !task.is_null() {
            // SAFETY: The reference is this signal's, see `Thread::start`.
            unsafe { bindings::xen_put_task_struct(task) };
        }
    }
}

/// What a thread does.
pub trait Worker: Send + 'static {
    /// Does it. Ends at the latest some time after [`Current::should_stop`] says so; the worker is
    /// dropped before the thread ends.
    fn run(self, thread: &Current<'_>);
}

/// The thread that is running.
pub struct Current<'a> {
    signal: &'a Signal,
    /// The worker knows that it is to stop, and may still sleep until what it waits for has come.
    stopping: Cell<bool>,
    _not_send: kernel::types::NotThreadSafe,
}

impl Current<'_> {
    /// Whether the owner of the [`Thread`] waits for it to end.
    pub fn should_stop(&self) -> bool {
        // SAFETY: `Current` exists in kernel threads only.
        let stopping = unsafe { bindings::kthread_should_stop() };
        self.stopping.set(stopping);
        stopping
    }

    /// Its signal.
    pub fn signal(&self) -> &Signal {
        self.signal
    }

    /// Sleeps until the signal is raised, the time is up, in milliseconds, or the thread is to stop and
    /// has not been told by [`should_stop`](Self::should_stop).
    /// May return early. Stands still while the system is suspended.
    pub fn sleep(&self, milliseconds: u32) {
        // SAFETY: The function has no requirement.
        let jiffies = unsafe { bindings::__msecs_to_jiffies(milliseconds) };
        // CAST: At most `MAX_JIFFY_OFFSET`, which is half of what `long` holds.
        let jiffies = jiffies as c_long;
        let word: *const Atomic<i32> = &self.signal.raised;
        // SAFETY: The word is valid; this is a kernel thread.
        unsafe { bindings::xen_sleep_unless(word.cast(), self.stopping.get(), jiffies) };
    }

    /// Lets others run if they are to.
    #[inline]
    pub fn yield_now(&self) {
        // SAFETY: `Current` exists in kernel threads only, which may sleep.
        unsafe { bindings::xen_cond_resched() };
    }

    /// Whether others are to run.
    #[inline]
    pub fn should_yield(&self) -> bool {
        should_yield()
    }

    /// Lets the processor's sibling run for a moment.
    #[inline]
    pub fn relax(&self) {
        relax();
    }
}

struct Start<W> {
    worker: Option<W>,
    signal: Arc<Signal>,
}

/// A running thread.
///
/// Dropping it asks the thread to stop, raises its signal, and waits until it has ended. Process
/// context.
///
/// # Invariants
///
/// `task` was made by `start` for `W`, with `start` as its argument; the reference to it is the
/// signal's.
pub struct Thread<W: Worker> {
    task: *mut bindings::task_struct,
    start: *mut Start<W>,
    _signal: Arc<Signal>,
}

// SAFETY: The thread can be stopped from any other; the worker is `Send`.
unsafe impl<W: Worker> Send for Thread<W> {}
// SAFETY: `&self` allows nothing.
unsafe impl<W: Worker> Sync for Thread<W> {}

impl<W: Worker> Thread<W> {
    /// Starts a thread that is woken by `signal`. Of the name, `ps` shows 15 characters.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINTR`; `EBUSY` if the signal has a thread already.
    pub fn start(name: &CStr, signal: Arc<Signal>, worker: W) -> Result<Self> {
        let start = KBox::new(
            Start {
                worker: Some(worker),
                signal: signal.clone(),
            },
            GFP_KERNEL,
        )?;
        let start = KBox::into_raw(start);
        // SAFETY: The name is copied. `start` is valid until `drop` frees it, which waits for the
        // thread to end.
        let task = from_err_ptr(unsafe {
            bindings::xen_kthread_create(Some(Self::main), start.cast(), name.as_char_ptr())
        });
        let task = match task {
            Ok(task) => task,
            Err(error) => {
                // SAFETY: It is from `into_raw`, and nobody else knows it.
                drop(unsafe { KBox::from_raw(start) });
                return Err(error);
            }
        };
        if signal
            .task
            .cmpxchg(core::ptr::null_mut(), task, Full)
            .is_err()
        {
            // SAFETY: The thread was made above and has not run. It will not: `main` is not called
            // for a thread that is stopped before it is first woken.
            unsafe {
                bindings::kthread_stop(task);
                bindings::xen_put_task_struct(task);
                drop(KBox::from_raw(start));
            }
            return Err(EBUSY);
        }
        // SAFETY: The signal's reference is there.
        unsafe { bindings::wake_up_process(task) };
        // INVARIANT: Made just like that.
        Ok(Self {
            task,
            start,
            _signal: signal,
        })
    }

    /// # Safety
    ///
    /// `data` must be the `Start<W>` of the thread that this is called on.
    unsafe extern "C" fn main(data: *mut c_void) -> c_int {
        // SAFETY: By this function's requirements. Nobody else uses it while the thread runs.
        let start = unsafe { &mut *data.cast::<Start<W>>() };
        // SAFETY: This is a kernel thread.
        unsafe { bindings::xen_set_freezable() };
        let thread = Current {
            signal: &start.signal,
            stopping: Cell::new(false),
            _not_send: kernel::types::NotThreadSafe,
        };
        if let Some(worker) = start.worker.take() {
            worker.run(&thread);
        }
        0
    }
}

impl<W: Worker> Drop for Thread<W> {
    fn drop(&mut self) {
        // SAFETY: The task is valid since the signal has a reference to it. Afterwards `main` is not
        // running and will not be called, so `start` has no other user.
        unsafe {
            bindings::kthread_stop(self.task);
            drop(KBox::from_raw(self.start));
        }
    }
}
