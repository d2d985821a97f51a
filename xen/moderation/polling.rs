// SPDX-License-Identifier: GPL-2.0

//! For how long a ring with nothing to do is looked at before events are asked for.
//!
//! Going to sleep and being woken costs more than a few looks, for both ends: the frontend need not
//! send an event to a backend that is awake. But looking in vain takes time from others. So it is
//! learnt from each time without requests, slept through or not, how long to look the next time: not
//! at all if the requests come later than one may look for them.
//!
//! Pure logic, tested on the host and by KUnit.

/// The shortest time that is worth anything, in nanoseconds.
const LEAST: u64 = 1_000;

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub struct Polling {
    /// The next time, in nanoseconds; 0 is not at all.
    span: u64,
}

impl Polling {
    /// Nothing is known yet.
    pub const fn new() -> Self {
        Self { span: 0 }
    }

    /// How long to look now, in nanoseconds, if `most` is the longest time that is allowed.
    pub fn span(&self, most: u64) -> u64 {
        let span = self.span.min(most);
        if span < LEAST {
            0
        } else {
            span
        }
    }

    /// Requests came after a time of `gap` nanoseconds without any.
    pub fn learn(&mut self, gap: u64, most: u64) {
        if gap <= most {
            // With some to spare. It comes down again slowly: one gap that is shorter says little.
            let wanted = gap.saturating_mul(2).max(LEAST);
            self.span = wanted.max(self.span - self.span / 4).min(most);
        } else {
            self.span /= 2;
            if self.span < LEAST {
                self.span = 0;
            }
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_moderation_polling))]
mod tests {
    use super::*;

    const MOST: u64 = 50_000;

    fn taught(gaps: &[u64]) -> Polling {
        let mut polling = Polling::new();
        for &gap in gaps {
            polling.learn(gap, MOST);
        }
        polling
    }

    #[test]
    fn nobody_looks_without_reason() {
        assert_eq!(Polling::new().span(MOST), 0);
        assert_eq!(taught(&[u64::MAX, MOST + 1, 1 << 40]).span(MOST), 0);
    }

    #[test]
    fn switched_off() {
        let polling = taught(&[10_000; 10]);
        assert_eq!(polling.span(0), 0);
        assert_eq!(polling.span(LEAST - 1), 0);
        let mut polling = Polling::new();
        polling.learn(0, 0);
        polling.learn(10_000, 0);
        assert_eq!(polling.span(MOST), 0);
    }

    #[test]
    fn long_enough_for_what_came() {
        for gap in [0, 1, 500, 1_000, 10_000, 24_999, 25_000, 49_999, 50_000] {
            let span = taught(&[gap]).span(MOST);
            assert!(span >= gap && span >= LEAST && span <= MOST);
        }
        // One short gap among longer ones changes little.
        let span = taught(&[20_000, 20_000, 100, 20_000, 100]).span(MOST);
        assert!(span >= 20_000);
    }

    #[test]
    fn no_longer_than_need_be() {
        let mut polling = taught(&[25_000]);
        for _ in 0..30 {
            polling.learn(1_000, MOST);
        }
        assert!(polling.span(MOST) <= 4_000);
    }

    #[test]
    fn a_new_limit_takes_effect() {
        let mut polling = taught(&[40_000; 10]);
        assert_eq!(polling.span(MOST), MOST);
        assert_eq!(polling.span(10_000), 10_000);
        polling.learn(40_000, 100_000);
        assert_eq!(polling.span(100_000), 80_000);
    }

    #[test]
    fn given_up_soon_when_it_does_not_pay() {
        let mut polling = taught(&[40_000; 10]);
        let mut wasted = 0;
        for _ in 0..100 {
            wasted += polling.span(MOST);
            polling.learn(1_000_000, MOST);
        }
        assert_eq!(polling.span(MOST), 0);
        assert!(wasted <= 2 * MOST);
    }
}
