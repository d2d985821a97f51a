// SPDX-License-Identifier: GPL-2.0

//! Being told that memory is short.
//!
//! C header: [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h)

use crate::bindings;
use core::{
    ffi::CStr,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// Calls a function whenever the kernel looks for memory that it could have back.
///
/// Dropping it waits for a running call. Process context.
///
/// # Invariants
///
/// `raw` is a registered shrinker whose private data is the function.
pub struct PressureGauge {
    raw: NonNull<bindings::shrinker>,
}

// SAFETY: A shrinker can be freed by any thread.
unsafe impl Send for PressureGauge {}
// SAFETY: `&self` allows nothing.
unsafe impl Sync for PressureGauge {}

impl PressureGauge {
    /// Has `pressure` called. It may be called where nothing can be waited for or allocated, by many at
    /// once, and often: it should only take note.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &'static CStr, pressure: fn()) -> Result<Self> {
        // SAFETY: "%s" takes a NUL-terminated string, which is copied.
        let raw = unsafe { bindings::shrinker_alloc(0, c"%s".as_char_ptr(), name.as_char_ptr()) };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: It was just allocated, and is not registered yet.
        unsafe {
            (*raw.as_ptr()).count_objects = Some(Self::count_callback);
            (*raw.as_ptr()).private_data = pressure as *mut c_void;
            bindings::shrinker_register(raw.as_ptr());
        }
        // INVARIANT: It was just registered.
        Ok(Self { raw })
    }

    /// # Safety
    ///
    /// `shrinker` must be one that `new` registered.
    unsafe extern "C" fn count_callback(
        shrinker: *mut bindings::shrinker,
        _control: *mut bindings::shrink_control,
    ) -> c_ulong {
        // SAFETY: By this function's requirements the private data is a `fn()`.
        let pressure: fn() = unsafe { core::mem::transmute((*shrinker).private_data) };
        pressure();
        // There is nothing that could be freed here.
        0
    }
}

impl Drop for PressureGauge {
    fn drop(&mut self) {
        // SAFETY: It is registered by the type invariant. This waits for callbacks.
        unsafe { bindings::shrinker_free(self.raw.as_ptr()) };
    }
}
