// SPDX-License-Identifier: GPL-2.0

//! An exhaustive model of how a consumer goes to sleep and a producer wakes it.
//!
//! A few messages, every order in which the single accesses of the two sides to the ring's two
//! words can happen: the producer index, and the event index of the consumer. A state from which
//! nothing can happen any more must be one in which every message has been consumed, or else a
//! wake-up has been lost. To show that the search would find a lost one, it is also done with each
//! part of the handshake left out.
//!
//! The consumer may hold events off as it likes, by an event index set further ahead, as long as a
//! timer then wakes it in any case; after a look that found nothing it may not.
//!
//! Too large for the kernel: for the host only.

use super::{
    index::passes,
    Index, //
};
use std::{
    collections::HashSet,
    vec::Vec, //
};

/// How the stores of one side become visible to the other.
#[derive(Clone, Copy, PartialEq)]
enum Stores {
    /// At once: sequential consistency.
    AtOnce,
    /// Later, in order, at the latest at a full barrier: x86.
    Buffered,
}

/// What is searched.
#[derive(Clone, Copy)]
struct Setup {
    /// Messages of each push.
    batches: &'static [u32],
    /// Furthest that the event index is set ahead; 1 is the next message.
    ahead: u32,
    stores: Stores,
    /// The consumer looks once more after it has set the event index.
    final_check: bool,
    producer_barrier: bool,
    consumer_barrier: bool,
    /// A consumer that holds events off arms a timer.
    backstop: bool,
}

impl Setup {
    const fn new(batches: &'static [u32], ahead: u32, stores: Stores) -> Self {
        Self {
            batches,
            ahead,
            stores,
            final_check: true,
            producer_barrier: true,
            consumer_barrier: true,
            backstop: true,
        }
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
    /// Look for messages and take them.
    Look,
    /// Ask for an event at the message that far ahead.
    Ask(u32),
    /// Look once more, for that many messages.
    Check(u32),
    /// Nothing, before an event or the timer.
    Sleep,
}

/// A word of the ring with the stores that its writer has not finished.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Word {
    visible: u32,
    buffered: Vec<u32>,
}

impl Word {
    fn new(value: Index) -> Self {
        Self {
            visible: value.raw(),
            buffered: Vec::new(),
        }
    }

    fn store(&mut self, value: Index, stores: Stores) {
        match stores {
            Stores::AtOnce => self.visible = value.raw(),
            Stores::Buffered => self.buffered.push(value.raw()),
        }
    }

    fn load(&self) -> Index {
        Index::new(self.visible)
    }

