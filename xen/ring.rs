// SPDX-License-Identifier: GPL-2.0

//! Shared rings: one producer of requests, the frontend, and one of responses, the backend.
//!
//! A ring is one or more pages that the frontend grants to the backend: a header with four indices,
//! then slots. A response is written into the slot of a request that has been consumed.
//!
//! | offset | word        | written by | meaning                                          |
//! |--------|-------------|------------|--------------------------------------------------|
//! | 0      | `req_prod`  | frontend   | index after the last published request           |
//! | 4      | `req_event` | backend    | wants an event when `req_prod` passes this value |
//! | 8      | `rsp_prod`  | backend    | index after the last published response          |
//! | 12     | `rsp_event` | frontend   | wants an event when `rsp_prod` passes this value |
//! | 64     | slots       | both       | slot of index `i` is `i` modulo their number     |
//!
//! [`Front`] and [`Back`] are the two halves, generic over the [`Protocol`]. What they read from the
//! ring is copied once; an index that the other side cannot honestly have reached is reported as
//! [`Impossible`] and never used. Neither half can be made to panic, to loop without end or to
//! touch memory outside of the ring by what the other side writes.
//!
//! Whoever produces must do three things: fill slots, [`push`](Front::push) them, and send an event
//! if the returned [`Notify`] says so. Whoever consumes must not go idle before
//! [`wait_for_responses`](Front::wait_for_responses) (or its counterpart) has said that nothing is
//! left: it tells the other side from where on to send events and looks once more, so that nothing
//! published in between is missed.
//!
//! This file and those below use no kernel function but through [`crate::memory`]: KUnit and the
//! host's unit tests run them as they are.
//!
//! Xen's public header: `xen/include/public/io/ring.h`.

mod back;
mod front;
mod index;
mod layout;
#[cfg(test)]
mod model;
#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
mod tests;

pub use self::{
    back::{
        AttachError,
        Back,
        Snapshot, //
    },
    front::{
        Front,
        Pushed,
        RequestSlot, //
    },
    index::{
        Entries,
        Index, //
    },
    layout::{
        Layout,
        Memory,
        Protocol, //
    },
};

use core::fmt;

/// Whether the other side has asked for an event for what was just published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the other side may be asleep"]
pub enum Notify {
    /// An event must be sent.
    Needed,
    /// The other side is awake, or does not want to know yet.
    NotNeeded,
}

/// The other side published an index that it cannot have reached.
///
/// The ring is of no use any more: what it holds cannot be told from garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// The producer index that the other side published.
    pub produced: Index,
    /// How far this side has consumed.
    pub consumed: Index,
    /// How many messages there could be at most.
    pub limit: u32,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "impossible producer index {} (consumed up to {}, at most {} can follow)",
            self.produced.raw(),
            self.consumed.raw(),
            self.limit
        )
    }
}
