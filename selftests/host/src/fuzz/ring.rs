// SPDX-License-Identifier: GPL-2.0

//! Halves of a ring whose other half is a peer who may do anything.
//!
//! Whatever is taken from the ring must have been published, once, and must be what is in its slot; an index that is
//! called impossible must be.

use super::{
    input::Input,
    page::{
        Shared,
        View, //
    },
};
use crate::ring::{
    Back,
    Entries,
    Front,
    Impossible,
    Protocol, //
};

/// Offsets of the producer indices.
const REQUESTS: usize = 0;
const RESPONSES: usize = 8;

/// Most things that a peer does in a run, so that runs are short.
pub const MOST_STEPS: usize = 200;

/// What the peer knows of a ring, which is not what the tested half believes.
struct Peer {
    shared: Shared,
    /// Offset of its producer index.
    index: usize,
    slot_size: usize,
    slots: usize,
    produced: u32,
}

impl Peer {
    /// What it writes into a slot.
    fn fill(&mut self, bytes: &[u8]) {
        let slot = self.produced as usize % self.slots;
        let bytes = &bytes[..bytes.len().min(self.slot_size)];
        let offset = Entries::HEADER + slot * self.slot_size;
        self.shared.write_bytes(offset, bytes);
        self.produced = self.produced.wrapping_add(1);
    }

    fn publish(&mut self) {
        self.shared.write(self.index, self.produced);
    }

    /// One of many things, as the input says.
    fn step(&mut self, input: &mut Input<'_>) {
        match input.u8() % 8 {
            0..=3 => {
                for _ in 0..=input.u8() % 20 {
                    self.fill(input.slice(self.slot_size));
                }
                self.publish();
            }
            4 => {
                self.produced = self.produced.wrapping_add(input.u16().into());
                self.publish();
            }
            5 => self.shared.write(self.index, input.u32()),
            6 => self.shared.write(input.u16().into(), input.u32()),
            _ => {
                let (after, offset) = (input.u8() % 16, input.u16());
                self.shared.plan(after, offset.into(), input.u32());
            }
        }
    }

    /// Something was taken, `taken` having been taken before, and `limit` being the most that can have been there.
    fn check_taken<T>(&self, message: &T, taken: u32, limit: u32) {
        assert!(limit > 0, "more was taken than can be there");
        let published = |index: &u32| (1..=limit).contains(&index.wrapping_sub(taken));
        assert!(self.shared.ever(self.index, published), "nothing was there");
        let slot = taken as usize % self.slots;
        let offset = Entries::HEADER + slot * self.slot_size;
        // SAFETY: Messages have no padding, by `Protocol`.
        let bytes = unsafe {
            core::slice::from_raw_parts(core::ptr::from_ref(message).cast::<u8>(), size_of::<T>())
        };
        assert_eq!(bytes, self.shared.bytes(offset, bytes.len()));
    }

    fn check_nothing(&self, taken: u32) {
        assert!(self.shared.ever(self.index, |&index| index == taken));
    }

    fn check_impossible(&self, impossible: Impossible, taken: u32, limit: u32) {
        assert_eq!(impossible.consumed.raw(), taken);
        assert_eq!(impossible.limit, limit);
        let produced = impossible.produced.raw();
        assert!(self.shared.ever(self.index, |&index| index == produced));
        // It is too far, or has been further.
        let pending = produced.wrapping_sub(taken);
        let further = |index: &u32| (pending + 1..=limit).contains(&index.wrapping_sub(taken));
        assert!(pending > limit || self.shared.ever(self.index, further));
    }
}

/// A backend's half, and a frontend that may do anything.
pub struct BackRing<P: Protocol> {
    // Dropped before its page.
    ring: Back<P, View>,
    peer: Peer,
    taken: u32,
    answered: u32,
    /// So far there have been requests, as was said.
    known: u32,
    /// An impossible index was found: the ring is of no use any more.
    pub is_dead: bool,
}

