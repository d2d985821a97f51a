// SPDX-License-Identifier: GPL-2.0

//! What a queue has done, counted.
//!
//! The counters belong to a queue, not to its rings: they go on when the frontend connects anew. They are
//! changed under the lock of what they are about, and read without it. As in all numbers of the interface,
//! what the guest transmits is received here, and the other way round.

use core::ffi::CStr;
use xen::net::{
    Counter,
    HandedOver, //
};

/// Counters of what the guest transmits.
#[derive(Default)]
pub(crate) struct RxStats {
    /// Packets handed to the network stack.
    pub(crate) packets: Counter,
    /// ... and their bytes.
    pub(crate) bytes: Counter,
    /// Packets whose checksum had to be marked as blank, because they are to be cut up.
    pub(crate) gso_checksum_fixup: Counter,
    /// Packets in more pieces than the kernel's packets can have.
    pub(crate) frag_overflow: Counter,
    /// Packets refused because their requests do not fit each other.
    pub(crate) malformed: Counter,
    /// Packets whose headers do not fit what is said of them.
    pub(crate) rejected: Counter,
    /// Packets that Xen could not copy.
    pub(crate) copy_failed: Counter,
    /// Packets dropped because there was no memory.
    pub(crate) no_memory: Counter,
    /// Times that the rate was exhausted.
    pub(crate) throttled: Counter,
    /// Events sent to the frontend.
    pub(crate) events_sent: Counter,
    /// Times that the next event was asked for later than at the next request.
    pub(crate) events_held: Counter,
    /// Times that the timer then came before the event, and there were requests.
    pub(crate) events_expired: Counter,
}

impl RxStats {
    /// Packets were handed to the network stack.
    pub(crate) fn add_handed_over(&self, done: HandedOver) {
        self.packets.add(done.packets);
        self.bytes.add(done.bytes);
        self.gso_checksum_fixup.add(done.fixed_up);
        self.rejected.add(done.rejected);
    }

    /// Packets that were not received.
    pub(crate) fn errors(&self) -> u64 {
        [&self.malformed, &self.rejected, &self.copy_failed]
            .into_iter()
            .map(Counter::get)
            .fold(0, u64::wrapping_add)
    }
}

/// Counters of what waits for the guest.
#[derive(Default)]
pub(crate) struct WaitStats {
    /// Packets dropped because they had waited for too long.
    pub(crate) expired: Counter,
    /// Packets dropped because there was no connection.
    pub(crate) no_carrier: Counter,
    /// Multicast packets that the guest has not asked for.
    pub(crate) filtered: Counter,
    /// Packets dropped because the protocol or the guest's ring cannot have them.
    pub(crate) oversized: Counter,
    /// Packets dropped that were made for an earlier frontend, which could take more.
    pub(crate) unsupported: Counter,
    /// Times that the queue was stopped because enough were waiting.
    pub(crate) stopped: Counter,
    /// Times that it was started again.
    pub(crate) woken: Counter,
}

impl WaitStats {
    /// Packets that were not sent.
    pub(crate) fn dropped(&self) -> u64 {
        [
            &self.expired,
            &self.no_carrier,
            &self.filtered,
            &self.oversized,
            &self.unsupported,
        ]
        .into_iter()
        .map(Counter::get)
        .fold(0, u64::wrapping_add)
    }
}

/// Counters of what the guest receives.
#[derive(Default)]
pub(crate) struct TxStats {
    /// Packets copied to the guest.
    pub(crate) packets: Counter,
    /// ... and their bytes.
    pub(crate) bytes: Counter,
    /// Frames that Xen could not copy to.
    pub(crate) copy_failed: Counter,
    /// Times that the guest had not offered enough frames.
    pub(crate) starved: Counter,
    /// Times that it had not for so long that it counts as stalled.
    pub(crate) stalled: Counter,
    /// Times that the rate was exhausted.
    pub(crate) throttled: Counter,
    /// Events sent to the frontend.
    pub(crate) events_sent: Counter,
}

/// What `ethtool -S` shows, in this order: the sums over all queues. The first five are what the C driver
/// has; nothing is sent without being copied, so that those in the midst stay 0.
pub(crate) const NAMES: [&CStr; 27] = [
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
    c"rx_events_held",
    c"rx_events_expired",
    c"tx_expired",
    c"tx_no_carrier",
    c"tx_multicast_filtered",
    c"tx_oversized",
    c"tx_unsupported",
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

/// The values of [`NAMES`] for one queue. `waiting`: packets that are waiting just now, and their bytes.
pub(crate) fn values(
    rx: &RxStats,
    wait: &WaitStats,
    tx: &TxStats,
    waiting: (u64, u64),
) -> [u64; NAMES.len()] {
    let (packets, bytes) = waiting;
    [
        rx.gso_checksum_fixup.get(),
        0,
        0,
        0,
        rx.frag_overflow.get(),
        rx.malformed.get(),
        rx.rejected.get(),
        rx.copy_failed.get(),
        rx.no_memory.get(),
        rx.throttled.get(),
        rx.events_sent.get(),
        rx.events_held.get(),
        rx.events_expired.get(),
        wait.expired.get(),
        wait.no_carrier.get(),
        wait.filtered.get(),
        wait.oversized.get(),
        wait.unsupported.get(),
        wait.stopped.get(),
        wait.woken.get(),
        tx.copy_failed.get(),
        tx.starved.get(),
        tx.stalled.get(),
        tx.throttled.get(),
        tx.events_sent.get(),
        packets,
        bytes,
    ]
}
