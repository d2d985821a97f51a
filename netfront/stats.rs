// SPDX-License-Identifier: GPL-2.0

//! What a queue has done, counted.
//!
//! The counters belong to a queue, not to its rings: they go on when the backend is another one. They are
//! plain numbers, changed under the lock of the queue's direction.

use core::ffi::CStr;

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
    /// Messages that say which multicast packets are wanted.
    pub(crate) multicast_changes: u64,
    /// ... that the backend has refused.
    pub(crate) multicast_refused: u64,
    /// Packets of programs that were sent.
    pub(crate) xdp_sent: u64,
    /// Packets of programs that were not sent, for lack of room above all.
    pub(crate) xdp_dropped: u64,
    /// Times that the queue was stopped for lack of room.
    pub(crate) stopped: u64,
    /// Times that it was started again.
    pub(crate) woken: u64,
    /// Events sent to the backend.
    pub(crate) events_sent: u64,
    /// Times that the next event was asked for later than at the next answer.
    pub(crate) events_held: u64,
    /// Times that the timer then came before the event, and there were answers.
    pub(crate) events_expired: u64,
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

/// What a program has made of packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProgramStats {
    /// Packets that the network stack has got.
    pub(crate) passed: u64,
    /// Packets that were to be sent back.
    pub(crate) sent: u64,
    /// Packets that another interface or program has got.
    pub(crate) redirected: u64,
    /// Packets that it wanted to be dropped.
    pub(crate) dropped: u64,
    /// Packets that were dropped because it failed, or what it wanted.
    pub(crate) aborted: u64,
    /// Packets dropped because they are in several pieces, which the program cannot do with.
    pub(crate) unfit: u64,
    /// Packets that had to be copied before the program could see them.
    pub(crate) copied: u64,
}

impl ProgramStats {
    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.sent += other.sent;
        self.redirected += other.redirected;
        self.dropped += other.dropped;
        self.aborted += other.aborted;
        self.unfit += other.unfit;
        self.copied += other.copied;
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
    /// Times that the next event was asked for later than at the next packet.
    pub(crate) events_held: u64,
    /// Times that the timer then came before the event, and there were packets.
    pub(crate) events_expired: u64,
    /// What a program has made of them.
    pub(crate) xdp: ProgramStats,
}

impl RxStats {
    /// Adds what was counted elsewhere.
    pub(crate) fn add_handed_over(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.gso_checksum_fixup += other.gso_checksum_fixup;
        self.rejected += other.rejected;
        self.no_memory += other.no_memory;
        self.xdp.add(&other.xdp);
    }

    /// Packets that were not received.
    pub(crate) fn dropped(&self) -> u64 {
        self.no_memory.wrapping_add(self.xdp.unfit)
    }

    /// Packets that the backend got wrong.
    pub(crate) fn errors(&self) -> u64 {
        self.malformed.wrapping_add(self.rejected)
    }
}

/// What `ethtool -S` shows, in this order: the sums over all queues.
pub(crate) const NAMES: [&CStr; 34] = [
    c"rx_gso_checksum_fixup",
    c"rx_copied",
    c"rx_malformed",
    c"rx_rejected",
    c"rx_no_memory",
    c"rx_no_page",
    c"rx_down",
    c"rx_events_sent",
    c"rx_events_held",
    c"rx_events_expired",
    c"rx_xdp_pass",
    c"rx_xdp_tx",
    c"rx_xdp_redirect",
    c"rx_xdp_drop",
    c"rx_xdp_aborted",
    c"rx_xdp_unfit",
    c"rx_xdp_copied",
    c"tx_copied",
    c"tx_granted",
    c"tx_linearized",
    c"tx_oversized",
    c"tx_unsupported",
    c"tx_no_memory",
    c"tx_no_carrier",
    c"tx_lost",
    c"tx_refused",
    c"tx_multicast_changes",
    c"tx_multicast_refused",
    c"tx_xdp_sent",
    c"tx_xdp_dropped",
    c"tx_stopped",
    c"tx_events_sent",
    c"tx_events_held",
    c"tx_events_expired",
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
        rx.events_held,
        rx.events_expired,
        rx.xdp.passed,
        rx.xdp.sent,
        rx.xdp.redirected,
        rx.xdp.dropped,
        rx.xdp.aborted,
        rx.xdp.unfit,
        rx.xdp.copied,
        tx.copied,
        tx.granted,
        tx.linearized,
        tx.oversized,
        tx.unsupported,
        tx.no_memory,
        tx.no_carrier,
        tx.lost,
        tx.refused,
        tx.multicast_changes,
        tx.multicast_refused,
        tx.xdp_sent,
        tx.xdp_dropped,
        tx.stopped,
        tx.events_sent,
        tx.events_held,
        tx.events_expired,
    ]
}
