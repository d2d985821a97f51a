// SPDX-License-Identifier: GPL-2.0

//! How many packets may wait for one event.
//!
//! As for other messages, see [`HoldOff`], but that a packet takes several slots of a ring, and that of packets
//! that come ([`Arrivals`]) nobody knows whether there are more: it is tried, ever more rarely as long as they come
//! one by one, as requests do each of which waits for an answer. Of packets that were sent ([`Answers`]) it is known
//! how many are under way.
//!
//! `frames` counts packets. How many slots these take is taken from those that were found last.
//!
//! Pure logic, tested on the host and by KUnit.

use super::{
    hold_off::HoldOff,
    settings::Settings, //
};

/// Packets, and the slots that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    packets: u32,
    slots: u32,
}

impl Found {
    fn add(&mut self, packets: u32, slots: u32) {
        self.packets = self.packets.saturating_add(packets);
        self.slots = self.slots.saturating_add(slots);
    }

    /// Slots of a packet, on average; at least 1.
    fn slots_each(self) -> u32 {
        self.slots.checked_div(self.packets).unwrap_or(1).max(1)
    }
}

/// What has become of the hold-off that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// An event, or something else, has ended it; or there was none.
    Ended,
    /// The timer has.
    Expired,
}

/// Where the next event is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// With which slot from here on it is to come: 1 is the next one.
    pub slots: u32,
    /// The timer has ended the last hold-off, and packets had waited for it.
    pub was_late: bool,
}

/// Packets that come from the other end.
#[derive(Clone, Copy, Debug)]
pub struct Arrivals {
    hold_off: HoldOff,
    found: Found,
    /// Where the event was last asked for.
    ahead: u32,
}

impl Arrivals {
    /// Nothing is known yet, and nothing held off.
    pub const fn new() -> Self {
        Self {
            hold_off: HoldOff::new(),
            found: Found {
                packets: 0,
                slots: 0,
            },
            ahead: 1,
        }
    }

    /// Packets have been found since the next event was last asked for.
    #[inline]
    pub fn found(&mut self, packets: u32, slots: u32) {
        self.found.add(packets, slots);
    }

    /// Where to ask for the next event. It is no more than `most` slots ahead: the producer must not wait for
    /// room meanwhile.
    pub fn ask(&mut self, settings: &Settings, before: Before, most: u32) -> Ahead {
        let found = core::mem::take(&mut self.found);
        let expired = before == Before::Expired;
        if found.packets > 0 {
            if expired {
                self.hold_off.expired(found.packets);
            } else {
                self.hold_off.learn(found.packets);
            }
            self.ahead = match self.hold_off.ahead(settings) {
                1 => 1,
                packets => packets.saturating_mul(found.slots_each()),
            };
        } else if expired {
            // It has been held off for nothing: the next one is worth an event.
            self.hold_off.idle();
            self.ahead = 1;
        } else if !settings.holds_off() {
            self.ahead = 1;
        }
        // Without either somebody has looked for something else.
        self.ahead = self.ahead.min(most).max(1);
        Ahead {
            slots: self.ahead,
            was_late: expired && found.packets > 0,
        }
    }
}

/// Answers to packets that were sent.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    hold_off: HoldOff,
    found: Found,
    slots_each: u32,
    /// The timer has found none: as long as that is so, each has its event.
    slow: bool,
}

impl Answers {
    /// Nothing is known yet, and nothing held off.
    pub const fn new() -> Self {
        Self {
            hold_off: HoldOff::new(),
            found: Found {
                packets: 0,
                slots: 0,
            },
            slots_each: 1,
            slow: false,
        }
    }

    /// Answers have been found since the next event was last asked for.
    #[inline]
    pub fn found(&mut self, packets: u32, slots: u32) {
        self.found.add(packets, slots);
    }

