// SPDX-License-Identifier: GPL-2.0

//! Work that a driver does elsewhere, and waiting for it.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::{
    bindings,
    compat::synchronize_rcu, //
};
use core::ffi::CStr;
use kernel::{
    container_of,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        rcu,
        Arc, //
    },
    time::msecs_to_jiffies,
    types::{
        NotThreadSafe,
        Opaque, //
    },
    workqueue::{
        HasDelayedWork,
        HasWork,
        Queue,
        RawDelayedWorkItem,
        RawWorkItem,
        Work,
        WorkItem, //
    },
};

/// The workqueue of a module, to be declared as a static.
///
/// It exists from [`create`](Self::create) until the returned guard is dropped, which waits for all
/// work that is queued. It stands still while the system is suspended, and makes progress when
/// memory is short.
pub struct ModuleQueue {
    raw: Atomic<*mut bindings::workqueue_struct>,
}

impl Default for ModuleQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl ModuleQueue {
    /// A workqueue that does not exist yet.
    pub const fn new() -> Self {
        Self {
            raw: Atomic::new(core::ptr::null_mut()),
        }
    }

    /// Makes the workqueue, under a name that `ps` shows.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EBUSY` if it exists already.
    pub fn create(&'static self, name: &'static CStr) -> Result<ModuleQueueGuard> {
        self.create_with(name, bindings::wq_flags_WQ_FREEZABLE)
    }

    /// The same, but its work goes on while the system is being suspended.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    pub fn create_unfrozen(&'static self, name: &'static CStr) -> Result<ModuleQueueGuard> {
        self.create_with(name, 0)
    }

    fn create_with(
        &'static self,
        name: &'static CStr,
        flags: bindings::wq_flags,
    ) -> Result<ModuleQueueGuard> {
        let flags = flags | bindings::wq_flags_WQ_UNBOUND | bindings::wq_flags_WQ_MEM_RECLAIM;
        // SAFETY: "%s" takes a NUL-terminated string, which is copied.
        let raw = unsafe {
            bindings::alloc_workqueue_noprof(c"%s".as_char_ptr(), flags, 0, name.as_char_ptr())
        };
        if raw.is_null() {
            return Err(ENOMEM);
        }
        if self.raw.cmpxchg(core::ptr::null_mut(), raw, Full).is_err() {
            // SAFETY: It was made above and nobody else knows it.
            unsafe { bindings::destroy_workqueue(raw) };
            return Err(EBUSY);
        }
        Ok(ModuleQueueGuard(self))
    }

    fn with(&self, use_it: impl FnOnce(&Queue)) {
        let _guard = rcu::read_lock();
        let raw = self.raw.load(Acquire);
        if !raw.is_null() {
            // SAFETY: Whoever destroys the workqueue takes the pointer away first and then waits for
            // all who have seen it within `rcu::read_lock`.
            use_it(unsafe { Queue::from_raw(raw) });
        }
    }

    /// Queues work, unless it is queued already or the workqueue does not exist. Any context.
    pub fn enqueue<W, const ID: u64>(&self, work: W)
    where
        W: RawWorkItem<ID, EnqueueOutput = Result<(), W>> + Send + 'static,
    {
        // Work that is queued already will see whatever its caller wants it to.
        self.with(|queue| drop(queue.enqueue(work)));
    }

    /// Queues work after a time, unless it is queued already or the workqueue does not exist. Any
    /// context.
    ///
    /// Before the workqueue goes, work that may be waiting for its time must be
    /// [cancelled](cancel_delayed).
    pub fn enqueue_delayed<W, const ID: u64>(&self, work: W, milliseconds: c_uint)
    where
        W: RawDelayedWorkItem<ID> + RawWorkItem<ID, EnqueueOutput = Result<(), W>> + Send + 'static,
    {
        let delay = msecs_to_jiffies(milliseconds);
        self.with(|queue| drop(queue.enqueue_delayed(work, delay)));
    }
}

