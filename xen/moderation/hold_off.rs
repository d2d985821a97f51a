// SPDX-License-Identifier: GPL-2.0

//! How many messages may wait for one event.
//!
//! An event costs both domains, and Xen, more than many messages do. With several under way at once,
//! one event for some of them is enough: the consumer of a ring asks for it further ahead, and arms a
//! timer in case that they do not come soon. How far ahead is learnt from what has happened of late:
//!
//! * Half of what is seen under way at once can wait. Whether more can is tried, twice as many each time.
//! * When the timer ends a hold-off, messages have waited in vain. From then on no more wait than three
//!   quarters of those that had come, and it is tried ever more rarely whether more can.
//!
//! How many are under way at the moment of an event says little: a peer that is woken by each message and
//! answers it at once, while the sender would go on sending if it were not interrupted, makes many look
//! like one. So it is also tried whether a second message comes if the first one is not
//! told of. For somebody who has one under way at a time the timer ends that, in the end after every
//! [`MOST_PATIENCE`] messages.
//!
//! A consumer of answers knows how many are still to come, and does not wait for more than that; see
//! [`HoldOff::ahead_of`].
//!
//! Pure logic, tested on the host and by KUnit.

use super::settings::{
    Settings,
    MAX_FRAMES, //
};

/// Batches after which more messages may wait, at least, before the timer has ended a hold-off and afterwards; at
/// most; and at most if more are seen to be under way, or have come, than had before.
const LEAST_PATIENCE: u32 = 8;
const STEADY_PATIENCE: u32 = 64;
const MOST_PATIENCE: u32 = 8192;
const HOPEFUL_PATIENCE: u32 = 128;

/// After so many hold-offs that nothing came in, without more than one message at a time meanwhile, it is known that
/// they come too slowly.
const MOST_IDLE: u32 = 4;

/// What has been learnt of one direction of a ring.
#[derive(Clone, Copy, Debug)]
pub struct HoldOff {
    /// Messages that may wait for one event; at least 1.
    ceiling: u32,
    /// So many did not come in time the last time that it was tried; 0 if all did.
    limit: u32,
    /// It is being tried again.
    beyond: bool,
    /// Batches after which that is done.
    patience: u32,
    /// Batches since then.
    calm: u32,
    /// Batches since the ceiling may have changed.
    batches: u32,
    /// Messages that were under way at once since then, at most.
    depth: u32,
    /// Hold-offs that nothing came in, since two messages were last under way at once.
    idle: u32,
}

impl HoldOff {
    /// Nothing is known yet, and nothing held off.
    pub const fn new() -> Self {
        Self {
            ceiling: 1,
            limit: 0,
            beyond: false,
            patience: LEAST_PATIENCE,
            calm: 0,
            batches: 0,
            depth: 0,
            idle: 0,
        }
    }

    /// With which message the next event is to come: 1 is the next one.
    #[inline]
    pub const fn ahead(&self, settings: &Settings) -> u32 {
        if !settings.holds_off() {
            return 1;
        }
        if !settings.adaptive || settings.frames < self.ceiling {
            return settings.frames;
        }
        self.ceiling
    }

    /// The same for answers, of which `outstanding` are still to come: it is never beyond the last of them, so
    /// that the last ones do not wait for others that nobody has asked for. Unless the user has set a
    /// fixed number, a quarter of them need not have come, so that the producer has something to do while
    /// the others are dealt with.
    ///
    /// If there are none, it is as far ahead as for what comes by itself: more may be asked for soon.
    #[inline]
    pub const fn ahead_of(&self, settings: &Settings, outstanding: u32) -> u32 {
        let ahead = self.ahead(settings);
        if outstanding == 0 {
            return ahead;
        }
        let most = if settings.adaptive {
            outstanding - outstanding.div_ceil(4)
        } else {
            outstanding
        };
        let ahead = if ahead < most { ahead } else { most };
        if ahead < 1 {
            1
        } else {
            ahead
        }
    }

    /// Messages have come, in time. So many were seen to be under way at once.
    #[inline]
    pub fn learn(&mut self, depth: u32) {
        // With many under way a look can still meet few.
        self.depth = self.depth.max(depth);
        if depth > 1 {
            self.idle = 0;
        }
        self.calm = self.calm.saturating_add(1);
        self.batches += 1;
        if self.batches < LEAST_PATIENCE {
            return;
        }
        let depth = core::mem::take(&mut self.depth);
        self.batches = 0;
        if self.beyond && self.ceiling >= self.limit {
            // As many as did not come then have come by now.
            self.limit = 0;
            self.beyond = false;
        }
        if depth >= self.limit {
            self.patience = self.patience.min(HOPEFUL_PATIENCE);
        }
        let next = (depth / 2)
            .max(self.ceiling.saturating_mul(2))
            .min(MAX_FRAMES);
        let most = match self.limit {
            0 => MAX_FRAMES,
            limit => good(limit),
        };
        if !self.beyond && next > most && self.calm >= self.patience {
            self.beyond = true;
            self.calm = 0;
            self.patience = (self.patience / 2).max(STEADY_PATIENCE);
        }
        self.ceiling = if self.beyond { next } else { next.min(most) };
    }