    /// Where to ask for the next event, with so many slots `outstanding`; sooner if nothing can be sent before
    /// some of them come.
    pub fn ask(
        &mut self,
        settings: &Settings,
        before: Before,
        outstanding: u32,
        stopped: bool,
    ) -> Ahead {
        let found = core::mem::take(&mut self.found);
        let expired = before == Before::Expired;
        if found.slots > 0 {
            self.slots_each = found.slots_each();
            self.slow = false;
            if expired {
                self.hold_off.expired(found.slots);
            } else {
                self.hold_off.learn(found.slots.saturating_add(outstanding));
            }
        } else if expired {
            if outstanding > 0 {
                self.hold_off.expired(0);
            } else {
                self.hold_off.idle();
            }
            self.slow = true;
        }
        Ahead {
            slots: self.further(settings, outstanding, stopped),
            was_late: expired && found.slots > 0,
        }
    }

    /// Where the event is to be when more has been sent meanwhile.
    #[inline]
    pub fn further(&self, settings: &Settings, outstanding: u32, stopped: bool) -> u32 {
        if self.slow {
            return 1;
        }
        let settings = Settings {
            frames: match settings.frames {
                1 => 1,
                frames => frames.saturating_mul(self.slots_each),
            },
            ..*settings
        };
        let ahead = self.hold_off.ahead_of(&settings, outstanding);
        if stopped {
            ahead.min(outstanding.div_ceil(4)).max(1)
        } else {
            ahead
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_moderation_packets))]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        frames: 16,
        usecs: 50,
        poll_usecs: 0,
        adaptive: true,
    };

    const FIXED: Settings = Settings {
        adaptive: false,
        ..SETTINGS
    };

    const OFF: Settings = Settings {
        frames: 1,
        ..SETTINGS
    };

    /// Packets that come so many at a time, and where the event is at last.
    fn stream(arrivals: &mut Arrivals, at_once: u32, slots_each: u32, rounds: u32) -> u32 {
        let mut ahead = 1;
        for _ in 0..rounds {
            arrivals.found(at_once, at_once * slots_each);
            ahead = arrivals.ask(&SETTINGS, Before::Ended, 256).slots;
        }
        ahead
    }

    /// Packets of which the next one comes when the last one has been taken; how many had to wait for the timer.
    fn echoes(arrivals: &mut Arrivals, slots: u32, rounds: u32) -> u32 {
        let (mut late, mut ahead) = (0, 1);
        for _ in 0..rounds {
            let before = if ahead > slots {
                late += 1;
                Before::Expired
            } else {
                Before::Ended
            };
            arrivals.found(1, slots);
            ahead = arrivals.ask(&SETTINGS, before, 64).slots;
        }
        late
    }

    #[test]
    fn packets_one_by_one_hardly_ever_wait() {
        for slots in [1, 2, 18] {
            let mut arrivals = Arrivals::new();
            assert!(echoes(&mut arrivals, slots, 1_000) <= 6);
            assert!(echoes(&mut arrivals, slots, 80_000) <= 18);
        }
        // Nor soon after a stream, but the first one.
        let mut arrivals = Arrivals::new();
        assert_eq!(stream(&mut arrivals, 64, 1, 1_000), 16);
        echoes(&mut arrivals, 1, 1);
        assert!(echoes(&mut arrivals, 1, 1_000) <= 6);
    }

    #[test]
    fn a_stream_that_looks_like_single_packets_is_found_out() {
        let mut arrivals = Arrivals::new();
        let mut ahead = 1;
        for _ in 0..100 {
            // As many as there have to be for an event.
            arrivals.found(ahead, ahead);
            ahead = arrivals.ask(&SETTINGS, Before::Ended, 64).slots;
        }
        assert_eq!(ahead, 16);
    }

    #[test]
    fn a_stream_shares_events() {
        let mut arrivals = Arrivals::new();
        assert_eq!(stream(&mut arrivals, 8, 1, 8), 4);
        assert_eq!(stream(&mut arrivals, 16, 1, 1_000), 16);
        // Large packets take more slots, but no more than there are.
        assert_eq!(stream(&mut arrivals, 16, 3, 8), 48);
        assert_eq!(stream(&mut arrivals, 16, 18, 8), 256);
    }

    #[test]
    fn the_producer_has_room() {
        let mut arrivals = Arrivals::new();
        stream(&mut arrivals, 64, 1, 1_000);
        for most in 0..16 {
            arrivals.found(64, 64);
            let ahead = arrivals.ask(&SETTINGS, Before::Ended, most).slots;
            assert_eq!(ahead, most.max(1));
        }
    }

    #[test]
    fn arrivals_that_came_late_are_made_up_for() {
        let mut arrivals = Arrivals::new();
        assert_eq!(stream(&mut arrivals, 64, 1, 1_000), 16);
        arrivals.found(5, 5);
        let ahead = arrivals.ask(&SETTINGS, Before::Expired, 64);
        assert_eq!(
            ahead,
            Ahead {
                slots: 4,
                was_late: true
            }
        );
        // Nothing has waited.
        let ahead = arrivals.ask(&SETTINGS, Before::Expired, 64);
        assert_eq!(
            ahead,
            Ahead {
                slots: 1,
                was_late: false
            }
        );
        assert_eq!(arrivals.ask(&SETTINGS, Before::Ended, 64).slots, 1);
    }

    #[test]
    fn a_look_for_something_else_changes_nothing() {
        let mut arrivals = Arrivals::new();
        assert_eq!(stream(&mut arrivals, 64, 1, 1_000), 16);
        assert_eq!(arrivals.ask(&SETTINGS, Before::Ended, 64).slots, 16);
        assert_eq!(arrivals.ask(&OFF, Before::Ended, 64).slots, 1);
    }

    #[test]
    fn fixed_numbers_need_no_history() {
        let mut arrivals = Arrivals::new();
        arrivals.found(1, 1);
        assert_eq!(arrivals.ask(&FIXED, Before::Ended, 64).slots, 16);
        arrivals.found(9, 9);
        assert_eq!(arrivals.ask(&OFF, Before::Ended, 64).slots, 1);
        let mut answers = Answers::new();
        assert_eq!(answers.ask(&FIXED, Before::Ended, 100, false).slots, 16);
        // Never beyond the last one.
        assert_eq!(answers.ask(&FIXED, Before::Ended, 3, false).slots, 3);
    }

    #[test]
    fn one_packet_under_way_is_answered_at_once() {
        let mut answers = Answers::new();
        for _ in 0..1_000 {
            answers.found(64, 64);
            answers.ask(&SETTINGS, Before::Ended, 64, false);
        }
        for outstanding in [1, 2] {
            assert_eq!(answers.further(&SETTINGS, outstanding, false), 1);
        }
        assert_eq!(answers.further(&SETTINGS, 16, false), 12);
        assert_eq!(answers.further(&SETTINGS, 100, false), 16);
        assert_eq!(answers.further(&OFF, 100, false), 1);
    }

    #[test]
    fn whoever_is_stopped_is_told_sooner() {
        let mut answers = Answers::new();
        for _ in 0..1_000 {
            // 14 packets of 18 slots.
            answers.found(4, 72);
            answers.ask(&SETTINGS, Before::Ended, 180, false);
        }
        assert_eq!(answers.further(&SETTINGS, 240, false), 180);
        assert_eq!(answers.further(&SETTINGS, 240, true), 60);
        assert_eq!(answers.further(&SETTINGS, 1, true), 1);
        assert_eq!(answers.further(&FIXED, 240, true), 60);
        // Nothing is under way, and what is sent next finds that the event is further ahead, or the timer does.
        assert_eq!(answers.further(&SETTINGS, 0, false), 288);
        assert_eq!(answers.further(&SETTINGS, 0, true), 1);
        for outstanding in 1..300 {
            let ahead = answers.further(&SETTINGS, outstanding, false);
            assert!(ahead >= 1 && ahead <= outstanding);
            assert!(ahead * 4 <= (outstanding * 3).max(4));
        }
    }

    #[test]
    fn an_end_that_answers_slowly_is_left_alone() {
        let mut answers = Answers::new();
        for _ in 0..1_000 {
            answers.found(64, 64);
            answers.ask(&SETTINGS, Before::Ended, 64, false);
        }
        let ahead = answers.ask(&SETTINGS, Before::Expired, 64, false);
        assert_eq!(ahead.slots, 1);
        assert!(!ahead.was_late);
        assert_eq!(answers.further(&SETTINGS, 200, false), 1);
        // It takes many answers in time to try again.
        for _ in 0..30 {
            answers.found(64, 64);
            assert_eq!(answers.ask(&SETTINGS, Before::Ended, 64, false).slots, 1);
        }
    }
}
