// SPDX-License-Identifier: GPL-2.0

//! The attacks that take place in a ring.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Queue;
use crate::blkback::attack::Attack;
use crate::blkback::pages::Granted;
use crate::blkif::{self, op, status, Body, Request, Response};
use crate::report;

/// Most events that a storm sends, and the longest it lasts.
const STORM: (u64, Duration) = (1_000_000, Duration::from_secs(5));

/// How long the frontend gets to take the responses it has.
const SETTLE: Duration = Duration::from_secs(1);

/// How long each response is flipped, at most.
const FLIP: Duration = Duration::from_millis(2);

/// How long the ring is scribbled on.
const SCRIBBLE: Duration = Duration::from_secs(1);

/// How late pages are unmapped.
const LATE: Duration = Duration::from_millis(20);

/// How often requests are looked for without events.
const POLL: Duration = Duration::from_millis(2);

/// Status values that the protocol does not define.
const JUNK_STATUS: [i16; 5] = [1, -3, 0x100, i16::MAX, i16::MIN];

/// What to publish for one request.
struct Answer {
    responses: Vec<Response>,
    fired: Vec<Attack>,
}

impl Queue {
    /// Whether requests are taken and dropped.
    pub(super) fn hangs(&self) -> bool {
        let hangs = [Attack::Hang, Attack::HangVanish].map(|attack| {
            let wants = self.shared.wants(attack);
            if wants {
                self.shared.done(attack);
            }
            wants
        });
        hangs.contains(&true)
    }

    /// Whether requests are gathered to be answered in another order.
    pub(super) fn reorders(&self) -> bool {
        self.shared.wants(Attack::Reverse) || self.shared.wants(Attack::Shuffle)
    }

    /// Puts gathered requests into the order they are answered in.
    pub(super) fn reorder(&mut self, batch: &mut [Request]) {
        if batch.len() < 2 {
            return;
        }
        if self.shared.wants(Attack::Reverse) {
            batch.reverse();
            self.shared.done(Attack::Reverse);
        }
        if self.shared.wants(Attack::Shuffle) {
            self.rng.shuffle(batch);
            self.shared.done(Attack::Shuffle);
        }
    }

    /// Answers a request, perhaps not as it should be.
    pub(super) fn answer_tampered(
        &mut self,
        request: &Request,
        response: Response,
        granted: Granted,
    ) {
        let mut answer = Answer {
            responses: vec![response],
            fired: Vec::new(),
        };
        self.tamper_status(request, &mut answer);
        self.tamper_identity(request, &mut answer);
        let late = self.tamper_grants(granted, &mut answer);

        let right = answer.responses.len() == 1;
        for response in &answer.responses {
            self.ring.put(&response.words());
        }
        // What the frontend asks for cannot be told any more once it was scribbled over.
        let always = !answer.fired.is_empty() || self.shared.wants(Attack::ScribbleFront);
        if self.ring.publish() || always {
            self.notify();
        }
        if self.shared.wants(Attack::DoubleFetch) {
            self.flip(response);
            self.shared.done(Attack::DoubleFetch);
        }
        if late.is_some() {
            std::thread::sleep(LATE);
            drop(late);
        }
        for attack in answer.fired {
            self.shared.done(attack);
        }
        if !right {
            // From here on responses would overwrite requests.
            self.quiet = true;
        }
        self.tamper_ring();
    }

    fn tamper_status(&mut self, request: &Request, answer: &mut Answer) {
        let is_data = matches!(request.operation, op::READ | op::WRITE | op::INDIRECT);
        let is_flush = matches!(request.operation, op::FLUSH | op::WRITE_BARRIER);
        let is_discard = request.operation == op::DISCARD;
        let junk = JUNK_STATUS[self.rng.below(JUNK_STATUS.len() as u64) as usize];
        let table = [
            (Attack::StatusJunk, true, junk),
            (Attack::StatusError, true, status::ERROR),
            (Attack::StatusUnsupported, is_data, status::EOPNOTSUPP),
            (Attack::FlushUnsupported, is_flush, status::EOPNOTSUPP),
            (Attack::FlushError, is_flush, status::ERROR),
            (Attack::DiscardUnsupported, is_discard, status::EOPNOTSUPP),
        ];
        for (attack, applies, status) in table {
            if applies && self.shared.wants(attack) {
                answer.responses[0].status = status;
                answer.fired.push(attack);
            }
        }
    }

    /// Changes which request the response seems to belong to.
    fn tamper_identity(&mut self, request: &Request, answer: &mut Answer) {
        let shared = self.shared.clone();
        let response = &mut answer.responses[0];
        let is_indirect = matches!(request.body, Body::Indirect { .. });
        let attack = if shared.claim(Attack::IdOutside) {
            response.id = u64::from(self.ring.size()) + 5;
            Attack::IdOutside
        } else if shared.claim(Attack::IdHuge) {
            response.id |= 1 << 32;
            Attack::IdHuge
        } else if shared.claim(Attack::IdFree) {
            response.id = self.free_id(request.id);
            Attack::IdFree
        } else if shared.claim(Attack::WrongOperation) {
            response.operation = if response.operation == op::READ {
                op::WRITE
            } else {
                op::READ
            };
            Attack::WrongOperation
        } else if is_indirect && shared.claim(Attack::OperationIndirect) {
            response.operation = op::INDIRECT;
            Attack::OperationIndirect
        } else if shared.claim(Attack::Duplicate) {
            answer.responses.push(answer.responses[0]);
            Attack::Duplicate
        } else {
            return;
        };
        answer.fired.push(attack);
    }

