// SPDX-License-Identifier: GPL-2.0

//! What holds for all queues of a device: said by the frontend, or by the toolstack.
//!
//! Queues look at it for each packet, in any context, as the kernel may print to the network from an
//! interrupt. What is rarely used has a switch of its own beside it, so that no
//! lock is taken for what nobody has asked for.

use crate::{
    credit::{
        Limiter,
        Rate,
        Verdict, //
    },
    features::Features,
    hash::{
        Addresses,
        Flow,
        Hashing, //
    },
    multicast::{
        is_multicast,
        Full,
        Groups, //
    },
    transmit::Change,
    RX_MODERATION, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};
use xen::{
    compat::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    io::netif::{
        control::HashAlgorithm,
        Hash, //
    },
    moderation::Live,
    net::{
        self,
        TxPacket, //
    },
    thread, //
};

/// What a device may send in one direction, whichever the queue. Locked in any context.
#[pin_data]
pub(crate) struct Meter {
    limited: Atomic<bool>,
    #[pin]
    limiter: SpinLockIrq<Limiter>,
}

impl Meter {
    /// Without limit.
    fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            limited: Atomic::new(false),
            limiter <- new_spinlock_irq!(
                Limiter::new(None, None, 0),
                "netback::Meter::limiter"
            ),
        })
    }

    /// Sets other limits, of bytes and of packets. Process context.
    pub(crate) fn set(&self, bytes: Option<Rate>, packets: Option<Rate>) {
        let limiter = Limiter::new(bytes, packets, thread::now());
        let limited = limiter.is_limited();
        *self.limiter.lock() = limiter;
        self.limited.store(limited, Release);
    }

    /// Whether a packet of so many bytes may be sent now; if so, it counts as sent. Any context.
    #[inline]
    pub(crate) fn ask(&self, bytes: u32) -> Verdict {
        if !self.limited.load(Acquire) {
            return Verdict::Go;
        }
        self.limiter.lock().ask(thread::now(), bytes)
    }

    /// How many bytes could have been sent at once when it was last asked; [`None`] without limit. Process
    /// context.
    pub(crate) fn bytes_left(&self) -> Option<u64> {
        let limiter = self.limiter.lock();
        limiter.bytes_left()
    }
}

/// What holds for all queues of a device.
#[pin_data]
pub(crate) struct Rules {
    /// Bytes to leave free before the data of each frame.
    headroom: Atomic<u32>,
    /// How long a packet waits for the guest at most, and after what time without frames the guest
    /// counts as stalled, or 0; in nanoseconds.
    patience: Atomic<u64>,
    stall_time: Atomic<u64>,
    /// What is set of events by which the guest says that it has transmitted something.
    pub(crate) moderation: Live,
    /// The guest sends no events when it offers frames.
    is_silent: Atomic<bool>,
    /// Requests that the largest packet can need.
    most_slots: Atomic<u32>,

    multicast_control: Atomic<bool>,
    #[pin]
    groups: SpinLockIrq<Groups>,

    hashes: Atomic<bool>,
    #[pin]
    hashing: SpinLockIrq<Hashing>,

    /// What the guest may transmit.
    #[pin]
    pub(crate) from_guest: Meter,
    /// What it may be sent.
    #[pin]
    pub(crate) to_guest: Meter,
}

/// How long packets wait for a guest that sends no events, in nanoseconds.
const SILENT_PATIENCE: u64 = 30_000_000;