impl<P: Protocol> BackRing<P> {
    /// [`None`] if the frontend has left nonsense in the page.
    pub fn new(input: &mut Input<'_>) -> Option<Self> {
        let shared = Shared::new();
        let slots = Entries::of(super::page::SIZE, P::SLOT_SIZE)
            .expect("a ring")
            .count();
        let (start, ahead) = if input.flag() {
            (input.u32(), input.u32())
        } else {
            (0, 0)
        };
        let produced = start.wrapping_add(ahead);
        shared.write(RESPONSES, start);
        shared.write(REQUESTS, produced);
        let ring = match Back::attach(shared.view()) {
            Ok(ring) => ring,
            Err(_) => {
                assert!(ahead > slots);
                return None;
            }
        };
        assert!(ahead <= slots);
        assert_eq!(ring.entries(), slots);
        Some(Self {
            ring,
            peer: Peer {
                shared,
                index: REQUESTS,
                slot_size: P::SLOT_SIZE,
                slots: slots as usize,
                produced,
            },
            taken: start,
            answered: start,
            known: start,
            is_dead: false,
        })
    }

    /// The frontend does something.
    pub fn step(&mut self, input: &mut Input<'_>) {
        self.peer.step(input);
    }

    fn unanswered(&self) -> u32 {
        self.taken.wrapping_sub(self.answered)
    }

    fn limit(&self) -> u32 {
        self.ring.entries() - self.unanswered()
    }

    /// Takes a request.
    pub fn next(&mut self) -> Option<P::Request> {
        if self.is_dead {
            return None;
        }
        let limit = self.limit();
        match self.ring.next_request() {
            Ok(Some(request)) => {
                self.peer.check_taken(&request, self.taken, limit);
                if self.known == self.taken {
                    self.known = self.taken.wrapping_add(1);
                }
                self.taken = self.taken.wrapping_add(1);
                assert_eq!(self.ring.unanswered(), self.unanswered());
                Some(request)
            }
            Ok(None) => {
                self.peer.check_nothing(self.taken);
                self.found(0);
                None
            }
            Err(impossible) => {
                self.die(impossible);
                None
            }
        }
    }

    /// So many requests are to be taken, it was said: never fewer than before.
    fn found(&mut self, pending: u32) {
        assert!(pending >= self.known.wrapping_sub(self.taken));
        self.known = self.taken.wrapping_add(pending);
    }

    fn die(&mut self, impossible: Impossible) {
        self.peer
            .check_impossible(impossible, self.taken, self.limit());
        self.is_dead = true;
    }

    /// Answers a request that was taken.
    pub fn respond(&mut self, response: &P::Response) {
        assert!(self.ring.respond(response), "nobody has asked that");
        self.answered = self.answered.wrapping_add(1);
    }

    /// The bytes of the answer that was given last.
    pub fn last_response(&self, length: usize) -> Vec<u8> {
        let slot = self.answered.wrapping_sub(1) as usize % self.peer.slots;
        let offset = Entries::HEADER + slot * self.peer.slot_size;
        self.peer.shared.bytes(offset, length)
    }

    /// Shows the frontend the answers, and asks for an event once there are so many requests.
    pub fn rest(&mut self, requests: u32) {
        let _ = self.ring.push();
        if self.is_dead {
            return;
        }
        let beyond = requests.saturating_sub(1);
        match self.ring.wait_for_requests_beyond(beyond) {
            // So many were there at some time.
            Ok(true) => assert!(self.peer.shared.ever(REQUESTS, |index| {
                let pending = index.wrapping_sub(self.taken);
                pending > beyond && pending <= self.limit()
            })),
            Ok(false) => {
                assert!(self.known.wrapping_sub(self.taken) <= beyond);
                assert!(self.peer.shared.ever(REQUESTS, |index| {
                    index.wrapping_sub(self.taken) <= beyond
                }));
            }
            Err(impossible) => self.die(impossible),
        }
    }

    /// How many requests there are.
    pub fn pending(&mut self) -> u32 {
        if self.is_dead {
            return 0;
        }
        match self.ring.pending() {
            Ok(pending) => {
                assert!(pending <= self.limit());
                self.found(pending);
                pending
            }
            Err(impossible) => {
                self.die(impossible);
                0
            }
        }
    }
}

