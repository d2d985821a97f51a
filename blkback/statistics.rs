// SPDX-License-Identifier: GPL-2.0

//! Counters that the toolstack and users read.
//!
//! Those that the C driver has, too, are read by xentop through libxenstat. They count on when a
//! frontend reconnects.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
};
use xen::moderation::histogram::{
    class,
    CLASSES, //
};

/// A number that only grows.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds to it.
    #[inline]
    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Relaxed);
    }

    /// Its value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one ring, or of all rings of a disk together.
pub(crate) struct Counters {
    /// Requests that had to wait for memory, or for frames to be unmapped.
    pub(crate) oo_req: Counter,
    /// Reads.
    pub(crate) rd_req: Counter,
    /// Writes.
    pub(crate) wr_req: Counter,
    /// Flushes and barriers.
    pub(crate) f_req: Counter,
    /// Discards.
    pub(crate) ds_req: Counter,
    /// Sectors of 512 bytes read.
    pub(crate) rd_sect: Counter,
    /// Sectors of 512 bytes written.
    pub(crate) wr_sect: Counter,
    /// Sectors of 512 bytes discarded.
    pub(crate) ds_sect: Counter,
    /// Requests that were answered with an error.
    pub(crate) err_req: Counter,
    /// Segments whose frame was mapped already.
    pub(crate) persistent_seg: Counter,
    /// Segments whose frame was mapped.
    pub(crate) mapped_seg: Counter,
    /// Segments that were copied.
    pub(crate) copied_seg: Counter,
    /// Events that were sent to the frontend.
    pub(crate) notifications: Counter,
    /// Events that came from the frontend.
    pub(crate) events: Counter,
    /// Times that looking at the ring paid before the thread slept.
    pub(crate) poll_hits: Counter,
    /// Times that it did not.
    pub(crate) poll_misses: Counter,
    /// Times that the next event was asked for later than at the next request.
    pub(crate) events_held: Counter,
    /// Times that the timer then came before the event, and there were requests.
    pub(crate) events_expired: Counter,
    /// How often so many requests were taken from one sleep of the thread to the next.
    pub(crate) batch_1: Counter,
    /// Likewise.
    pub(crate) batch_2_3: Counter,
    /// Likewise.
    pub(crate) batch_4_7: Counter,
    /// Likewise.
    pub(crate) batch_8_15: Counter,
    /// Likewise.
    pub(crate) batch_16_31: Counter,
    /// Likewise.
    pub(crate) batch_32_63: Counter,
    /// Likewise.
    pub(crate) batch_64_127: Counter,
    /// Likewise.
    pub(crate) batch_128_up: Counter,
}

/// How a counter is found.
pub(crate) type Field = fn(&Counters) -> &Counter;

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            oo_req: Counter::new(),
            rd_req: Counter::new(),
            wr_req: Counter::new(),
            f_req: Counter::new(),
            ds_req: Counter::new(),
            rd_sect: Counter::new(),
            wr_sect: Counter::new(),
            ds_sect: Counter::new(),
            err_req: Counter::new(),
            persistent_seg: Counter::new(),
            mapped_seg: Counter::new(),
            copied_seg: Counter::new(),
            notifications: Counter::new(),
            events: Counter::new(),
            poll_hits: Counter::new(),
            poll_misses: Counter::new(),
            events_held: Counter::new(),
            events_expired: Counter::new(),
            batch_1: Counter::new(),
            batch_2_3: Counter::new(),
            batch_4_7: Counter::new(),
            batch_8_15: Counter::new(),
            batch_16_31: Counter::new(),
            batch_32_63: Counter::new(),
            batch_64_127: Counter::new(),
            batch_128_up: Counter::new(),
        }
    }

    /// So many requests were taken from one sleep of the thread to the next.
    pub(crate) fn count_batch(&self, requests: u32) {
        let classes: [&Counter; CLASSES] = [
            &self.batch_1,
            &self.batch_2_3,
            &self.batch_4_7,
            &self.batch_8_15,
            &self.batch_16_31,
            &self.batch_32_63,
            &self.batch_64_127,
            &self.batch_128_up,
        ];
        if let Some(counter) = class(requests).and_then(|class| classes.get(class)) {
            counter.add(1);
        }
    }
}

/// Counters of a disk, by ring.
#[pin_data]
pub(crate) struct Statistics {
    /// Those of ring 0, 1 and so on, as many as there have been at once.
    #[pin]
    rings: SpinLock<KVec<Arc<Counters>>>,
}

impl Statistics {
    /// All counters are 0.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                rings <- new_spinlock!(KVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// The counters of ring `index`, which go on from where they were.
    pub(crate) fn ring(&self, index: usize) -> Result<Arc<Counters>> {
        if let Some(counters) = self.find(index) {
            return Ok(counters);
        }
        let counters = Arc::new(Counters::new(), GFP_KERNEL)?;
        let mut room = KVec::with_capacity(index + 1, GFP_KERNEL)?;
        let mut rings = self.rings.lock();
        for counters in rings.iter() {
            // There is room: a ring is asked for only after those before it.
            let _ = room.push_within_capacity(counters.clone());
        }
        let _ = room.push_within_capacity(counters.clone());
        // What was there is dropped without the lock.
        let old = core::mem::replace(&mut *rings, room);
        drop(rings);
        drop(old);
        Ok(counters)
    }

    /// The counters of ring `index`, if there has been one.
    pub(crate) fn find(&self, index: usize) -> Option<Arc<Counters>> {
        self.rings.lock().get(index).cloned()
    }

    /// A counter of all rings together.
    pub(crate) fn sum(&self, field: Field) -> u64 {
        let rings = self.rings.lock();
        rings.iter().fold(0, |sum: u64, counters| {
            sum.wrapping_add(field(counters).get())
        })
    }
}