impl Rules {
    /// Nothing has been said yet.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                headroom: Atomic::new(0),
                patience: Atomic::new(0),
                stall_time: Atomic::new(0),
                moderation: Live::new(&RX_MODERATION),
                is_silent: Atomic::new(false),
                most_slots: Atomic::new(1),
                multicast_control: Atomic::new(false),
                groups <- new_spinlock_irq!(Groups::new(), "netback::Rules::groups"),
                hashes: Atomic::new(false),
                hashing <- new_spinlock_irq!(Hashing::new(), "netback::Rules::hashing"),
                from_guest <- Meter::new(),
                to_guest <- Meter::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// A frontend connects: what an earlier one has said does not hold any more. The times are in
    /// milliseconds. Process context; no queue is connected.
    pub(crate) fn follow(&self, features: &Features, patience: u32, stall_time: u32, slots: u32) {
        let nanoseconds = |milliseconds| u64::from(milliseconds) * 1_000_000;
        self.headroom.store(features.xdp_headroom.into(), Relaxed);
        // Without events it cannot be told whether the guest is stalled.
        let (patience, stall_time) = if features.rx_notify {
            (nanoseconds(patience), nanoseconds(stall_time))
        } else {
            (SILENT_PATIENCE, 0)
        };
        self.patience.store(patience, Relaxed);
        self.stall_time.store(stall_time, Relaxed);
        self.is_silent.store(!features.rx_notify, Relaxed);
        self.most_slots.store(slots, Relaxed);
        self.multicast_control
            .store(features.multicast_control, Relaxed);
        self.hashes.store(false, Relaxed);
        *self.groups.lock() = Groups::new();
        *self.hashing.lock() = Hashing::new();
    }

    /// Bytes to leave free before the data of each frame.
    #[inline]
    pub(crate) fn headroom(&self) -> u32 {
        self.headroom.load(Relaxed)
    }

    /// Leaves another number of bytes free.
    pub(crate) fn set_headroom(&self, headroom: u16) {
        self.headroom.store(headroom.into(), Relaxed);
    }

    /// How long a packet waits for the guest at most, in nanoseconds.
    #[inline]
    pub(crate) fn patience(&self) -> u64 {
        self.patience.load(Relaxed)
    }

    /// After what time without frames the guest counts as stalled, in nanoseconds; 0: never.
    pub(crate) fn stall_time(&self) -> u64 {
        self.stall_time.load(Relaxed)
    }

    /// Whether the guest sends no events when it offers frames, so that they must be looked for.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Relaxed)
    }

    /// Requests that the largest packet can need.
    pub(crate) fn most_slots(&self) -> u32 {
        self.most_slots.load(Relaxed)
    }

    /// The guest wants all multicast packets, or those only that it has asked for.
    pub(crate) fn set_multicast_control(&self, on: bool) {
        self.multicast_control.store(on, Relaxed);
    }

    /// Whether the guest wants a packet. Any context.
    #[inline]
    pub(crate) fn wants(&self, packet: &TxPacket) -> bool {
        if !self.multicast_control.load(Relaxed) {
            return true;
        }
        match packet.destination() {
            Some(address) if is_multicast(&address) => self.groups.lock().contains(&address),
            _ => true,
        }
    }

    /// Changes which multicast packets the guest wants. Any context.
    ///
    /// # Errors
    ///
    /// [`Full`] if it has asked for too many.
    pub(crate) fn change_groups(&self, change: Change) -> Result<(), Full> {
        self.groups.lock().change(change)
    }

    /// The hash of a packet and the queue that it belongs to, of so many, if the guest has a say in that.
    /// Any context.
    #[inline]
    pub(crate) fn hash(&self, packet: &TxPacket, queues: u32) -> Option<(Option<Hash>, u32)> {
        if !self.hashes.load(Acquire) {
            return None;
        }
        let flow = packet.flow().map(|flow| Flow {
            addresses: match flow.addresses {
                net::Addresses::V4(source, destination) => Addresses::V4(source, destination),
                net::Addresses::V6(source, destination) => Addresses::V6(source, destination),
            },
            ports: flow.ports,
        });
        let hashing = self.hashing.lock();
        let hash = flow.and_then(|flow| hashing.hash(&flow));
        Some((hash, hashing.queue(hash, queues)))
    }

    /// Looks at what the guest has set of hashes, and may change it. Process context.
    pub(crate) fn with_hashing<R>(&self, work: impl FnOnce(&mut Hashing) -> R) -> R {
        let mut hashing = self.hashing.lock();
        let result = work(&mut hashing);
        let on = hashing.algorithm() != HashAlgorithm::None;
        self.hashes.store(on, Release);
        result
    }
}
