// SPDX-License-Identifier: GPL-2.0

//! An exhaustive model of holding events off, with the timer that ends it.
//!
//! The model of the ring has a timer that always works. Here the timer is the one of `backstop.rs`, which
//! is left running from one hold-off to the next, and every order is searched in which the single accesses
//! of producer, consumer and timer can happen. A state from which nothing can happen any more must be
//! one in which every message has been consumed. To show that the search would find a lost wake-up, it is
//! also done with each part of the protocol left out.
//!
//! The consumer may move the event that it waits for further ahead while it waits, as a frontend does
//! when it sends more requests, also without a timer if it never waits for more than will come.
//!
//! Time is whatever happens: a deadline that was not reached at one look may be at the next. How stores
//! become visible late is the ring's model's subject, and that indices wrap the ring's tests'.
//!
//! Too large for the kernel: for the host only.

use std::{
    collections::HashSet,
    vec::Vec, //
};

/// What is searched.
#[derive(Clone, Copy)]
struct Setup {
    /// Messages of each push.
    batches: &'static [u32],
    /// Furthest that the event index is set ahead; 1 is the next message.
    ahead: u32,
    /// The consumer may move it while it waits.
    moves: bool,
    /// It never waits for more than will come.
    bounded: bool,
    /// There is a timer.
    timer: bool,
    /// The consumer looks once more after it has moved the event index.
    final_check: bool,
    /// The timer is told of the hold-off before that look.
    early_hold: bool,
    /// The timer's function looks for a deadline once more after it has said that it does not run.
    second_look: bool,
    /// It takes a deadline away only if it is the one that was reached, or else looks again.
    exchange: bool,
    /// It says that it does not run before it wakes the consumer, not afterwards.
    stopped_first: bool,
}

impl Setup {
    const fn new(batches: &'static [u32], ahead: u32) -> Self {
        Self {
            batches,
            ahead,
            moves: true,
            bounded: false,
            timer: true,
            final_check: true,
            early_hold: true,
            second_look: true,
            exchange: true,
            stopped_first: true,
        }
    }

    fn total(&self) -> u32 {
        self.batches.iter().sum()
    }
}

/// What the producer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Producer {
    /// Publish a batch.
    Push,
    /// See whether an event is due for what came after this index.
    ReadEvent(u32),
    /// Send it.
    Send,
}

/// What the consumer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Consumer {
    /// Look for messages and take them, and end the hold-off.
    Look,
    /// Ask for an event at the message that far ahead.
    Ask(u32),
    /// Tell the timer of the deadline.
    SetDeadline(u32),
    /// Start it unless it runs.
    StartTimer(u32),
    /// Look once more, for that many messages.
    Check(u32),
    /// Nothing, before an event or the timer; or move the event index from that far ahead.
    Sleep(u32),
}

/// What the timer's function does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Timer {
    /// Nothing: it is not queued, or its time has not come.
    Idle,
    /// Read the deadline.
    ReadDeadline,
    /// There was none: say that it does not run.
    Stop,
    /// Look for one once more.
    LookAgain,
    /// There is one: run, unless somebody else has seen to it.
    RunAgain,
    /// This deadline was reached: take it away.
    TakeDeadline(u32),
    /// Say that it does not run, to wake the consumer afterwards, or the other way round.
    StopToWake,
    Wake,
    StopAfterwards,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    producer: Producer,
    pushed: usize,
    published: u32,
    consumer: Consumer,
    consumed: u32,
    /// Messages have been found since the consumer last slept.
    busy: bool,
    event: u32,
    event_pending: bool,
    /// The timer's function has woken the consumer.
    woken: bool,
    timer: Timer,
    queued: bool,
    running: bool,
    /// Each hold-off has another deadline; 0: none.
    deadline: u32,
    holds: u32,
}

/// Hold-offs that deadlines are told apart for.
const HOLDS: u32 = 2;

impl State {
    const FIRST: Self = Self {
        producer: Producer::Push,
        pushed: 0,
        published: 0,
        consumer: Consumer::Look,
        consumed: 0,
        busy: false,
        event: 1,
        event_pending: false,
        woken: false,
        timer: Timer::Idle,
        queued: false,
        running: false,
        deadline: 0,
        holds: 0,
    };

    /// All that can happen next.
    fn successors(&self, setup: &Setup) -> Vec<Self> {
        let mut next = Vec::new();
        self.produce(setup, &mut next);
        self.consume(setup, &mut next);
        self.fire(setup, &mut next);
        next
    }