    /// The word after its oldest buffered store.
    fn flushed(&self) -> Option<Self> {
        let (&visible, rest) = self.buffered.split_first()?;
        Some(Self {
            visible,
            buffered: rest.to_vec(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    producer: Producer,
    pushed: usize,
    published: u32,
    prod: Word,
    consumer: Consumer,
    consumed: u32,
    busy: bool,
    event: Word,
    event_pending: bool,
    timer: bool,
}

/// Where the indices start so that they wrap on the way.
const START: Index = Index::new(u32::MAX - 1);

impl State {
    fn first() -> Self {
        Self {
            producer: Producer::Push,
            pushed: 0,
            published: START.raw(),
            prod: Word::new(START),
            consumer: Consumer::Look,
            consumed: START.raw(),
            busy: false,
            event: Word::new(START.advance(1)),
            event_pending: false,
            timer: false,
        }
    }

    /// All that can happen next.
    fn successors(&self, setup: &Setup) -> Vec<Self> {
        let mut next = Vec::new();
        self.produce(setup, &mut next);
        self.consume(setup, &mut next);
        // A buffered store reaches the memory.
        if let Some(prod) = self.prod.flushed() {
            let mut state = self.clone();
            state.prod = prod;
            next.push(state);
        }
        if let Some(event) = self.event.flushed() {
            let mut state = self.clone();
            state.event = event;
            next.push(state);
        }
        next
    }

    fn produce(&self, setup: &Setup, next: &mut Vec<Self>) {
        let mut state = self.clone();
        match self.producer {
            Producer::Push => {
                let Some(&count) = setup.batches.get(self.pushed) else {
                    return;
                };
                let new = Index::new(self.published).advance(count);
                state.prod.store(new, setup.stores);
                state.published = new.raw();
                state.pushed += 1;
                state.producer = Producer::ReadEvent(self.published);
            }
            Producer::ReadEvent(old) => {
                if setup.producer_barrier && !self.prod.buffered.is_empty() {
                    return;
                }
                let (old, new) = (Index::new(old), Index::new(self.published));
                state.producer = if passes(old, new, self.event.load()) {
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

    fn consume(&self, setup: &Setup, next: &mut Vec<Self>) {
        let mut state = self.clone();
        let consumed = Index::new(self.consumed);
        match self.consumer {
            Consumer::Look => {
                let produced = self.prod.load();
                if produced == consumed {
                    let ahead = if self.busy { setup.ahead } else { 1 };
                    for ahead in 1..=ahead {
                        state.consumer = Consumer::Ask(ahead);
                        next.push(state.clone());
                    }
                    return;
                }
                state.consumed = produced.raw();
                state.busy = true;
            }
            Consumer::Ask(ahead) => {
                state.event.store(consumed.advance(ahead), setup.stores);
                state.timer = ahead > 1 && setup.backstop;
                state.consumer = Consumer::Check(ahead);
            }
            Consumer::Check(ahead) => {
                if setup.consumer_barrier && !self.event.buffered.is_empty() {
                    return;
                }
                if setup.final_check && self.prod.load().since(consumed) >= ahead {
                    state.consumer = Consumer::Look;
                } else {
                    state.consumer = Consumer::Sleep;
                    state.busy = false;
                }
            }
            Consumer::Sleep => {
                if !self.event_pending && !self.timer {
                    return;
                }
                state.event_pending = false;
                state.timer = false;
                state.consumer = Consumer::Look;
            }
        }
        next.push(state);
    }
}

/// Searches all states; returns how many there are, or the way to one that is stuck too early.
fn search(setup: &Setup) -> Result<usize, Vec<State>> {
    // Each with the place of the one it was reached from.
    let mut states = vec![(State::first(), 0)];
    let mut known = HashSet::from([State::first()]);
    let mut at = 0;
    while at < states.len() {
        let state = states[at].0.clone();
        let next = state.successors(setup);
        let total = setup.batches.iter().sum();
        if next.is_empty() && Index::new(state.consumed) != START.advance(total) {
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
const PATTERNS: [&[u32]; 6] = [&[1], &[1, 1], &[3], &[1, 2, 1], &[2, 3, 1, 1], &[1; 6]];

/// Searches every pattern and hold-off; returns whether a wake-up can be lost in any of them.
fn loses(stores: Stores, change: impl Fn(&mut Setup)) -> bool {
    let mut lost = 0;
    for batches in PATTERNS {
        for ahead in 1..=4 {
            let mut setup = Setup::new(batches, ahead, stores);
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
    assert!(!loses(Stores::AtOnce, |_| ()));
}

#[test]
fn no_wake_up_is_lost_by_late_stores() {
    assert!(!loses(Stores::Buffered, |_| ()));
}

#[test]
fn search_is_not_trivial() {
    // Both sides' accesses really interleave.
    let states = search(&Setup::new(&[1, 2, 1], 3, Stores::Buffered));
    assert!(states.is_ok_and(|states| states > 500), "too few states");
}

#[test]
fn final_check_is_needed() {
    assert!(loses(Stores::AtOnce, |setup| setup.final_check = false));
}

#[test]
fn final_check_is_needed_without_hold_off() {
    assert!(loses(Stores::AtOnce, |setup| {
        setup.final_check = false;
        setup.ahead = 1;
    }));
}

#[test]
fn producer_needs_its_barrier() {
    let change = |setup: &mut Setup| setup.producer_barrier = false;
    assert!(loses(Stores::Buffered, change));
    assert!(!loses(Stores::AtOnce, change));
}

#[test]
fn consumer_needs_its_barrier() {
    let change = |setup: &mut Setup| setup.consumer_barrier = false;
    assert!(loses(Stores::Buffered, change));
    assert!(!loses(Stores::AtOnce, change));
}

#[test]
fn hold_off_needs_its_backstop() {
    assert!(loses(Stores::AtOnce, |setup| setup.backstop = false));
    assert!(!loses(Stores::AtOnce, |setup| {
        setup.backstop = false;
        setup.ahead = 1;
    }));
}