/// A frontend's half, and a backend that may do anything.
pub struct FrontRing<P: Protocol> {
    // Dropped before its page.
    ring: Front<P, View>,
    peer: Peer,
    sent: u32,
    published: u32,
    taken: u32,
    /// An impossible index was found: the ring is of no use any more.
    pub is_dead: bool,
}

impl<P: Protocol> FrontRing<P> {
    pub fn new() -> Self {
        let shared = Shared::new();
        let ring = Front::<P, _>::new(shared.view()).unwrap_or_else(|_| panic!("no ring"));
        let slots = ring.entries() as usize;
        Self {
            ring,
            peer: Peer {
                shared,
                index: RESPONSES,
                slot_size: P::SLOT_SIZE,
                slots,
                produced: 0,
            },
            sent: 0,
            published: 0,
            taken: 0,
            is_dead: false,
        }
    }

    /// The backend does something.
    pub fn step(&mut self, input: &mut Input<'_>) {
        self.peer.step(input);
    }

    /// The backend writes a response, and publishes it.
    pub fn answer(&mut self, bytes: &[u8]) {
        self.peer.fill(bytes);
        self.peer.publish();
    }

    pub fn free(&self) -> u32 {
        let free = self.peer.slots as u32 - self.sent.wrapping_sub(self.taken);
        assert_eq!(self.ring.free(), free);
        free
    }

    /// The slot that the next request will be in.
    pub fn request_slot(&self) -> u32 {
        let slot = self.ring.request_slot();
        assert_eq!(slot, self.sent % self.peer.slots as u32);
        slot
    }

    /// The slot that the next response will be in.
    pub fn response_slot(&self) -> u32 {
        let slot = self.ring.response_slot();
        assert_eq!(slot, self.taken % self.peer.slots as u32);
        slot
    }

    /// Puts a request on the ring, for which there is room, and returns its bytes.
    pub fn send(&mut self, request: &P::Request) -> Vec<u8> {
        let slot = self.request_slot() as usize;
        self.ring.reserve().expect("a free slot").fill(request);
        self.sent = self.sent.wrapping_add(1);
        let offset = Entries::HEADER + slot * self.peer.slot_size;
        self.peer.shared.bytes(offset, size_of::<P::Request>())
    }

    /// Shows the backend the requests; holds events off until there are so many responses.
    pub fn push(&mut self, ahead: u32) {
        if !self.is_dead {
            let _ = self.ring.push_holding_off(ahead);
            self.published = self.sent;
        }
    }

    fn limit(&self) -> u32 {
        self.published.wrapping_sub(self.taken)
    }

    /// Takes a response.
    pub fn next(&mut self) -> Option<P::Response> {
        if self.is_dead {
            return None;
        }
        let limit = self.limit();
        match self.ring.next_response() {
            Ok(Some(response)) => {
                self.peer.check_taken(&response, self.taken, limit);
                self.taken = self.taken.wrapping_add(1);
                Some(response)
            }
            Ok(None) => {
                self.peer.check_nothing(self.taken);
                None
            }
            Err(impossible) => {
                self.die(impossible);
                None
            }
        }
    }

    fn die(&mut self, impossible: Impossible) {
        self.peer
            .check_impossible(impossible, self.taken, self.limit());
        self.is_dead = true;
    }

    /// Asks for an event once there are so many responses.
    pub fn rest(&mut self, responses: u32) {
        if self.is_dead {
            return;
        }
        let beyond = responses.saturating_sub(1);
        match self.ring.wait_for_responses_beyond(beyond, || ()) {
            Ok(true) => assert!(self.peer.shared.ever(RESPONSES, |index| {
                (1..=self.limit()).contains(&index.wrapping_sub(self.taken))
            })),
            Ok(false) => assert!(self.peer.shared.ever(RESPONSES, |index| {
                index.wrapping_sub(self.taken) <= beyond
            })),
            Err(impossible) => self.die(impossible),
        }
    }
}