/// Keeps a [`ModuleQueue`] in existence.
pub struct ModuleQueueGuard(&'static ModuleQueue);

impl Drop for ModuleQueueGuard {
    fn drop(&mut self) {
        let raw = self.0.raw.xchg(core::ptr::null_mut(), Full);
        synchronize_rcu();
        // SAFETY: `create` made it, and nobody can reach it any more.
        unsafe { bindings::destroy_workqueue(raw) };
    }
}

/// While it lives, memory that this thread allocates is not found by writing to disks.
///
/// Whoever brings a disk back to work must not wait for memory that only that disk can free.
pub struct NoIoScope {
    flags: c_uint,
    _not_send: NotThreadSafe,
}

impl NoIoScope {
    /// Begins the scope. Scopes may be nested.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        Self {
            // SAFETY: The function has no requirement; `drop` restores what it returns.
            flags: unsafe { bindings::xen_memalloc_noio_save() },
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for NoIoScope {
    fn drop(&mut self) {
        // SAFETY: The flags are those that this thread had, as the type cannot leave it.
        unsafe { bindings::xen_memalloc_noio_restore(self.flags) };
    }
}

/// Something that happens.
#[pin_data]
pub struct Completion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: Completions are made to be used from several threads.
unsafe impl Send for Completion {}
// SAFETY: As above.
unsafe impl Sync for Completion {}

impl Completion {
    /// It has not happened yet.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            inner <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is valid for writes.
                unsafe { bindings::init_completion(slot) };
            }),
        })
    }

    /// It has happened once more: one of those who wait, or the next one who will, need not any longer. Any
    /// context.
    pub fn complete(&self) {
        // SAFETY: It is initialised.
        unsafe { bindings::complete(self.inner.get()) };
    }

    /// It has happened. Any context.
    pub fn complete_all(&self) {
        // SAFETY: It is initialised.
        unsafe { bindings::complete_all(self.inner.get()) };
    }

    /// Waits until it has happened, at most for a time; says whether it has. Process context.
    #[must_use]
    pub fn wait_within(&self, milliseconds: c_uint) -> bool {
        // SAFETY: The function has no requirement.
        let jiffies = unsafe { bindings::__msecs_to_jiffies(milliseconds) };
        // SAFETY: It is initialised.
        unsafe { bindings::wait_for_completion_timeout(self.inner.get(), jiffies) != 0 }
    }
}

/// Waits until work that is queued or running has finished. Process context.
pub fn flush<T, const ID: u64>(owner: &T)
where
    T: HasWork<T, ID>,
{
    let owner = core::ptr::from_ref(owner).cast_mut();
    // SAFETY: The pointer is from a reference.
    let work: *mut Work<T, ID> = unsafe { T::raw_get_work(owner) };
    // SAFETY: It points into `owner`, whose work is initialised.
    unsafe { bindings::flush_work(Work::raw_get(work)) };
}

/// Sees to it that delayed work is neither waiting for its time, nor queued, nor running when this
/// returns. It may be queued again later. Process context.
pub fn cancel_delayed<T, const ID: u64>(owner: &Arc<T>)
where
    T: HasDelayedWork<T, ID> + WorkItem<ID, Pointer = Arc<T>>,
{
    let owner = core::ptr::from_ref::<T>(owner);
    // SAFETY: The pointer is from a reference.
    let work: *mut Work<T, ID> = unsafe { T::raw_get_work(owner.cast_mut()) };
    // SAFETY: It points into `owner`, whose work is initialised.
    let work = unsafe { Work::raw_get(work) };
    // SAFETY: `HasDelayedWork` says that the work is part of delayed work.
    let delayed = unsafe { container_of!(work, bindings::delayed_work, work) };
    // SAFETY: It is initialised.
    if unsafe { bindings::cancel_delayed_work_sync(delayed) } {
        // It will not run, so that its reference is not given back there.
        // SAFETY: Work that is pending has a reference from `Arc::into_raw`, which nobody else uses
        // after it was cancelled.
        drop(unsafe { Arc::from_raw(owner) });
    }
}
