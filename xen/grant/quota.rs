// SPDX-License-Identifier: GPL-2.0

//! How much of something that is scarce a queue has.
//!
//! Pure logic, tested on the host and by KUnit.

/// An account of things that a queue has for itself: some always, more while it has use for them.
///
/// A thing is *free* or *lent*; whoever keeps the account calls it with each change.
///
/// # Invariants
///
/// `free` is at most `owned`, and `lowest` at most `free`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    least: u32,
    most: u32,
    owned: u32,
    free: u32,
    /// How few have been free since the last look at what is left over.
    lowest: u32,
}

impl Quota {
    /// An account of nothing, that is to have at least `least` things and at most `most`, or `least`
    /// if that is more.
    pub const fn new(least: u32, most: u32) -> Self {
        Self {
            least,
            most: if most > least { most } else { least },
            owned: 0,
            free: 0,
            lowest: 0,
        }
    }

    /// How many there must be.
    #[inline]
    pub const fn least(&self) -> u32 {
        self.least
    }

    /// How many there are, free and lent.
    #[inline]
    pub const fn owned(&self) -> u32 {
        self.owned
    }

    /// How many are free.
    #[inline]
    pub const fn free(&self) -> u32 {
        self.free
    }

    /// How many more there may be, at most `step`.
    #[inline]
    pub const fn room(&self, step: u32) -> u32 {
        let room = self.most.saturating_sub(self.owned);
        if room < step {
            room
        } else {
            step
        }
    }

    /// Whether there are more than there must be.
    #[inline]
    pub const fn has_grown(&self) -> bool {
        self.owned > self.least
    }

    /// There are `count` more, all of them free.
    #[inline]
    pub fn add(&mut self, count: u32) {
        self.owned = self.owned.saturating_add(count);
        self.free = self.free.saturating_add(count);
    }

    /// A free one is lent; [`false`] if there is none.
    #[inline]
    #[must_use]
    pub fn lend(&mut self) -> bool {
        let Some(free) = self.free.checked_sub(1) else {
            return false;
        };
        self.free = free;
        self.lowest = self.lowest.min(free);
        true
    }

    /// A lent one is free again.
    #[inline]
    pub fn give_back(&mut self) {
        // INVARIANT: There is a lent one, or nothing changes.
        if self.free < self.owned {
            self.free += 1;
        }
    }

    /// A lent one does not come back.
    #[inline]
    pub fn lose(&mut self) {
        // INVARIANT: There is a lent one, or nothing changes.
        if self.free < self.owned {
            self.owned -= 1;
        }
    }

    /// How many have been free all the time since the last call, and are more than there must be, but
    /// at most `step`. The caller gives them away: it calls [`drop_free`](Self::drop_free) for each.
    pub fn left_over(&mut self, step: u32) -> u32 {
        let left_over = self
            .lowest
            .min(self.owned.saturating_sub(self.least))
            .min(step);
        self.lowest = self.free;
        left_over
    }

    /// A free one is given away.
    #[inline]
    pub fn drop_free(&mut self) {
        if let Some(free) = self.free.checked_sub(1) {
            self.free = free;
            self.lowest = self.lowest.min(free);
            // INVARIANT: There was a free one, so there was one at all.
            self.owned = self.owned.saturating_sub(1);
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_grant_quota))]
mod tests {
    use super::*;

    /// Lends `count`, and says whether they were all there.
    fn lend(quota: &mut Quota, count: u32) -> bool {
        (0..count).all(|_| quota.lend())
    }

    /// Gives away what is left over, as a pool does; says how much it was.
    fn trim(quota: &mut Quota) -> u32 {
        let count = quota.left_over(1000);
        for _ in 0..count {
            quota.drop_free();
        }
        count
    }

    #[test]
    fn room_is_up_to_the_most() {
        let mut quota = Quota::new(11, 100);
        assert_eq!(quota.room(32), 32);
        quota.add(80);
        assert_eq!(quota.room(32), 20);
        quota.add(20);
        assert_eq!(quota.room(32), 0);
        // More than the most is not wrong, but there is no room for still more.
        quota.add(1);
        assert_eq!(quota.room(32), 0);
        assert_eq!(quota.owned(), 101);
    }

    #[test]
    fn the_most_is_never_below_the_least() {
        let quota = Quota::new(33, 11);
        assert_eq!(quota.room(u32::MAX), 33);
    }

    #[test]
    fn nothing_is_lent_twice() {
        let mut quota = Quota::new(0, 10);
        assert!(!quota.lend());
        quota.add(2);
        assert!(lend(&mut quota, 2));
        assert!(!quota.lend());
        assert_eq!((quota.owned(), quota.free()), (2, 0));
        quota.give_back();
        assert_eq!(quota.free(), 1);
        assert!(quota.lend());
        assert!(!quota.lend());
    }

    #[test]
    fn nothing_comes_back_that_was_not_lent() {
        let mut quota = Quota::new(0, 10);
        quota.add(2);
        quota.give_back();
        quota.lose();
        assert_eq!((quota.owned(), quota.free()), (2, 2));
    }

    #[test]
    fn what_is_lost_makes_room() {
        let mut quota = Quota::new(1, 2);
        quota.add(2);
        assert!(lend(&mut quota, 2));
        quota.lose();
        assert_eq!((quota.owned(), quota.free(), quota.room(5)), (1, 0, 1));
        quota.give_back();
        assert_eq!((quota.owned(), quota.free()), (1, 1));
    }

    #[test]
    fn left_over_is_what_was_not_used() {
        let mut quota = Quota::new(4, 100);
        quota.add(4);
        assert!(!quota.has_grown());
        quota.add(36);
        assert!(quota.has_grown());
        // It has not been there for the whole time.
        assert_eq!(trim(&mut quota), 0);
        // 30 were lent at once, so ten are too many.
        assert!(lend(&mut quota, 30));
        for _ in 0..30 {
            quota.give_back();
        }
        assert_eq!(trim(&mut quota), 10);
        assert_eq!((quota.owned(), quota.free()), (30, 30));
        // Then nothing happens: all go but those that must stay.
        assert_eq!(trim(&mut quota), 26);
        assert_eq!((quota.owned(), quota.free()), (4, 4));
        assert_eq!(trim(&mut quota), 0);
        assert!(!quota.has_grown());
    }

    #[test]
    fn left_over_goes_step_by_step() {
        let mut quota = Quota::new(4, 100);
        quota.add(40);
        assert_eq!(quota.left_over(10), 0);
        for left in [30, 20, 10, 4, 4] {
            for _ in 0..quota.left_over(10) {
                quota.drop_free();
            }
            assert_eq!(quota.owned(), left);
        }
    }

    #[test]
    fn what_is_in_use_is_not_left_over() {
        let mut quota = Quota::new(4, 100);
        quota.add(40);
        assert!(lend(&mut quota, 40));
        assert_eq!(trim(&mut quota), 0);
        assert_eq!(trim(&mut quota), 0);
        for _ in 0..40 {
            quota.give_back();
        }
        assert_eq!(trim(&mut quota), 0);
        assert_eq!(trim(&mut quota), 36);
    }
}
