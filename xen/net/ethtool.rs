// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` shows and sets.

/// Rings of a queue: how many packets' slots each direction has.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Slots for receiving, at most.
    pub most_received: u32,
    /// ... and in use.
    pub received: u32,
    /// Slots for sending, at most.
    pub most_sent: u32,
    /// ... and in use.
    pub sent: u32,
}

/// Queues, each of which has both directions.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// At most.
    pub most: u32,
    /// In use.
    pub count: u32,
}
