// SPDX-License-Identifier: GPL-2.0

//! What a queue has done, counted.
//!
//! The counters belong to a queue, not to its rings: they go on when the backend is another one. They are
//! plain numbers, changed under the lock of the queue's direction.

use core::ffi::CStr;
use xen::net::HandedOver;

/// Counters of one direction of a queue: out of the guest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxStats {
    /// Packets sent.
    pub(crate) packets: u64,
    /// ... and their bytes.
    pub(crate) bytes: u64,
    /// Pieces of packets that were copied into pages of the backend's.
    pub(crate) copied: u64,
    /// Pieces that were granted where they are.
    pub(crate) granted: u64,
    /// Packets in so many pieces that they were copied as a whole.
    pub(crate) linearized: u64,
    /// Packets dropped because they are larger than the protocol has it.
    pub(crate) oversized: u64,
    /// Packets dropped that were made for an earlier backend, which could do more.
    pub(crate) unsupported: u64,
    /// Packets dropped because there was no memory.
    pub(crate) no_memory: u64,
    /// Packets dropped because there was no connection.
    pub(crate) no_carrier: u64,
    /// Packets that a backend had not answered when it went, which it may have sent or not.
    pub(crate) lost: u64,
    /// Packets' pieces that the backend says it has not sent.
    pub(crate) refused: u64,
    /// Times that the queue was stopped for lack of room.
    pub(crate) stopped: u64,
    /// Times that it was started again.
    pub(crate) woken: u64,
    /// Events sent to the backend.
    pub(crate) events_sent: u64,
}

impl TxStats {
    /// Packets that were not sent.
    pub(crate) fn dropped(&self) -> u64 {
        self.oversized
            .wrapping_add(self.unsupported)
            .wrapping_add(self.no_memory)
            .wrapping_add(self.no_carrier)
    }
}

/// Counters of the other direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RxStats {
    /// Packets received.
    pub(crate) packets: u64,
    /// ... and their bytes.
    pub(crate) bytes: u64,
    /// Packets that were copied out of pages of the backend's.
    pub(crate) copied: u64,
    /// Packets that were not as the protocol has it.
    pub(crate) malformed: u64,
    /// Packets whose headers do not fit what is said of them.
    pub(crate) rejected: u64,
    /// Packets dropped because there was no memory.
    pub(crate) no_memory: u64,
    /// Packets dropped because the interface was down.
    pub(crate) down: u64,
    /// Times that there was no page for the backend to fill.
    pub(crate) no_page: u64,
    /// Packets whose checksum had to be marked as blank, because they are to be cut up.
    pub(crate) gso_checksum_fixup: u64,
    /// Events sent to the backend.
    pub(crate) events_sent: u64,
}

impl RxStats {
    /// Packets were handed to the network stack.
    pub(crate) fn add_handed_over(&mut self, done: HandedOver) {
        self.packets += done.packets;
        self.bytes += done.bytes;
        self.gso_checksum_fixup += done.fixed_up;
        self.rejected += done.rejected;
    }

    /// Packets that were not received.
    pub(crate) fn dropped(&self) -> u64 {
        self.no_memory
    }

    /// Packets that the backend got wrong.
    pub(crate) fn errors(&self) -> u64 {
        self.malformed.wrapping_add(self.rejected)
    }
}

/// What `ethtool -S` shows, in this order: the sums over all queues.
pub(crate) const NAMES: [&CStr; 19] = [
    c"rx_gso_checksum_fixup",
    c"rx_copied",
    c"rx_malformed",
    c"rx_rejected",
    c"rx_no_memory",
    c"rx_no_page",
    c"rx_down",
    c"rx_events_sent",
    c"tx_copied",
    c"tx_granted",
    c"tx_linearized",
    c"tx_oversized",
    c"tx_unsupported",
    c"tx_no_memory",
    c"tx_no_carrier",
    c"tx_lost",
    c"tx_refused",
    c"tx_stopped",
    c"tx_events_sent",
];

/// The values of [`NAMES`] for one queue.
pub(crate) fn values(tx: &TxStats, rx: &RxStats) -> [u64; NAMES.len()] {
    [
        rx.gso_checksum_fixup,
        rx.copied,
        rx.malformed,
        rx.rejected,
        rx.no_memory,
        rx.no_page,
        rx.down,
        rx.events_sent,
        tx.copied,
        tx.granted,
        tx.linearized,
        tx.oversized,
        tx.unsupported,
        tx.no_memory,
        tx.no_carrier,
        tx.lost,
        tx.refused,
        tx.stopped,
        tx.events_sent,
    ]
}