    /// Returns an id in range that no request has that we can see, as far from those in use as can be.
    fn free_id(&self, current: u64) -> u64 {
        let mut used = vec![current];
        let mut words = [0; blkif::MAX_REQUEST / 4];
        let words = &mut words[..self.abi.slot() / 4];
        self.ring
            .peek_published(words, |words| used.push(self.parse(words).id));
        let ids = (0..u64::from(self.ring.size())).rev();
        ids.clone().find(|id| !used.contains(id)).unwrap_or(current)
    }

    /// Drops the pages of a request, keeps them for good, or returns them to be dropped later.
    fn tamper_grants(&mut self, granted: Granted, answer: &mut Answer) -> Option<Granted> {
        if granted.is_empty() || self.pages.is_persistent() {
            return None;
        }
        if self.shared.claim(Attack::KeepGrants) {
            self.kept.push(granted);
            answer.fired.push(Attack::KeepGrants);
            return None;
        }
        if self.shared.claim(Attack::LateUnmap) {
            answer.fired.push(Attack::LateUnmap);
            return Some(granted);
        }
        None
    }

    /// Does what concerns the ring rather than a response.
    fn tamper_ring(&mut self) {
        let shared = self.shared.clone();
        if shared.claim(Attack::ProducerJump) {
            // CAST: A ring has at most 512 slots.
            self.ring.displace_producer(self.ring.size() as i32 + 7);
            self.notify();
            // The next answer would put it right before anybody looks.
            self.quiet = true;
            shared.done(Attack::ProducerJump);
        }
        if shared.claim(Attack::ProducerBack) {
            self.settle();
            self.ring.displace_producer(-3);
            self.notify();
            self.quiet = true;
            shared.done(Attack::ProducerBack);
        }
        if shared.claim(Attack::Scribble) {
            self.scribble();
            shared.done(Attack::Scribble);
        }
        if shared.claim(Attack::EventStorm) {
            self.start_storm();
        }
        if shared.claim(Attack::ClosePort) {
            if let Err(error) = self.channel.close() {
                report!("error close: {error}");
            }
            self.quiet = true;
            shared.done(Attack::ClosePort);
        }
    }

    /// Waits until the frontend has taken every response, for a bounded time.
    fn settle(&self) {
        let end = Instant::now() + SETTLE;
        while !self.ring.responses_taken() && Instant::now() < end && !self.shared.is_stopping() {
            std::thread::sleep(POLL);
        }
    }

    /// Overwrites the whole ring again and again.
    fn scribble(&mut self) {
        let end = Instant::now() + SCRIBBLE;
        self.quiet = true;
        while Instant::now() < end && !self.shared.is_stopping() {
            // CAST: Half of the random bits is enough.
            self.ring.scribble(|| self.rng.draw() as u32);
            self.notify();
            std::thread::sleep(POLL);
        }
    }

    /// Lets the response written last flicker between right and wrong while the frontend reads it.
    fn flip(&mut self, response: Response) {
        let wrong = [
            Response {
                id: response.id ^ (1 << 40),
                ..response
            },
            Response {
                id: response.id ^ 3,
                ..response
            },
            Response {
                operation: response.operation ^ 7,
                ..response
            },
            Response {
                status: JUNK_STATUS[0],
                ..response
            },
        ];
        let right = response.words();
        let end = Instant::now() + FLIP;
        let slot = self.ring.last_response();
        // Until the frontend has taken it and sleeps, or has had the time to.
        while Instant::now() < end && !self.ring.responses_taken() {
            let pick = self.rng.below(wrong.len() as u64) as usize;
            for words in [wrong[pick].words(), right, right, right] {
                for (shared, word) in slot.iter().zip(words) {
                    shared.store(word, Ordering::Relaxed);
                }
            }
        }
        for (shared, word) in slot.iter().zip(right) {
            shared.store(word, Ordering::Release);
        }
    }

    /// Sends events for nothing from a thread of its own, while this one serves.
    fn start_storm(&self) {
        let channel = self.channel.clone();
        let shared = self.shared.clone();
        std::thread::spawn(move || {
            let end = Instant::now() + STORM.1;
            let mut sent = 0;
            while sent < STORM.0 && Instant::now() < end && !shared.is_stopping() {
                if channel.notify().is_err() {
                    break;
                }
                sent += 1;
            }
            report!("storm events={sent}");
            shared.done(Attack::EventStorm);
        });
    }

    /// Sleeps in another way than by waiting for an event; returns whether it did.
    pub(super) fn tamper_sleep(&mut self) -> bool {
        if !self.shared.wants(Attack::EventFar) {
            return false;
        }
        self.ring.arm_at(1 << 31);
        std::thread::sleep(POLL);
        self.shared.done(Attack::EventFar);
        true
    }

    /// Does what can be done only while nothing is open, just before sleeping.
    pub(super) fn tamper_idle(&mut self) {
        if self.shared.wants(Attack::ScribbleFront)
            // CAST: Half of the random bits is enough.
            && self.ring.scribble_front(|| self.rng.draw() as u32)
        {
            self.shared.done(Attack::ScribbleFront);
        }
        if self.shared.wants(Attack::Unasked) && self.ring.is_idle() {
            self.settle();
            if self.ring.is_idle() && self.shared.claim(Attack::Unasked) {
                let response = Response {
                    id: 0,
                    operation: op::READ,
                    status: status::OKAY,
                };
                self.ring.put(&response.words());
                self.ring.publish();
                self.notify();
                self.quiet = true;
                self.shared.done(Attack::Unasked);
            }
        }
    }
}
