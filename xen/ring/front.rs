// SPDX-License-Identifier: GPL-2.0

//! The frontend's half: produces requests, consumes responses.

use super::{
    index::passes,
    Impossible,
    Index,
    Layout,
    Memory,
    Notify,
    Protocol, //
};
use crate::memory;

/// The frontend's half of a ring.
///
/// | index       | requests up to it are …             | responses up to it are …        |
/// |-------------|-------------------------------------|---------------------------------|
/// | `filled`    | written into their slots            |                                 |
/// | `published` | visible to the backend              |                                 |
/// | `seen`      |                                     | known to be published           |
/// | `consumed`  | finished, their slots free again    | taken by [`next_response`]      |
///
/// # Invariants
///
/// In the order of wrapping indices `consumed ≤ seen ≤ published ≤ filled`, and `filled` is at most
/// the number of slots ahead of `consumed`.
///
/// [`next_response`]: Self::next_response
pub struct Front<P: Protocol, M: Memory> {
    layout: Layout<P, M>,
    filled: Index,
    published: Index,
    seen: Index,
    consumed: Index,
    /// Where an event was last asked for. Behind `consumed`, it was not since.
    event: Index,
}

/// How publishing requests while waiting for responses went.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Whether the backend must be woken.
    pub notify: Notify,
    /// The event is not at the next response any more, but was before.
    pub held_off: bool,
    /// As many responses as were to be waited for are there, for which no event may come any more: the
    /// caller must take them.
    pub due: bool,
}

impl<P: Protocol, M: Memory> Front<P, M> {
    /// Makes a new ring in zeroed memory; gives the memory back if it is too small for one slot.
    pub fn new(memory: M) -> Result<Self, M> {
        Self::starting_at(memory, Index::default())
    }

    /// The same with indices that start at `start`: tests let them wrap soon.
    pub(super) fn starting_at(memory: M, start: Index) -> Result<Self, M> {
        let layout = Layout::new(memory)?;
        layout.set_req_prod(start);
        layout.set_rsp_prod(start);
        // Each side wants to hear of the first message.
        layout.set_req_event(start.advance(1));
        layout.set_rsp_event(start.advance(1));
        // INVARIANT: All indices are equal.
        Ok(Self {
            layout,
            filled: start,
            published: start,
            seen: start,
            consumed: start,
            event: start.advance(1),
        })
    }

    /// Asks for no event at all: whoever owns the ring looks for responses by itself. To be called before
    /// anything is published, and [`wait_for_responses`](Self::wait_for_responses) not any more. Once
    /// in 2^32 responses the backend sends an event even so.
    pub fn want_no_events(&mut self) {
        // An event is due when this index is passed, which was before the first response.
        self.ask(self.consumed);
    }

    #[inline]
    fn ask(&mut self, event: Index) {
        self.event = event;
        self.layout.set_rsp_event(event);
    }

    /// The owner of the ring's memory.
    pub fn memory(&self) -> &M {
        self.layout.memory()
    }

    /// Number of slots.
    pub fn entries(&self) -> u32 {
        self.layout.entries().count()
    }

    /// How many requests can still be filled in.
    #[inline]
    pub fn free(&self) -> u32 {
        self.entries() - self.filled.since(self.consumed)
    }

