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
pub(super) const fn passes(old: Index, new: Index, event: Index) -> bool {
    new.since(event) < new.since(old)
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_ring_index))]
mod tests {
    use super::*;

    #[test]
    fn index_wraps() {
        let last = Index::new(u32::MAX);
        assert_eq!(last.advance(1), Index::new(0));
        assert_eq!(last.advance(3), Index::new(2));
        assert_eq!(last.advance(3).since(last), 3);
        assert_eq!(last.since(last), 0);
        assert_eq!(Index::default().raw(), 0);
    }

    #[test]
    fn index_behind_is_far_ahead() {
        assert_eq!(Index::new(6).since(Index::new(7)), u32::MAX);
        assert_eq!(Index::new(u32::MAX).since(Index::new(1)), u32::MAX - 1);
    }

    #[test]
    fn entries_of_blkif() {
        for order in 0..=4 {
            let entries = Entries::of(4096 << order, 112).map(Entries::count);
            assert_eq!(entries, Some(32 << order));
        }
    }

    #[test]
    fn entries_of_netif() {
        // A transmit slot holds a request of 12 bytes, a receive slot one of 8.
        assert_eq!(Entries::of(4096, 12).map(Entries::count), Some(256));
        assert_eq!(Entries::of(4096, 8).map(Entries::count), Some(256));
    }

    #[test]
    fn entries_of_odd_sizes() {
        assert_eq!(Entries::of(64 + 112, 112).map(Entries::count), Some(1));
        assert_eq!(Entries::of(64 + 3 * 112, 112).map(Entries::count), Some(2));
        assert_eq!(Entries::of(64 + 111, 112), None);
        assert_eq!(Entries::of(64, 1), None);
        assert_eq!(Entries::of(63, 1), None);
        assert_eq!(Entries::of(0, 112), None);
        assert_eq!(Entries::of(4096, 0), None);
        assert_eq!(
            Entries::of(64 + (1 << 31), 1).map(Entries::count),
            Some(1 << 31)
        );
        assert_eq!(Entries::of(64 + (1 << 31) + 1, 1), None);
        assert_eq!(Entries::of(usize::MAX, 1), None);
    }

    #[test]
    fn slots_repeat() -> Result<(), &'static str> {
        let entries = Entries::of(4096, 112).ok_or("no slots")?;
        assert_eq!(entries.slot(Index::new(0)), 0);
        assert_eq!(entries.slot(Index::new(31)), 31);
        assert_eq!(entries.slot(Index::new(32)), 0);
        assert_eq!(entries.slot(Index::new(u32::MAX)), 31);
        assert_eq!(entries.slot(Index::new(u32::MAX).advance(1)), 0);
        Ok(())
    }

    #[test]
    fn passes_is_in_the_interval() {
        // For every place where indices wrap: an event is due if, and only if, its index is one of
        // those that the producer has just moved to.
        for start in 0..12u32 {
            let old = Index::new(start.wrapping_sub(6));
            for count in 1..=5 {
                let new = old.advance(count);
                for offset in 0..16u32 {
                    let event = old.advance(offset.wrapping_sub(8));
                    let mut within = false;
                    for step in 1..=count {
                        within |= old.advance(step) == event;
                    }
                    assert_eq!(passes(old, new, event), within);
                }
            }
        }
        assert!(!passes(Index::new(5), Index::new(5), Index::new(5)));
    }
}
