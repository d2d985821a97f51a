// SPDX-License-Identifier: GPL-2.0

//! Packets that wait for a guest to take them.

use crate::delivery::Description;
use kernel::prelude::*;
use xen::net::TxPacket;

/// From so many bytes on a queue is not given more packets.
pub(crate) const MOST_BYTES: u32 = 512 << 10;

/// ... or from so many packets on: small ones take more memory than they have bytes.
const MOST_PACKETS: usize = 1024;

/// Room for those that come although the queue was stopped.
const SPARE: usize = 16;

/// A packet that waits.
pub(crate) struct Waiting {
    /// It.
    pub(crate) packet: TxPacket,
    /// What the guest is told of it.
    pub(crate) what: Description,
    /// When it is of no use to anybody any more, in nanoseconds since the machine was started.
    pub(crate) expires: u64,
}

/// Packets in the order in which they came, a limited number of them.
///
/// # Invariants
///
/// The `count` places from `first` on, in a circle, are taken and no others; `bytes` is how many bytes
/// the packets there have.
pub(crate) struct Backlog {
    places: KVVec<Option<Waiting>>,
    first: usize,
    count: usize,
    bytes: u32,
}

impl Backlog {
    /// An empty one. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let mut places = KVVec::with_capacity(MOST_PACKETS + SPARE, GFP_KERNEL)?;
        for _ in 0..MOST_PACKETS + SPARE {
            places.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            places,
            first: 0,
            count: 0,
            bytes: 0,
        })
    }

    /// How many packets wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Whether there should be no more.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MOST_BYTES || self.count >= MOST_PACKETS
    }

    /// Whether there can be a lot more again.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes <= MOST_BYTES / 2 && self.count <= MOST_PACKETS / 2
    }

    fn place(&self, position: usize) -> Option<usize> {
        (self.first + position).checked_rem(self.places.len())
    }

    /// Adds a packet; gives it back if there is no place.
    pub(crate) fn push(&mut self, waiting: Waiting) -> Result<(), Waiting> {
        let place = self.place(self.count);
        let place = place.and_then(|place| self.places.get_mut(place));
        match place {
            Some(place @ None) if self.bytes < 2 * MOST_BYTES => {
                self.bytes = self.bytes.saturating_add(waiting.what.length);
                // INVARIANT: It was free, and is the one behind those that are taken.
                *place = Some(waiting);
                self.count += 1;
                Ok(())
            }
            _ => Err(waiting),
        }
    }

    /// The packet that has waited for longest.
    pub(crate) fn front(&self) -> Option<&Waiting> {
        self.places.get(self.first)?.as_ref()
    }

    /// Takes it.
    pub(crate) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.places.get_mut(self.first)?.take()?;
        self.bytes = self.bytes.saturating_sub(waiting.what.length);
        self.count = self.count.saturating_sub(1);
        // INVARIANT: The place that was taken is not among them any more.
        self.first = self.place(1).unwrap_or(0);
        Some(waiting)
    }
}
