// SPDX-License-Identifier: GPL-2.0

//! Device numbers of disks.

use crate::bindings;
use core::ffi::CStr;
use kernel::{
    error::to_result,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        global_lock, //
    },
};

global_lock! {
    // SAFETY: `Major::register` initialises it, once, and `MINORS_READY` tells that it has.
    unsafe(uninit) static CLAIMED: Mutex<KVec<Range>> = KVec::new();
}

/// 0: not initialised, 1: being initialised, 2: initialised.
static CLAIMED_STATE: Atomic<u32> = Atomic::new(0);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    count: u32,
}

impl Range {
    fn overlaps(self, other: Self) -> bool {
        let (a, b) = if self.first <= other.first {
            (self, other)
        } else {
            (other, self)
        };
        b.first - a.first < a.count
    }
}

/// A major number of block devices that is registered.
pub struct Major {
    number: u32,
    name: &'static CStr,
}

impl Major {
    /// Registers a major number. A module can have one.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is somebody else's, or this module has one already.
    pub fn register(number: u32, name: &'static CStr) -> Result<Self> {
        CLAIMED_STATE.cmpxchg(0, 1, Relaxed).map_err(|_| EBUSY)?;
        // SAFETY: Only one caller can have changed 0 to 1, and it never becomes 0 again.
        unsafe { CLAIMED.init() };
        CLAIMED_STATE.store(2, Release);
        // SAFETY: The name is static.
        to_result(unsafe { bindings::__register_blkdev(number, name.as_char_ptr(), None) })?;
        Ok(Self { number, name })
    }
}

impl Drop for Major {
    fn drop(&mut self) {
        // A static is not dropped; its memory must be.
        *CLAIMED.lock() = KVec::new();
        // SAFETY: It was registered under this name.
        unsafe { bindings::unregister_blkdev(self.number, self.name.as_char_ptr()) };
    }
}

/// Minor numbers that are one disk's, of the module's major number.
pub struct Minors {
    major: u32,
    range: Range,
}

impl Minors {
    /// Claims `count` minor numbers from `first` on.
    ///
    /// # Errors
    ///
    /// `EBUSY` if some of them are taken, `ENODEV` if the module has no major number, `ENOMEM`.
    pub fn claim(major: u32, first: u32, count: u32) -> Result<Self> {
        if CLAIMED_STATE.load(Acquire) != 2 {
            return Err(ENODEV);
        }
        let range = Range { first, count };
        let mut claimed = CLAIMED.lock();
        if claimed.iter().any(|other| other.overlaps(range)) {
            return Err(EBUSY);
        }
        claimed.push(range, GFP_KERNEL)?;
        Ok(Self { major, range })
    }

    pub(super) fn major(&self) -> u32 {
        self.major
    }

    pub(super) fn first(&self) -> u32 {
        self.range.first
    }

    pub(super) fn count(&self) -> u32 {
        self.range.count
    }
}

impl Drop for Minors {
    fn drop(&mut self) {
        let mut claimed = CLAIMED.lock();
        if let Some(index) = claimed.iter().position(|range| *range == self.range) {
            let _ = claimed.remove(index);
        }
    }
}
