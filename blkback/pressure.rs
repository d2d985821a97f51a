// SPDX-License-Identifier: GPL-2.0

//! Shortage that concerns all rings of all guests.
//!
//! Whoever runs short takes note of it here, and each ring gives up what it does not need when it next
//! tidies up, at the latest after a second.

use crate::{
    features,
    BUFFER_SQUEEZE_DURATION_MS, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// How long a shortage of room to map frames is believed to last, in milliseconds.
const MAPTRACK_SHORTAGE: u64 = 5_000;

/// How often an administrator is told of it at most, in milliseconds.
const SILENCE: u64 = 60_000;

/// When memory was last short, and until when it is believed to be, in milliseconds since the machine
/// was started.
static SQUEEZED: Atomic<u64> = Atomic::new(0);
static MEMORY: Atomic<u64> = Atomic::new(0);

/// Until when room to map frames is.
static MAPTRACK: Atomic<u64> = Atomic::new(0);

/// From when on it may be told again that there is none.
static TELL: Atomic<u64> = Atomic::new(0);

/// The time, in milliseconds since the machine was started.
pub(crate) fn now() -> u64 {
    xen::thread::now() / 1_000_000
}

/// Memory is short. Any context.
pub(crate) fn memory() {
    // CAST: `usize` fits into `u64` on every machine that runs Linux.
    let duration = features::limit(BUFFER_SQUEEZE_DURATION_MS.get()) as u64;
    let now = now();
    SQUEEZED.store(now, Relaxed);
    MEMORY.store(now.saturating_add(duration), Relaxed);
}

/// Whether memory is short, or has been since `before`.
pub(crate) fn on_memory(before: u64, now: u64) -> bool {
    now < MEMORY.load(Relaxed) || before <= SQUEEZED.load(Relaxed)
}

/// This domain has as many frames mapped as Xen lets it.
pub(crate) fn maptrack(now: u64) {
    MAPTRACK.store(now.saturating_add(MAPTRACK_SHORTAGE), Relaxed);
    let due = TELL.load(Relaxed);
    if now >= due
        && TELL
            .cmpxchg(due, now.saturating_add(SILENCE), Relaxed)
            .is_ok()
    {
        pr_warn!(
            "Xen has no room to map more frames (gnttab_max_maptrack_frames): data is copied instead\n"
        );
    }
}

/// Whether it had, not long ago.
pub(crate) fn on_maptrack(now: u64) -> bool {
    now < MAPTRACK.load(Relaxed)
}