    fn produce(&self, setup: &Setup, next: &mut Vec<Self>) {
        let mut state = self.clone();
        match self.producer {
            Producer::Push => {
                let Some(&count) = setup.batches.get(self.pushed) else {
                    return;
                };
                state.producer = Producer::ReadEvent(self.published);
                state.published += count;
                state.pushed += 1;
            }
            Producer::ReadEvent(old) => {
                let passed = old < self.event && self.event <= self.published;
                state.producer = if passed {
                    Producer::Send
                } else {
                    Producer::Push
                };
            }
            Producer::Send => {
                state.event_pending = true;
                state.producer = Producer::Push;
            }
        }
        next.push(state);
    }

    /// How far ahead an event may be asked for.
    fn furthest(&self, setup: &Setup) -> u32 {
        if setup.bounded {
            setup.ahead.min(setup.total() - self.consumed).max(1)
        } else {
            setup.ahead
        }
    }

    fn consume(&self, setup: &Setup, next: &mut Vec<Self>) {
        let mut state = self.clone();
        let hold = |ahead| {
            if ahead > 1 && setup.timer {
                Consumer::SetDeadline(ahead)
            } else {
                Consumer::Check(ahead)
            }
        };
        match self.consumer {
            Consumer::Look => {
                state.deadline = 0;
                if self.published == self.consumed {
                    let furthest = if self.busy { self.furthest(setup) } else { 1 };
                    for ahead in 1..=furthest {
                        state.consumer = Consumer::Ask(ahead);
                        next.push(state.clone());
                    }
                    return;
                }
                state.consumed = self.published;
                state.busy = true;
            }
            Consumer::Ask(ahead) => {
                state.event = self.consumed + ahead;
                state.consumer = if setup.early_hold {
                    hold(ahead)
                } else {
                    Consumer::Check(ahead)
                };
            }
            Consumer::SetDeadline(ahead) => {
                state.holds = self.holds % HOLDS + 1;
                state.deadline = state.holds;
                state.consumer = Consumer::StartTimer(ahead);
            }
            Consumer::StartTimer(ahead) => {
                state.queued |= !self.running;
                state.running = true;
                state.consumer = if setup.early_hold {
                    Consumer::Check(ahead)
                } else {
                    Consumer::Sleep(ahead)
                };
            }
            Consumer::Check(ahead) => {
                if setup.final_check && self.published - self.consumed >= ahead {
                    state.consumer = Consumer::Look;
                } else {
                    state.busy = false;
                    state.consumer = Consumer::Sleep(ahead);
                    if !setup.early_hold && ahead > 1 && setup.timer {
                        // What is waited for may have come before the timer was told.
                        state.consumer = Consumer::SetDeadline(ahead);
                    }
                }
            }
            Consumer::Sleep(ahead) => {
                if self.event_pending || self.woken {
                    state.event_pending = false;
                    state.woken = false;
                    state.consumer = Consumer::Look;
                    next.push(state.clone());
                    state = self.clone();
                }
                if setup.moves && ahead < self.furthest(setup) {
                    state.consumer = Consumer::Ask(ahead + 1);
                    next.push(state);
                }
                return;
            }
        }
        next.push(state);
    }

    fn fire(&self, setup: &Setup, next: &mut Vec<Self>) {
        let mut state = self.clone();
        match self.timer {
            Timer::Idle => {
                if !self.queued {
                    return;
                }
                state.queued = false;
                state.timer = Timer::ReadDeadline;
            }
            Timer::ReadDeadline => {
                if self.deadline == 0 {
                    state.timer = Timer::Stop;
                } else {
                    state.timer = Timer::TakeDeadline(self.deadline);
                    next.push(state.clone());
                    // Or it has not been reached.
                    state.queued = true;
                    state.timer = Timer::Idle;
                }
            }
            Timer::Stop => {
                state.running = false;
                state.timer = if setup.second_look {
                    Timer::LookAgain
                } else {
                    Timer::Idle
                };
            }
            Timer::LookAgain => {
                state.timer = if self.deadline == 0 {
                    Timer::Idle
                } else {
                    Timer::RunAgain
                };
            }
            Timer::RunAgain => {
                state.running = true;
                state.timer = if self.running {
                    Timer::Idle
                } else {
                    Timer::ReadDeadline
                };
            }
            Timer::TakeDeadline(reached) => {
                if setup.exchange && self.deadline != reached {
                    state.timer = Timer::ReadDeadline;
                } else {
                    state.deadline = 0;
                    state.timer = if setup.stopped_first {
                        Timer::StopToWake
                    } else {
                        Timer::Wake
                    };
                }
            }
            Timer::StopToWake => {
                state.running = false;
                state.timer = Timer::Wake;
            }
            Timer::Wake => {
                state.woken = true;
                state.timer = if setup.stopped_first {
                    Timer::Idle
                } else {
                    Timer::StopAfterwards
                };
            }
            Timer::StopAfterwards => {
                state.running = false;
                state.timer = Timer::Idle;
            }
        }
        next.push(state);
    }
}

