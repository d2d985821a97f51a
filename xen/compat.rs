// SPDX-License-Identifier: GPL-2.0

//! What kernels have under other names, or not at all.
//!
//! All differences between the kernels that the drivers are made for (`scripts/kernels`) are here, as names that exist
//! for each of them. `Kbuild` says by `--cfg XEN_BEFORE_7_3` which kernel it is.

#[cfg(not(XEN_BEFORE_7_3))]
pub use newest::*;

#[cfg(XEN_BEFORE_7_3)]
pub use before_7_3::*;

#[cfg(not(XEN_BEFORE_7_3))]
mod newest {
    use crate::bindings;
    use kernel::ModuleMetadata;

    pub use kernel::{
        device::BoundInternal,
        error::code::{
            ENOSYS,
            EOPNOTSUPP,
            EPROTO, //
        },
        new_spinlock_irq,
        sync::{
            rcu::synchronize_rcu,
            SpinLockIrq, //
        },
    };

    /// The interrupt was this device's.
    pub const IRQ_HANDLED: bindings::irqreturn_t = bindings::irqreturn::IRQ_HANDLED;
    /// The timer is not started again.
    pub const HRTIMER_NORESTART: bindings::hrtimer_restart =
        bindings::hrtimer_restart::HRTIMER_NORESTART;

    /// The module that this is a part of, in the kernel's form.
    pub const fn owner<M: ModuleMetadata>() -> *mut bindings::module {
        M::THIS_MODULE.as_ptr()
    }

    /// How far an iterator has come in the entry of a bio's table that it is at.
    #[inline]
    pub fn offset(iter: &bindings::bvec_iter) -> u32 {
        iter.bi_offset
    }

    /// Sets what [`offset`] returns.
    #[inline]
    pub fn set_offset(iter: &mut bindings::bvec_iter, offset: u32) {
        iter.bi_offset = offset;
    }
}

#[cfg(XEN_BEFORE_7_3)]
mod before_7_3 {
    use crate::bindings;
    use kernel::{
        device,
        error::Error,
        ffi::{
            c_char,
            c_ulong, //
        },
        sync::lock::{
            spinlock::SpinLockBackend,
            Backend,
            Lock, //
        },
        ModuleMetadata, //
    };

    pub use crate::new_spinlock_irq;

    /// The interrupt was this device's.
    pub const IRQ_HANDLED: bindings::irqreturn_t = bindings::irqreturn_IRQ_HANDLED;
    /// The timer is not started again.
    pub const HRTIMER_NORESTART: bindings::hrtimer_restart =
        bindings::hrtimer_restart_HRTIMER_NORESTART;

    /// The module that this is a part of, in the kernel's form.
    ///
    /// The trait does not know it there, but each module has a copy of this crate.
    #[cfg(MODULE)]
    pub const fn owner<M: ModuleMetadata>() -> *mut bindings::module {
        extern "C" {
            static __this_module: [u8; 0];
        }
        // Only the address is taken.
        core::ptr::addr_of!(__this_module).cast_mut().cast()
    }

    /// What is built in belongs to no module.
    #[cfg(not(MODULE))]
    pub const fn owner<M: ModuleMetadata>() -> *mut bindings::module {
        core::ptr::null_mut()
    }

    /// How far an iterator has come in the entry of a bio's table that it is at.
    #[inline]
    pub fn offset(iter: &bindings::bvec_iter) -> u32 {
        iter.bi_bvec_done
    }

    /// Sets what [`offset`] returns.
    #[inline]
    pub fn set_offset(iter: &mut bindings::bvec_iter, offset: u32) {
        iter.bi_bvec_done = offset;
    }

    /// A device that stays bound, whose driver's data may be borrowed.
    ///
    /// There the bus must say that the driver core is at work on the device just now to get at the data, and needs no
    /// more of what that stands for.
    pub type BoundInternal = device::CoreInternal<'static>;

    const fn error(errno: u32) -> Error {
        assert!(errno > 0 && errno <= bindings::MAX_ERRNO);
        // SAFETY: An `Error` is made of one number, which is not zero, and has its size; that the number is within
        // range was checked.
        unsafe { core::mem::transmute::<i32, Error>(-(errno as i32)) }
    }

    /// Invalid system call number.
    pub const ENOSYS: Error = error(bindings::ENOSYS);
    /// Operation not supported on transport endpoint.
    pub const EOPNOTSUPP: Error = error(bindings::EOPNOTSUPP);
    /// Protocol error.
    pub const EPROTO: Error = error(bindings::EPROTO);

    /// Waits until all that is within `rcu::read_lock` now has left it.
    pub fn synchronize_rcu() {
        // SAFETY: It may be called wherever one may sleep.
        unsafe { bindings::synchronize_rcu() };
    }
    /// A spin lock that keeps interrupts off while it is held.
    ///
    /// Whether they were on is known to who has locked: locks that are held at a time must be given back in the reverse
    /// order.
    pub type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

    /// How a [`SpinLockIrq`] is locked.
    pub struct SpinLockIrqBackend;

    // SAFETY: It is the kernel's spin lock, and always locked in the same way.
    unsafe impl Backend for SpinLockIrqBackend {
        type State = <SpinLockBackend as Backend>::State;
        type GuardState = c_ulong;

        unsafe fn init(
            ptr: *mut Self::State,
            name: *const c_char,
            key: *mut bindings::lock_class_key,
        ) {
            // SAFETY: The requirements are the same.
            unsafe { SpinLockBackend::init(ptr, name, key) }
        }

        #[inline]
        unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
            // SAFETY: The caller has initialised it.
            unsafe { bindings::xen_spin_lock_irqsave(ptr.cast()) }
        }

        #[inline]
        unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
            let mut flags = 0;
            // SAFETY: The caller has initialised it.
            unsafe { bindings::xen_spin_trylock_irqsave(ptr.cast(), &mut flags) }.then_some(flags)
        }

        #[inline]
        unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
            // SAFETY: The caller holds it, and `flags` are what locking it returned.
            unsafe { bindings::xen_spin_unlock_irqrestore(ptr.cast(), *flags) }
        }

        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: The requirements are the same.
            unsafe { SpinLockBackend::assert_is_held(ptr) }
        }
    }
}

/// Creates a [`SpinLockIrq`](compat::SpinLockIrq) initialiser with a lock class of its own.
#[cfg(XEN_BEFORE_7_3)]
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::compat::SpinLockIrq::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}