    /// The timer has ended a hold-off, and found so many messages waiting.
    pub fn expired(&mut self, found: u32) {
        let limit = found.saturating_add(1);
        let patience = (self.patience * 4).max(STEADY_PATIENCE);
        self.patience = if self.limit != 0 && limit > self.limit {
            patience.min(HOPEFUL_PATIENCE)
        } else {
            patience.min(MOST_PATIENCE)
        };
        self.limit = limit;
        self.beyond = false;
        self.ceiling = good(limit).min(self.ceiling);
        self.calm = 0;
        self.batches = 0;
        self.depth = 0;
    }

    /// The timer has ended a hold-off, and found nothing. After the last message of many that is a matter of course.
    /// Single messages that come more slowly than that would have the timer run for each of them, for nothing.
    pub fn idle(&mut self) {
        self.idle += 1;
        if self.idle >= MOST_IDLE {
            self.idle = 0;
            self.expired(0);
        }
    }
}

/// How many messages may wait, if so many did not come in time: some fewer than did.
const fn good(limit: u32) -> u32 {
    let good = limit - limit.div_ceil(4);
    if good < 1 {
        1
    } else {
        good
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_moderation_hold_off))]
mod tests {
    use super::*;

    const SETTINGS: Settings = Settings {
        frames: 16,
        usecs: 100,
        poll_usecs: 0,
        adaptive: true,
    };

    /// What a consumer of answers sees with `depth` requests under way at all times, each answered after
    /// `latency` ns, one by one; how many events `rounds` of them take, and how often the timer expired.
    fn answers(hold_off: &mut HoldOff, depth: u32, interval: u64, rounds: u32) -> (u32, u32) {
        let (mut events, mut expired) = (0, 0);
        let mut left = rounds;
        while left > 0 {
            let ahead = hold_off.ahead_of(&SETTINGS, depth);
            // The first answer is due after `interval`, with the timer running since the last event.
            let in_time = SETTINGS.nanoseconds() / interval;
            if ahead > 1 && u64::from(ahead) > in_time {
                let found = in_time as u32;
                hold_off.expired(found);
                expired += 1;
                left = left.saturating_sub(found.max(1));
            } else {
                hold_off.learn(depth);
                left = left.saturating_sub(ahead);
            }
            events += 1;
        }
        (events, expired)
    }

    #[test]
    fn depth_is_noticed_soon() {
        let mut hold_off = HoldOff::new();
        let (events, expired) = answers(&mut hold_off, 32, 1_000, 1_000);
        assert_eq!(expired, 0);
        assert_eq!(hold_off.ahead_of(&SETTINGS, 32), 16);
        // Those before it was noticed included.
        assert!(events <= 80);
        let (events, _) = answers(&mut hold_off, 32, 1_000, 16_000);
        assert!(events <= 1_000);
    }

    #[test]
    fn depth_can_be_found_out_by_trying() {
        // A consumer of requests that is faster than their producer sees two of them now and then.
        let mut hold_off = HoldOff::new();
        for round in 0..200 {
            hold_off.learn(if round % 8 == 3 { 2 } else { 1 });
        }
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
    }

    /// What a consumer sees whose peer sends `depth` messages at a time, each at once, as soon as all have been
    /// taken; how many of `rounds` such batches had the timer expire.
    fn batches(hold_off: &mut HoldOff, depth: u32, rounds: u32) -> u32 {
        let mut expired = 0;
        for _ in 0..rounds {
            let mut left = depth;
            while left > 0 {
                let ahead = hold_off.ahead(&SETTINGS);
                if ahead > left {
                    hold_off.expired(left);
                    expired += 1;
                } else {
                    hold_off.learn(ahead);
                }
                left = left.saturating_sub(ahead);
            }
        }
        expired
    }

    #[test]
    fn what_looks_like_one_may_be_many() {
        // Each is answered before the next is sent, but the sender waits for none.
        let mut hold_off = HoldOff::new();
        let mut answered = 0;
        for _ in 0..100 {
            let ahead = hold_off.ahead_of(&SETTINGS, 0);
            answered += ahead;
            hold_off.learn(ahead);
        }
        assert_eq!(hold_off.ahead_of(&SETTINGS, 0), 16);
        assert!(answered > 500);
        // Those that are known to come are waited for, no others.
        assert_eq!(hold_off.ahead_of(&SETTINGS, 4), 3);
    }

    #[test]
    fn one_at_a_time_is_hardly_ever_tried() {
        let mut hold_off = HoldOff::new();
        assert!(batches(&mut hold_off, 1, 1_000) <= 6);
        assert!(batches(&mut hold_off, 1, 80_000) <= 18);
        // Whatever was before.
        let mut hold_off = HoldOff::new();
        for _ in 0..1_000 {
            hold_off.learn(32);
        }
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
        assert!(batches(&mut hold_off, 1, 1_000) <= 6);
    }