/// Searches all states; returns how many there are, or the way to one that is stuck too early.
fn search(setup: &Setup) -> Result<usize, Vec<State>> {
    // Each with the place of the one it was reached from.
    let mut states = vec![(State::FIRST, 0)];
    let mut known = HashSet::from([State::FIRST]);
    let mut at = 0;
    while at < states.len() {
        let state = states[at].0.clone();
        let next = state.successors(setup);
        // A consumer that could still move its event index need not.
        let sleeps = matches!(state.consumer, Consumer::Sleep(_))
            && !state.event_pending
            && !state.woken
            && state.timer == Timer::Idle
            && !state.queued
            && state.producer == Producer::Push
            && state.pushed == setup.batches.len();
        if (next.is_empty() || sleeps) && state.consumed != setup.total() {
            let mut way = vec![state];
            while at != 0 {
                at = states[at].1;
                way.push(states[at].0.clone());
            }
            way.reverse();
            return Err(way);
        }
        for state in next {
            if known.insert(state.clone()) {
                states.push((state, at));
            }
        }
        at += 1;
    }
    Ok(states.len())
}

/// Pushes of one and of several messages.
const PATTERNS: [&[u32]; 4] = [&[1], &[1, 1], &[3], &[1, 2, 1]];

/// Searches every pattern and hold-off; returns whether a wake-up can be lost in any of them.
fn loses(change: impl Fn(&mut Setup)) -> bool {
    let mut lost = 0;
    for batches in PATTERNS {
        for ahead in 1..=3 {
            let mut setup = Setup::new(batches, ahead);
            change(&mut setup);
            if let Err(way) = search(&setup) {
                // Shown by the test runner if the test fails.
                println!("pushes of {batches:?}, up to {ahead} ahead:");
                for state in way {
                    println!("    {state:?}");
                }
                lost += 1;
            }
        }
    }
    lost != 0
}

#[test]
fn no_wake_up_is_lost() {
    assert!(!loses(|_| ()));
    assert!(!loses(|setup| setup.moves = false));
}

#[test]
fn no_wake_up_is_lost_by_waiting_for_what_will_come() {
    assert!(!loses(|setup| setup.bounded = true));
    // Then it takes no timer for that, only for how long it lasts.
    assert!(!loses(|setup| {
        setup.bounded = true;
        setup.timer = false;
    }));
}

#[test]
fn search_is_not_trivial() {
    // All three really interleave, and all that the timer's function can do is done.
    let states = search(&Setup::new(&[1, 2, 1], 3));
    assert!(states.is_ok_and(|states| states > 5_000), "too few states");
}

#[test]
fn hold_off_needs_its_timer() {
    assert!(loses(|setup| setup.timer = false));
}

#[test]
fn final_check_is_needed() {
    // With a timer it is only late.
    assert!(loses(|setup| {
        setup.final_check = false;
        setup.ahead = 1;
    }));
    assert!(loses(|setup| {
        setup.final_check = false;
        setup.bounded = true;
        setup.timer = false;
    }));
}

#[test]
fn timer_must_look_again_before_it_rests() {
    assert!(loses(|setup| setup.second_look = false));
}

#[test]
fn a_hold_off_that_ends_early_is_not_lost() {
    // A timer that takes another hold-off's deadline away wakes the consumer even so.
    assert!(!loses(|setup| setup.exchange = false));
}

#[test]
fn timer_must_rest_before_it_wakes() {
    assert!(loses(|setup| setup.stopped_first = false));
}

#[test]
fn hold_may_begin_after_the_check() {
    // A timer that starts late still ends the hold-off; it only lasts longer than it is to.
    assert!(!loses(|setup| setup.early_hold = false));
}
