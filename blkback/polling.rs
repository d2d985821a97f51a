// SPDX-License-Identifier: GPL-2.0

//! For how long a ring with nothing to do is looked at before its thread sleeps.
//!
//! Going to sleep and being woken costs more than a few looks, for both ends: the frontend need not
//! send an event to a backend that is awake. But looking in vain takes time from others. So the time
//! grows while looking pays, and shrinks quickly while it does not.
//!
//! Pure logic, tested on the host and by KUnit.

/// The shortest time that is worth anything, in nanoseconds.
const LEAST: u64 = 2_000;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polling {
    /// The next time, in nanoseconds.
    span: u64,
    /// Sleeps since looking was last tried.
    skipped: u32,
}

/// After so many sleeps without looking before them, looking is tried again.
const RETRY: u32 = 16;

impl Polling {
    /// Nothing is known yet.
    pub(crate) const fn new() -> Self {
        Self {
            span: LEAST,
            skipped: 0,
        }
    }

    /// How long to look now, in nanoseconds, if `most` is the longest time that is allowed.
    pub(crate) fn span(&mut self, most: u64) -> u64 {
        if most < LEAST {
            return 0;
        }
        if self.span == 0 {
            self.skipped += 1;
            if self.skipped < RETRY {
                return 0;
            }
            self.skipped = 0;
            self.span = LEAST;
        }
        self.span.min(most)
    }

    /// There was something before the time was up. The next time may be up to `most`.
    pub(crate) fn hit(&mut self, most: u64) {
        self.span = self.span.saturating_mul(2).min(most).max(LEAST);
    }

    /// The time was up.
    pub(crate) fn miss(&mut self) {
        self.span /= 4;
        if self.span < LEAST {
            self.span = 0;
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkback_polling))]
mod tests {
    use super::*;

    #[test]
    fn switched_off() {
        let mut polling = Polling::new();
        for _ in 0..100 {
            assert_eq!(polling.span(0), 0);
            assert_eq!(polling.span(LEAST - 1), 0);
        }
    }

    #[test]
    fn grows_to_the_limit_while_it_pays() {
        let mut polling = Polling::new();
        let mut last = 0;
        for _ in 0..100 {
            let span = polling.span(50_000);
            assert!(span >= last && span <= 50_000);
            last = span;
            polling.hit(50_000);
        }
        assert_eq!(last, 50_000);
        // A limit that has been raised or lowered takes effect.
        polling.hit(100_000);
        assert_eq!(polling.span(100_000), 100_000);
        assert_eq!(polling.span(10_000), 10_000);
    }

    #[test]
    fn stops_soon_when_it_does_not() {
        let mut polling = Polling::new();
        for _ in 0..100 {
            polling.hit(50_000);
        }
        let mut total = 0;
        for _ in 0..100 {
            let span = polling.span(50_000);
            total += span;
            if span > 0 {
                polling.miss();
            }
        }
        // What is wasted before it is given up is bounded, and so are the new tries.
        assert!(total < 50_000 * 3);
    }

    #[test]
    fn tries_again_from_time_to_time() {
        let mut polling = Polling::new();
        polling.miss();
        let mut tries = 0;
        for _ in 0..RETRY * 10 {
            if polling.span(50_000) > 0 {
                tries += 1;
                polling.miss();
            }
        }
        assert_eq!(tries, 10);
    }
}
