// SPDX-License-Identifier: GPL-2.0

//! Packets that have been received, on their way to the network stack.

use super::{
    Poll,
    Polling,
    Received,
    RxPacket, //
};
use kernel::prelude::*;

struct Ready {
    packet: RxPacket,
    received: Received,
    length: u32,
}

/// Packets that are to be handed to the network stack: not under any lock of a driver's, since the stack
/// may want to send something at once, or to know the interface's numbers.
#[derive(Default)]
pub struct ReadyList(KVec<Ready>);

/// What has become of packets that were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    /// Packets that the stack has got.
    pub packets: u64,
    /// ... and their bytes.
    pub bytes: u64,
    /// Packets among them whose checksum had to be marked as blank, because they are to be cut up.
    pub fixed_up: u64,
    /// Packets that were dropped, as their headers do not fit what is said of them.
    pub rejected: u64,
}

impl ReadyList {
    /// With room for so many packets. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(most: usize) -> Result<Self> {
        Ok(Self(KVec::with_capacity(most, GFP_KERNEL)?))
    }

    /// Adds a packet of so many bytes; it is dropped if there is no room.
    #[inline]
    pub fn push(&mut self, packet: RxPacket, received: Received, length: u32) {
        let _ = self.0.push_within_capacity(Ready {
            packet,
            received,
            length,
        });
    }

    /// Hands them over. Softirq, without any lock.
    pub fn hand_over<P: Poll>(&mut self, napi: &Polling<'_, P>) -> HandedOver {
        let mut done = HandedOver::default();
        for ready in self.0.drain_all() {
            match ready.packet.receive(napi, &ready.received) {
                Ok(fixed_up) => {
                    done.packets += 1;
                    done.bytes += u64::from(ready.length);
                    done.fixed_up += u64::from(fixed_up);
                }
                Err(_) => done.rejected += 1,
            }
        }
        done
    }
}
