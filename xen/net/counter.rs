// SPDX-License-Identifier: GPL-2.0

//! Numbers that are counted in one place and read in others.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A number that goes up, which anybody can read at any time without a lock.
///
/// Only one processor at a time may count: whoever does has some lock, or is polling. That makes it as cheap
/// as a plain number; were it otherwise, something would not be counted.
pub struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Counter {
    /// Counts `count` more.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.get().wrapping_add(count), Relaxed);
    }

    /// How many were counted so far.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
