// SPDX-License-Identifier: GPL-2.0

//! Programs, and where interfaces have theirs.

use crate::{
    bindings,
    net::{
        Poll,
        Polling,
        Rtnl, //
    },
};
use core::{
    cell::UnsafeCell,
    ffi::CStr,
    marker::PhantomData,
    ptr::null_mut, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A program, which cannot go as long as it is borrowed.
///
/// # Invariants
///
/// It is a valid program of the kernel's.
#[repr(transparent)]
pub struct Program(Opaque<bindings::bpf_prog>);

// SAFETY: Programs can be run and given back by any thread.
unsafe impl Send for Program {}
// SAFETY: As above.
unsafe impl Sync for Program {}

impl Program {
    /// # Safety
    ///
    /// `raw` must be NULL, or a program that stays valid for `'a`.
    unsafe fn from_raw<'a>(raw: *mut bindings::bpf_prog) -> Option<&'a Self> {
        // SAFETY: By this function's requirements; the type is transparent.
        unsafe { raw.cast::<Self>().as_ref() }
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::bpf_prog {
        self.0.get()
    }

    /// Whether it can do with packets that lie in several pieces.
    pub fn has_frags(&self) -> bool {
        // SAFETY: The program is valid by the type invariant.
        unsafe { bindings::xen_xdp_has_frags(self.0.get()) }
    }
}

/// Why an interface cannot run a program.
pub struct Refusal {
    /// What the caller is told.
    pub errno: Error,
    /// What users are told.
    pub message: &'static CStr,
}

/// The place of an interface's program.
///
/// # Invariants
///
/// `raw` is NULL, or a program to which this value has a reference.
pub struct ProgramSlot {
    raw: UnsafeCell<*mut bindings::bpf_prog>,
}

// SAFETY: The pointer is read and exchanged as a whole; programs can be used by any thread.
unsafe impl Send for ProgramSlot {}
// SAFETY: As above.
unsafe impl Sync for ProgramSlot {}

impl ProgramSlot {
    /// Without a program.
    pub const fn new() -> Self {
        Self {
            raw: UnsafeCell::new(null_mut()),
        }
    }

    fn load(&self) -> *mut bindings::bpf_prog {
        // SAFETY: The pointer to the field is valid.
        unsafe { bindings::xen_xdp_program(self.raw.get()) }
    }

    /// Whether there is a program just now. Any context.
    #[inline]
    pub fn is_set(&self) -> bool {
        !self.load().is_null()
    }

    /// The program, as long as it cannot be exchanged.
    pub fn get<'a>(&'a self, _rtnl: &'a Rtnl) -> Option<&'a Program> {
        // SAFETY: The slot has a reference, and is changed only with the lock of rtnl held.
        unsafe { Program::from_raw(self.load()) }
    }

    /// The program, for packets that are just being polled. It stays the same for this batch.
    #[inline]
    pub fn polled<'a, P: Poll>(&'a self, _polling: &'a Polling<'_, P>) -> Option<&'a Program> {
        // SAFETY: A program is freed when all have left softirqs that could see it, and polling takes place
        // in one.
        unsafe { Program::from_raw(self.load()) }
    }

    /// # Safety
    ///
    /// `raw` must be NULL, or a program to which the caller gives a reference away.
    unsafe fn set(&self, raw: *mut bindings::bpf_prog) {
        // INVARIANT: The reference is this value's now.
        // SAFETY: The pointer to the field is valid.
        let old = unsafe { bindings::xen_xdp_exchange(self.raw.get(), raw) };
        if !old.is_null() {
            // SAFETY: The reference was this value's. The program is freed when nobody runs it any more.
            unsafe { bindings::bpf_prog_put(old) };
        }
    }
}

impl Default for ProgramSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProgramSlot {
    fn drop(&mut self) {
        // SAFETY: There is no program.
        unsafe { self.set(null_mut()) };
    }
}

/// Another program that an interface is to run, or none.
///
/// # Invariants
///
/// `raw` is NULL, or a program that is valid for `'a`, to which the caller of the driver has a reference that
/// the driver gets if it takes the program.
pub struct Offer<'a> {
    raw: *mut bindings::bpf_prog,
    _program: PhantomData<&'a Program>,
}

impl Offer<'_> {
    /// The program.
    pub fn program(&self) -> Option<&Program> {
        // SAFETY: It is valid by the type invariant.
        unsafe { Program::from_raw(self.raw) }
    }

    /// Puts it in the place of the one that was there. From now on packets are seen by it.
    pub fn take(self, slot: &ProgramSlot, _rtnl: &Rtnl) {
        // SAFETY: The caller of the driver does not want its reference back, since this value is not there
        // any more, see `setup`.
        unsafe { slot.set(self.raw) };
    }
}

/// Has a driver look at another program.
///
/// # Safety
///
/// `command` must be valid, and what the kernel hands over to a driver with the lock of rtnl held.
pub(in crate::net) unsafe fn setup(
    command: *mut bindings::netdev_bpf,
    set: impl FnOnce(Offer<'_>, &Rtnl) -> Result<(), Refusal>,
) -> Result {
    let mut raw = null_mut();
    // SAFETY: The command is valid.
    if !unsafe { bindings::xen_xdp_wants_program(command, &mut raw) } {
        return Err(EINVAL);
    }
    // INVARIANT: The caller has a reference, which it keeps if this returns an error.
    let offer = Offer {
        raw,
        _program: PhantomData,
    };
    set(offer, &Rtnl::held()).map_err(|refusal| {
        // SAFETY: The command is valid, and the text is static.
        unsafe { bindings::xen_xdp_refuse(command, refusal.message.as_char_ptr()) };
        refusal.errno
    })
}
