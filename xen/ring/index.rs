// SPDX-License-Identifier: GPL-2.0

//! Arithmetic of ring indices.

/// Position of a message in the endless sequence of messages of one direction.
///
/// It runs freely through all 32-bit values and wraps; only differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Index(u32);

impl Index {
    /// An index as found in, or to be written to, a shared page.
    #[inline]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The value to write to a shared page.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The index `count` messages later.
    #[inline]
    pub const fn advance(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// How many messages lie between `earlier` and this index.
    ///
    /// If `earlier` is in truth the later one, the result is huge rather than negative.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Number of slots of a ring, a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries(u32);

impl Entries {
    /// Bytes before the first slot.
    pub const HEADER: usize = 64;

    /// How many slots of `slot_size` bytes a ring of `bytes` bytes has: as many as fit behind the
    /// header, rounded down to a power of two. [`None`] if not even one fits.
    pub const fn of(bytes: usize, slot_size: usize) -> Option<Self> {
        let Some(room) = bytes.checked_sub(Self::HEADER) else {
            return None;
        };
        let Some(count) = room.checked_div(slot_size) else {
            return None;
        };
        // Indices are 32 bits wide and a full ring must differ from an empty one.
        if count == 0 || count > 1 << 31 {
            return None;
        }
        // CAST: `count` is at most 2^31.
        Some(Self(1 << (count as u32).ilog2()))
    }

    /// The number of slots.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// The slot of a message, less than [`count`](Self::count).
    #[inline]
    pub const fn slot(self, index: Index) -> u32 {
        index.0 & (self.0 - 1)
    }
}

/// Whether a producer that moves its published index from `old` to `new` must send an event, given
/// the event index that the consumer has set: it must if the event index lies in `(old, new]`.
#[inline]
pub const fn passes(old: Index, new: Index, event: Index) -> bool {
    new.since(event) < new.since(old)
}
