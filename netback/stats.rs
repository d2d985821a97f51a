// SPDX-License-Identifier: GPL-2.0

//! What a queue has done, counted.
//!
//! The counters belong to a queue, not to its rings: they go on when the frontend connects anew. They are
//! plain numbers, changed under the lock of what they are about. As in all numbers of the interface,
//! what the guest transmits is received here, and the other way round.

use core::ffi::CStr;
use xen::net::HandedOver;

/// Counters of what the guest transmits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RxStats {
    /// Packets handed to the network stack.
    pub(crate) packets: u64,
    /// ... and their bytes.
    pub(crate) bytes: u64,
    /// Packets whose checksum had to be marked as blank, because they are to be cut up.
    pub(crate) gso_checksum_fixup: u64,
    /// Packets in more pieces than the kernel's packets can have.
    pub(crate) frag_overflow: u64,
    /// Packets refused because their requests do not fit each other.
    pub(crate) malformed: u64,
    /// Packets whose headers do not fit what is said of them.
    pub(crate) rejected: u64,
    /// Packets that Xen could not copy.
    pub(crate) copy_failed: u64,
    /// Packets dropped because there was no memory.
    pub(crate) no_memory: u64,
    /// Times that the rate was exhausted.
    pub(crate) throttled: u64,
    /// Events sent to the frontend.
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
    pub(crate) fn errors(&self) -> u64 {
        self.malformed
            .wrapping_add(self.rejected)
            .wrapping_add(self.copy_failed)
    }
}

/// Counters of what waits for the guest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitStats {
    /// Packets dropped because they had waited for too long.
    pub(crate) expired: u64,
    /// Packets dropped because there was no connection.
    pub(crate) no_carrier: u64,
    /// Multicast packets that the guest has not asked for.
    pub(crate) filtered: u64,
    /// Packets dropped because the protocol or the guest's ring cannot have them.
    pub(crate) oversized: u64,
    /// Times that the queue was stopped because enough were waiting.
    pub(crate) stopped: u64,
    /// Times that it was started again.
    pub(crate) woken: u64,
}

impl WaitStats {
    /// Packets that were not sent.
    pub(crate) fn dropped(&self) -> u64 {
        self.expired
            .wrapping_add(self.no_carrier)
            .wrapping_add(self.filtered)
            .wrapping_add(self.oversized)
    }
}

/// Counters of what the guest receives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxStats {
    /// Packets copied to the guest.
    pub(crate) packets: u64,
    /// ... and their bytes.
    pub(crate) bytes: u64,
    /// Frames that Xen could not copy to.
    pub(crate) copy_failed: u64,
    /// Times that the guest had not offered enough frames.
    pub(crate) starved: u64,
    /// Times that it had not for so long that it counts as stalled.
    pub(crate) stalled: u64,
    /// Times that the rate was exhausted.
    pub(crate) throttled: u64,
    /// Events sent to the frontend.
    pub(crate) events_sent: u64,
}

/// What `ethtool -S` shows, in this order: the sums over all queues. The first five are what the C driver
/// has; nothing is sent without being copied, so that those in the midst stay 0.
pub(crate) const NAMES: [&CStr; 24] = [
    c"rx_gso_checksum_fixup",
    c"tx_zerocopy_sent",
    c"tx_zerocopy_success",
    c"tx_zerocopy_fail",
    c"tx_frag_overflow",
    c"rx_malformed",
    c"rx_rejected",
    c"rx_copy_failed",
    c"rx_no_memory",
    c"rx_throttled",
    c"rx_events_sent",
    c"tx_expired",
    c"tx_no_carrier",
    c"tx_multicast_filtered",
    c"tx_oversized",
    c"tx_stopped",
    c"tx_woken",
    c"tx_copy_failed",
    c"tx_starved",
    c"tx_stalled",
    c"tx_throttled",
    c"tx_events_sent",
    c"tx_waiting_packets",
    c"tx_waiting_bytes",
];

/// All counters of a queue at some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// What the guest transmits.
    pub(crate) rx: RxStats,
    /// What waits for it.
    pub(crate) wait: WaitStats,
    /// What it receives.
    pub(crate) tx: TxStats,
    /// Packets that are waiting just now, and their bytes.
    pub(crate) waiting: (u64, u64),
}

impl Stats {
    /// The values of [`NAMES`].
    pub(crate) fn values(&self) -> [u64; NAMES.len()] {
        let Self {
            rx,
            wait,
            tx,
            waiting,
        } = self;
        [
            rx.gso_checksum_fixup,
            0,
            0,
            0,
            rx.frag_overflow,
            rx.malformed,
            rx.rejected,
            rx.copy_failed,
            rx.no_memory,
            rx.throttled,
            rx.events_sent,
            wait.expired,
            wait.no_carrier,
            wait.filtered,
            wait.oversized,
            wait.stopped,
            wait.woken,
            tx.copy_failed,
            tx.starved,
            tx.stalled,
            tx.throttled,
            tx.events_sent,
            waiting.0,
            waiting.1,
        ]
    }
}
