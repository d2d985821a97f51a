// SPDX-License-Identifier: GPL-2.0

//! The backend's half: consumes requests, produces responses.

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

/// The backend's half of a ring.
///
/// | index       | requests up to it are …                 | responses up to it are …  |
/// |-------------|-----------------------------------------|---------------------------|
/// | `seen`      | known to be published                   |                           |
/// | `consumed`  | taken by [`next_request`]               |                           |
/// | `filled`    |                                         | written into their slots  |
/// | `published` |                                         | visible to the frontend   |
///
/// # Invariants
///
/// In the order of wrapping indices `published ≤ filled ≤ consumed ≤ seen`, and `seen` is at most the
/// number of slots ahead of `filled`.
///
/// [`next_request`]: Self::next_request
pub struct Back<P: Protocol, M: Memory> {
    layout: Layout<P, M>,
    seen: Index,
    consumed: Index,
    filled: Index,
    published: Index,
}

/// Why a backend could not attach to a ring.
#[derive(Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The memory is too small for one slot.
    TooSmall,
    /// The frontend left indices in the page that no ring can have.
    Impossible(Impossible),
}

impl<P: Protocol, M: Memory> Back<P, M> {
    /// Attaches to a ring that a frontend has made.
    ///
    /// The ring may be in use already, by a backend that has gone: this one carries on behind the
    /// last response that is published.
    pub fn attach(memory: M) -> Result<Self, AttachError> {
        let Ok(layout) = Layout::<P, M>::new(memory) else {
            return Err(AttachError::TooSmall);
        };
        let start = layout.rsp_prod();
        let produced = layout.req_prod();
        let limit = layout.entries().count();
        if produced.since(start) > limit {
            return Err(AttachError::Impossible(Impossible {
                produced,
                consumed: start,
                limit,
            }));
        }
        // INVARIANT: All indices are equal.
        Ok(Self {
            layout,
            seen: start,
            consumed: start,
            filled: start,
            published: start,
        })
    }

    /// The owner of the ring's memory.
    pub fn memory(&self) -> &M {
        self.layout.memory()
    }

    /// Number of slots.
    pub fn entries(&self) -> u32 {
        self.layout.entries().count()
    }

    /// How many requests were taken and not yet answered.
    #[inline]
    pub fn unanswered(&self) -> u32 {
        self.consumed.since(self.filled)
    }

    /// Reads how far the frontend has come, and checks it.
    #[inline]
    fn look(&mut self) -> Result<bool, Impossible> {
        let produced = self.layout.req_prod();
        // More requests than slots whose last request is answered cannot be there.
        let limit = self.entries() - self.unanswered();
        let pending = produced.since(self.consumed);
        if pending > limit || pending < self.seen.since(self.consumed) {
            return Err(Impossible {
                produced,
                consumed: self.consumed,
                limit,
            });
        }
        // The requests must be read after the index that says they are there.
        memory::read_barrier();
        // INVARIANT: Checked above.
        self.seen = produced;
        Ok(self.seen != self.consumed)
    }

    /// Whether there are requests to take.
    #[inline]
    pub fn has_requests(&mut self) -> Result<bool, Impossible> {
        Ok(self.consumed != self.seen || self.look()?)
    }

    /// How many requests there are to take.
    #[inline]
    pub fn pending(&mut self) -> Result<u32, Impossible> {
        self.look()?;
        Ok(self.seen.since(self.consumed))
    }

    /// Takes a private copy of the next request, if there is one.
    ///
    /// What it says is not checked: it comes from another domain.
    #[inline]
    pub fn next_request(&mut self) -> Result<Option<P::Request>, Impossible> {
        if self.consumed == self.seen && !self.look()? {
            return Ok(None);
        }
        let request = self.layout.read_request(self.consumed);
        // INVARIANT: `consumed` was before `seen`.
        self.consumed = self.consumed.advance(1);
        Ok(Some(request))
    }

    /// Writes a response into the next slot, and says whether there was an unanswered request for
    /// it. The frontend does not see it before [`push`](Self::push).
    #[inline]
    #[must_use]
    pub fn respond(&mut self, response: &P::Response) -> bool {
        if self.unanswered() == 0 {
            return false;
        }
        self.layout.write_response(self.filled, response);
        // INVARIANT: `filled` was before `consumed`.
        self.filled = self.filled.advance(1);
        true
    }

    /// Publishes the responses written so far, and says whether the frontend must be woken.
    #[inline]
    pub fn push(&mut self) -> Notify {
        let old = self.published;
        if old == self.filled {
            return Notify::NotNeeded;
        }
        // As in `Front::push`.
        memory::write_barrier();
        self.layout.set_rsp_prod(self.filled);
        self.published = self.filled;
        memory::barrier();
        if passes(old, self.published, self.layout.rsp_event()) {
            Notify::Needed
        } else {
            Notify::NotNeeded
        }
    }

    /// Asks for an event at the next request, and says whether there are requests already: then the
    /// caller must go on instead of going idle.
    #[inline]
    pub fn wait_for_requests(&mut self) -> Result<bool, Impossible> {
        self.wait_for_requests_beyond(0)
    }

    /// Asks for an event once there are more than `count` requests to take, and says whether there are
    /// already: then the caller must go on instead of going idle. More than there are slots can never be
    /// there.
    #[inline]
    pub fn wait_for_requests_beyond(&mut self, count: u32) -> Result<bool, Impossible> {
        if self.seen.since(self.consumed) > count || self.pending()? > count {
            return Ok(true);
        }
        self.layout
            .set_req_event(self.consumed.advance(count.saturating_add(1)));
        // See `push` for the other half of this handshake.
        memory::barrier();
        Ok(self.pending()? > count)
    }

    /// The indices as they are now, to be shown to somebody.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            req_prod: self.layout.req_prod(),
            req_event: self.layout.req_event(),
            rsp_prod: self.layout.rsp_prod(),
            rsp_event: self.layout.rsp_event(),
            consumed: self.consumed,
            filled: self.filled,
        }
    }
}

/// The indices of a ring at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Behind the last request that is published.
    pub req_prod: Index,
    /// Where the backend wants an event.
    pub req_event: Index,
    /// Behind the last response that is published.
    pub rsp_prod: Index,
    /// Where the frontend wants an event.
    pub rsp_event: Index,
    /// Behind the last request that was taken.
    pub consumed: Index,
    /// Behind the last response that was written.
    pub filled: Index,
}
