// SPDX-License-Identifier: GPL-2.0

//! The two halves of a ring on two threads, neither of which is ever told to wait.
//!
//! In Miri this shows that the barriers are where they must be: it knows which memory accesses are ordered, finds those
//! that are not, whatever this machine's processor does with them, and lets loads see old values.

use crate::interleavings::Ring;
use std::thread;

/// An interpreter is slow.
const MESSAGES: u32 = if cfg!(miri) { 40 } else { 200 };

fn submit(ring: &Ring) {
    let mut front = ring.front.lock().expect("one user");
    let (mut sent, mut answered) = (0, 0);
    while answered < MESSAGES {
        while sent < MESSAGES {
            let Some(slot) = front.reserve() else { break };
            slot.fill(&(sent + 100));
            sent += 1;
        }
        let _ = front.push();
        while let Some(response) = front.next_response().expect("honest") {
            assert_eq!(response, answered + 1000);
            answered += 1;
        }
        thread::yield_now();
    }
}

fn answer(ring: &Ring) {
    let mut back = ring.back.lock().expect("one user");
    let mut done = 0;
    while done < MESSAGES {
        while let Some(request) = back.next_request().expect("honest") {
            assert_eq!(request, done + 100);
            assert!(back.respond(&(done + 1000)));
            done += 1;
        }
        let _ = back.push();
        thread::yield_now();
    }
}

#[test]
fn accesses_are_ordered() {
    let ring = Ring::new();
    thread::scope(|scope| {
        scope.spawn(|| submit(&ring));
        scope.spawn(|| answer(&ring));
    });
}
