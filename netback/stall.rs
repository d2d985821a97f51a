// SPDX-License-Identifier: GPL-2.0

//! Whether a guest still takes packets.
//!
//! A queue is stalled when for some time there have been too few requests for the packet that is next. It is
//! no longer when there are enough for any packet: a guest that offers one frame now and then makes the
//! carrier neither come nor go.
//!
//! Pure logic, tested on the host and by KUnit.

/// What has become of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It has stalled.
    Stalled,
    /// It is ready again.
    Ready,
}

/// What is known of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stall {
    /// Since when there have been too few requests, in nanoseconds.
    since: Option<u64>,
    stalled: bool,
}

impl Stall {
    /// Whether it is stalled.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// There are enough requests for what there is to send, or there is nothing.
    pub(crate) fn fed(&mut self) {
        self.since = None;
    }

    /// There are too few requests for the packet that is next. `timeout`: after how many nanoseconds the
    /// queue is stalled; never if 0.
    pub(crate) fn starved(&mut self, now: u64, timeout: u64) -> Option<Change> {
        let since = *self.since.get_or_insert(now);
        if self.stalled || timeout == 0 || now.saturating_sub(since) < timeout {
            return None;
        }
        self.stalled = true;
        Some(Change::Stalled)
    }

    /// There are so many requests, of so many that the largest packet needs.
    pub(crate) fn offered(&mut self, requests: u32, most_needed: u32) -> Option<Change> {
        if !self.stalled || requests < most_needed {
            return None;
        }
        self.stalled = false;
        self.since = None;
        Some(Change::Ready)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_stall))]
mod tests {
    use super::*;

    #[test]
    fn after_some_time_only() {
        let mut stall = Stall::default();
        assert_eq!(stall.starved(1000, 100), None);
        assert_eq!(stall.starved(1099, 100), None);
        // A clock that goes backwards.
        assert_eq!(stall.starved(0, 100), None);
        assert_eq!(stall.starved(1100, 100), Some(Change::Stalled));
        assert_eq!(stall.starved(2000, 100), None);
        assert!(stall.is_stalled());
    }

    #[test]
    fn time_begins_anew_with_each_packet() {
        let mut stall = Stall::default();
        for now in 0..1000 {
            assert_eq!(stall.starved(now * 99, 100), None);
            assert_eq!(stall.starved(now * 99 + 50, 100), None);
            stall.fed();
        }
    }

    #[test]
    fn a_few_requests_are_not_enough() {
        let mut stall = Stall::default();
        let _ = stall.starved(0, 1);
        assert_eq!(stall.starved(1, 1), Some(Change::Stalled));
        for requests in 0..17 {
            assert_eq!(stall.offered(requests, 17), None);
            // Nor if a small packet fits.
            stall.fed();
        }
        assert_eq!(stall.offered(17, 17), Some(Change::Ready));
        assert_eq!(stall.offered(256, 17), None);
        assert!(!stall.is_stalled());
        // It takes as long as before.
        assert_eq!(stall.starved(1000, 100), None);
        assert_eq!(stall.starved(1100, 100), Some(Change::Stalled));
    }

    #[test]
    fn never_without_a_time() {
        let mut stall = Stall::default();
        assert_eq!(stall.starved(0, 0), None);
        assert_eq!(stall.starved(u64::MAX, 0), None);
        assert!(!stall.is_stalled());
    }
}
