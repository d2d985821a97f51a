// SPDX-License-Identifier: GPL-2.0

//! Runs two threads in every order of their accesses to shared memory.
//!
//! Only one of them runs at a time. Before each access it may have to let the other one go on, and
//! each such decision is tried both ways: a run follows the decisions of the one before up to the
//! last that has another way left. To be done in a reasonable time, the number of times that a
//! thread is interrupted in a run is limited; hardly any mistake takes more than two or three.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        Condvar,
        Mutex,
        MutexGuard, //
    },
    thread,
};

thread_local! {
    static PLACE: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
}

/// Called before each access to shared memory.
pub fn access() {
    let place = PLACE.with_borrow(Clone::clone);
    if let Some((schedule, thread)) = place {
        schedule.yield_now(thread);
    }
}

/// The run cannot go on: both threads wait for each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Stuck;

/// What one thread of a test has of the schedule.
pub struct Side {
    schedule: Arc<Schedule>,
    thread: usize,
}

impl Side {
    /// Sends an event to the other thread.
    pub fn notify(&self) {
        self.schedule.lock().event[1 - self.thread] = true;
    }

    /// Waits for an event from the other thread.
    pub fn wait(&self) -> Result<(), Stuck> {
        self.schedule.wait(self.thread)
    }
}

/// A point where either thread could have gone on.
#[derive(Clone, Copy)]
struct Decision {
    interrupt: bool,
    other_way_tried: bool,
}

#[derive(Default)]
struct State {
    running: usize,
    event: [bool; 2],
    waiting: [bool; 2],
    ended: [bool; 2],
    stuck: bool,
    decisions: Vec<Decision>,
    made: usize,
}

impl State {
    fn can_run(&self, thread: usize) -> bool {
        !self.ended[thread] && (!self.waiting[thread] || self.event[thread])
    }
}

#[derive(Default)]
struct Schedule {
    state: Mutex<State>,
    changed: Condvar,
}

impl Schedule {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread of the test panicked")
    }

    /// Waits until it is this thread's turn.
    fn turn(&self, mut state: MutexGuard<'_, State>, thread: usize) {
        while state.running != thread && !state.stuck {
            state = self.changed.wait(state).expect("the other thread panicked");
        }
    }

    fn hand_over<'a>(&self, mut state: MutexGuard<'a, State>, to: usize) -> MutexGuard<'a, State> {
        state.running = to;
        self.changed.notify_all();
        state
    }

    fn yield_now(&self, thread: usize) {
        let mut state = self.lock();
        if state.stuck || !state.can_run(1 - thread) {
            return;
        }
        let made = state.made;
        if made == state.decisions.len() {
            state.decisions.push(Decision {
                interrupt: false,
                other_way_tried: false,
            });
        }
        state.made += 1;
        if state.decisions[made].interrupt {
            let state = self.hand_over(state, 1 - thread);
            self.turn(state, thread);
        }
    }

    fn wait(&self, thread: usize) -> Result<(), Stuck> {
        let mut state = self.lock();
        state.waiting[thread] = true;
        if !state.event[thread] {
            if state.can_run(1 - thread) {
                state = self.hand_over(state, 1 - thread);
            } else {
                state.stuck = true;
                self.changed.notify_all();
            }
            self.turn(state, thread);
            state = self.lock();
        }
        state.waiting[thread] = false;
        state.event[thread] = false;
        if state.stuck {
            Err(Stuck)
        } else {
            Ok(())
        }
    }

    fn end(&self, thread: usize) {
        let mut state = self.lock();
        state.ended[thread] = true;
        if state.can_run(1 - thread) {
            drop(self.hand_over(state, 1 - thread));
        } else if !state.ended[1 - thread] {
            state.stuck = true;
            self.changed.notify_all();
        }
    }

    fn run<R>(self: Arc<Self>, thread: usize, body: impl FnOnce(&Side) -> R) -> R {
        self.turn(self.lock(), thread);
        let side = Side {
            schedule: self.clone(),
            thread,
        };
        PLACE.set(Some((self.clone(), thread)));
        let result = body(&side);
        PLACE.set(None);
        self.end(thread);
        result
    }
}

/// Finds the next way to decide, with at most `limit` interruptions.
fn next(mut decisions: Vec<Decision>, limit: usize) -> Option<Vec<Decision>> {
    while let Some(last) = decisions.pop() {
        let before = decisions
            .iter()
            .filter(|decision| decision.interrupt)
            .count();
        if !last.interrupt && !last.other_way_tried && before < limit {
            decisions.push(Decision {
                interrupt: true,
                other_way_tried: true,
            });
            return Some(decisions);
        }
    }
    None
}

/// Runs a test in every order with at most `limit` interruptions, until one is stuck.
///
/// `prepare` makes what the threads share; they get it with their side of the schedule. Returns how
/// many orders there are.
pub fn explore<S: Sync>(
    limit: usize,
    prepare: impl Fn() -> S,
    first: impl Fn(&S, &Side) -> Result<(), Stuck> + Sync,
    second: impl Fn(&S, &Side) -> Result<(), Stuck> + Sync,
) -> Result<usize, Stuck> {
    let mut decisions = Vec::new();
    let mut runs = 0;
    loop {
        let shared = prepare();
        let schedule = Arc::new(Schedule::default());
        schedule.lock().decisions = decisions;
        thread::scope(|scope| {
            let mine = schedule.clone();
            let other = scope.spawn(|| mine.run(1, |side| second(&shared, side)));
            let result = schedule.clone().run(0, |side| first(&shared, side));
            // A panic goes on in the thread that the test runner watches.
            match other.join() {
                Ok(other) => result.and(other),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })?;
        runs += 1;
        decisions = core::mem::take(&mut schedule.lock().decisions);
        match next(decisions, limit) {
            Some(more) => decisions = more,
            None => return Ok(runs),
        }
    }
}