    #[test]
    fn what_comes_slowly_hardly_ever_starts_the_timer() {
        let mut hold_off = HoldOff::new();
        for _ in 0..1_000 {
            hold_off.learn(32);
        }
        let mut timers = 0;
        for _ in 0..10_000 {
            hold_off.learn(1);
            if hold_off.ahead(&SETTINGS) > 1 {
                timers += 1;
                hold_off.idle();
            }
        }
        assert!(timers <= 10_000 / 16);
        // What comes many at a time with pauses in between goes on sharing events.
        let mut hold_off = HoldOff::new();
        for _ in 0..1_000 {
            for _ in 0..4 {
                hold_off.learn(32);
            }
            hold_off.idle();
        }
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
    }

    #[test]
    fn many_after_one_are_noticed_soon() {
        let mut hold_off = HoldOff::new();
        batches(&mut hold_off, 1, 50_000);
        // One answer in eight is seen together with another.
        for round in 0..512 {
            let ahead = hold_off.ahead_of(&SETTINGS, 0);
            hold_off.learn(ahead.max(if round % 8 == 3 { 2 } else { 1 }));
        }
        assert_eq!(hold_off.ahead_of(&SETTINGS, 0), 16);
    }

    #[test]
    fn a_few_at_a_time_share_events_without_the_timer() {
        for depth in 2..=40 {
            let mut hold_off = HoldOff::new();
            batches(&mut hold_off, depth, 50_000);
            let expired = batches(&mut hold_off, depth, 20_000);
            // One message in 256 waits for it, at most.
            assert!(expired <= 20_000 * depth / 256);
        }
    }

    #[test]
    fn slow_devices_are_left_alone() {
        // With an answer a millisecond, none of them is to wait for others.
        let mut hold_off = HoldOff::new();
        let (_, expired) = answers(&mut hold_off, 32, 1_000_000, 100_000);
        assert!(expired <= 100_000 / HOPEFUL_PATIENCE + 8);
        // With one in 20 us, five come in time.
        let mut hold_off = HoldOff::new();
        let (events, expired) = answers(&mut hold_off, 32, 20_000, 100_000);
        assert!(expired <= events / 100);
        assert!(events < 70_000);
    }

    #[test]
    fn an_expired_timer_is_made_up_for() {
        let mut hold_off = HoldOff::new();
        answers(&mut hold_off, 32, 1_000, 1_000);
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
        hold_off.expired(1);
        assert_eq!(hold_off.ahead(&SETTINGS), 1);
        let (events, _) = answers(&mut hold_off, 32, 1_000, 1_000);
        assert!(events <= 200);
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
    }

    #[test]
    fn never_beyond_what_can_come() {
        let mut hold_off = HoldOff::new();
        for _ in 0..10_000 {
            hold_off.learn(512);
        }
        let settings = Settings {
            frames: MAX_FRAMES,
            ..SETTINGS
        };
        let fixed = Settings {
            adaptive: false,
            ..settings
        };
        for outstanding in 1..600 {
            let ahead = hold_off.ahead_of(&settings, outstanding);
            assert!(ahead >= 1 && ahead <= outstanding);
            // Some are left, or it is the last one.
            assert!(ahead < outstanding || outstanding <= 1);
            let ahead = hold_off.ahead_of(&fixed, outstanding);
            assert_eq!(ahead, outstanding.clamp(1, MAX_FRAMES));
        }
        assert_eq!(hold_off.ahead_of(&settings, u32::MAX), MAX_FRAMES);
    }

    #[test]
    fn settings_take_effect_at_once() {
        let mut hold_off = HoldOff::new();
        for _ in 0..1_000 {
            hold_off.learn(64);
        }
        assert_eq!(hold_off.ahead(&SETTINGS), 16);
        for frames in [1, 2, 5, 16] {
            let settings = Settings { frames, ..SETTINGS };
            assert_eq!(hold_off.ahead(&settings), frames);
        }
        let off = Settings {
            usecs: 0,
            ..SETTINGS
        };
        assert_eq!(hold_off.ahead(&off), 1);
        // A fixed number needs no history.
        let fixed = Settings {
            adaptive: false,
            ..SETTINGS
        };
        assert_eq!(HoldOff::new().ahead(&fixed), 16);
    }

    #[test]
    fn no_history_is_too_long() {
        let mut hold_off = HoldOff::new();
        for _ in 0..100 {
            hold_off.expired(u32::MAX);
            hold_off.expired(0);
        }
        assert_eq!(hold_off.ahead(&SETTINGS), 1);
        for _ in 0..100_000 {
            hold_off.learn(u32::MAX);
        }
        let settings = Settings {
            frames: MAX_FRAMES,
            ..SETTINGS
        };
        assert_eq!(hold_off.ahead(&settings), MAX_FRAMES);
    }
}