    /// How many slots are not free: their requests are not answered, or not pushed.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.filled.since(self.consumed)
    }

    /// The slot that the next request will be written into: its index modulo the number of slots.
    #[inline]
    pub fn request_slot(&self) -> u32 {
        self.layout.entries().slot(self.filled)
    }

    /// The slot that the next response will be taken from.
    #[inline]
    pub fn response_slot(&self) -> u32 {
        self.layout.entries().slot(self.consumed)
    }

    /// How many requests are published whose responses were not taken yet.
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.published.since(self.consumed)
    }

    /// How many requests are filled in but not yet pushed.
    #[inline]
    pub fn unpushed(&self) -> u32 {
        self.filled.since(self.published)
    }

    /// Reserves the slot of the next request, if one is free.
    #[inline]
    pub fn reserve(&mut self) -> Option<RequestSlot<'_, P, M>> {
        if self.free() == 0 {
            return None;
        }
        Some(RequestSlot { ring: self })
    }

    /// Publishes what has been filled in, and says whether the backend must be woken.
    #[inline]
    pub fn push(&mut self) -> Notify {
        let old = self.published;
        if old == self.filled {
            return Notify::NotNeeded;
        }
        // The slots must be complete before the backend can see that they are there, and the
        // event index must be read after that: the backend writes it and then looks for requests,
        // so one of the two sees the other's write.
        memory::write_barrier();
        self.layout.set_req_prod(self.filled);
        self.published = self.filled;
        memory::barrier();
        if passes(old, self.published, self.layout.req_event()) {
            Notify::Needed
        } else {
            Notify::NotNeeded
        }
    }

    /// Reads how far the backend has come, and checks it.
    #[inline]
    fn look(&mut self) -> Result<bool, Impossible> {
        let produced = self.layout.rsp_prod();
        // A backend can answer what was published and not yet answered, nothing else. This also
        // catches an index that goes backwards.
        let limit = self.published.since(self.consumed);
        let pending = produced.since(self.consumed);
        if pending > limit || pending < self.seen.since(self.consumed) {
            return Err(Impossible {
                produced,
                consumed: self.consumed,
                limit,
            });
        }
        // The responses must be read after the index that says they are there.
        memory::read_barrier();
        // INVARIANT: Checked above.
        self.seen = produced;
        Ok(self.seen != self.consumed)
    }

    /// Whether there are responses to take.
    #[inline]
    pub fn has_responses(&mut self) -> Result<bool, Impossible> {
        Ok(self.consumed != self.seen || self.look()?)
    }

    /// Takes a private copy of the next response, if there is one.
    ///
    /// What it says is not checked: it comes from another domain.
    #[inline]
    pub fn next_response(&mut self) -> Result<Option<P::Response>, Impossible> {
        if self.consumed == self.seen && !self.look()? {
            return Ok(None);
        }
        let response = self.layout.read_response(self.consumed);
        // INVARIANT: `consumed` was before `seen`.
        self.consumed = self.consumed.advance(1);
        Ok(Some(response))
    }

    /// Asks for an event at the next response, and says whether there are responses already: then
    /// the caller must go on instead of going idle.
    #[inline]
    pub fn wait_for_responses(&mut self) -> Result<bool, Impossible> {
        self.wait_for_responses_beyond(0, || ())
    }

    /// Asks for an event once there are more than `count` responses to take, and says whether there are
    /// already: then the caller must go on instead of going idle. If `count` is not 0, `hold` is to see to
    /// it that somebody looks in time; it is called in between, unless there are.
    #[inline]
    pub fn wait_for_responses_beyond(
        &mut self,
        count: u32,
        hold: impl FnOnce(),
    ) -> Result<bool, Impossible> {
        if self.consumed != self.seen || self.look()? {
            return Ok(true);
        }
        self.ask(self.consumed.advance(count.saturating_add(1)));
        hold();
        // See `push` for the other half of this handshake.
        memory::barrier();
        self.look()?;
        Ok(self.seen.since(self.consumed) > count)
    }

    /// As [`push`](Self::push). If an event has been asked for, it is asked for once there are `ahead`
    /// responses to take, provided that this is later than before. Then somebody has to look in time,
    /// as with [`wait_for_responses_beyond`](Self::wait_for_responses_beyond).
    #[inline]
    pub fn push_holding_off(&mut self, ahead: u32) -> Pushed {
        let waiting_for = self.event.since(self.consumed);
        let waits = (1..=self.entries()).contains(&waiting_for);
        let moves = waits && ahead > waiting_for && self.unpushed() > 0;
        if moves {
            // The barrier of `push` orders this before the look below: the handshake is the same.
            self.ask(self.consumed.advance(ahead));
        }
        let notify = self.push();
        Pushed {
            notify,
            held_off: moves && waiting_for == 1,
            // Whoever takes them finds out what is impossible about the index.
            due: moves && (self.look().is_err() || self.seen.since(self.consumed) >= ahead),
        }
    }
}

/// A free slot, to be filled.
///
/// Dropped unused it stays free.
#[must_use]
pub struct RequestSlot<'a, P: Protocol, M: Memory> {
    ring: &'a mut Front<P, M>,
}

impl<P: Protocol, M: Memory> RequestSlot<'_, P, M> {
    /// Writes the request. The backend does not see it before [`Front::push`].
    #[inline]
    pub fn fill(self, request: &P::Request) {
        let ring = self.ring;
        ring.layout.write_request(ring.filled, request);
        // INVARIANT: `reserve` found a free slot, and this token borrows the ring since.
        ring.filled = ring.filled.advance(1);
    }
}
