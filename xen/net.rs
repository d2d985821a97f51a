// SPDX-License-Identifier: GPL-2.0

//! Network devices: what drivers of Xen's virtual interfaces need, which the kernel crate lacks.
//!
//! | here             | C                                                         |
//! |------------------|-----------------------------------------------------------|
//! | [`Operations`]   | `struct net_device_ops`, `ethtool_ops`, `netdev_stat_ops` |
//! | [`Netdev`]       | `struct net_device`, allocated                            |
//! | [`Registration`] | `struct net_device`, registered                           |
//! | [`Napi`]         | `struct napi_struct`                                      |
//! | [`Line`]         | the event channels of a queue                             |
//! | [`Moderator`]    | `struct hrtimer`, by which it is polled in time           |
//! | [`TxPacket`]     | `struct sk_buff` that is to be sent                       |
//! | [`RxPacket`]     | `struct sk_buff` that is being received                   |
//! | [`ReadyList`]    | those on their way to the network stack                   |
//! | [`Counter`]      | `u64_stats_t`                                             |
//! | [`PagePool`]     | `struct page_pool`                                        |
//! | [`Imports`]      | `struct gnttab_copy`, for packets from another domain     |
//! | [`Exports`]      | `struct gnttab_copy`, for packets to another domain       |
//! | [`xdp`]          | `struct bpf_prog`, `xdp_buff`, `xdp_frame`                |
//!
//! # Locks
//!
//! The kernel calls most of a driver's functions with the lock of rtnl held, and a driver takes it for
//! what changes the interface: [`Rtnl`] is the proof that it is held. Packets are sent and received in
//! softirqs; what they share with process context is locked within [`NoSoftirqs`].
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

mod counter;
mod device;
mod ethtool;
mod exports;
mod imports;
mod line;
mod moderator;
mod napi;
mod offer;
mod owed;
mod packet;
mod pool;
mod ready;
mod table;
mod wire;
pub mod xdp;

pub use self::{
    counter::Counter,
    device::{
        Builder,
        Features,
        Netdev,
        Registration, //
    },
    ethtool::{
        fill_hash_key,
        Channels,
        FlowFields,
        FlowKind,
        HashSizes,
        Rings, //
    },
    exports::{
        Export,
        Exports, //
    },
    imports::{
        Draft,
        Imports,
        Place,
        Torn, //
    },
    line::{
        Events,
        Line,
        Owed,
        Owing,
        Places, //
    },
    moderator::Moderator,
    napi::{
        Napi,
        NapiGuard,
        Poll,
        Polled,
        Polling, //
    },
    offer::Offer,
    owed::{
        Directions,
        Settled, //
    },
    packet::{
        Addresses,
        Checksum,
        Flow,
        Gso,
        Hash,
        Piece,
        PieceFrame,
        Received,
        Rejected,
        RxPacket,
        TxPacket,
        View, //
    },
    pool::{
        PagePool,
        PoolPage, //
    },
    ready::{
        HandedOver,
        ReadyList, //
    },
    table::{
        Operations,
        QueueTotals,
        Totals,
        Transmit, //
    },
};

use crate::bindings;
use kernel::types::NotThreadSafe;

/// Bytes of an Ethernet header.
pub const HEADER_LENGTH: u32 = bindings::ETH_HLEN;

/// Proof that this thread holds the lock of rtnl, which all changes of interfaces are made under.
pub struct Rtnl {
    ours: bool,
    _not_send: NotThreadSafe,
}

impl Rtnl {
    /// Takes the lock. Process context; it must not be held already, nor any lock that is taken with it
    /// held.
    pub fn lock() -> Self {
        // SAFETY: Process context, by this function's documentation.
        unsafe { bindings::rtnl_lock() };
        Self {
            ours: true,
            _not_send: NotThreadSafe,
        }
    }

    /// The kernel holds the lock for the duration of a call.
    pub(crate) fn held() -> Self {
        Self {
            ours: false,
            _not_send: NotThreadSafe,
        }
    }
}

impl Drop for Rtnl {
    fn drop(&mut self) {
        if self.ours {
            // SAFETY: `lock` has taken it, and the value cannot leave the thread.
            unsafe { bindings::rtnl_unlock() };
        }
    }
}

/// While it lives, no softirq runs on this processor: what they lock can be locked. Process context.
pub struct NoSoftirqs(NotThreadSafe);

impl NoSoftirqs {
    /// Begins it. May be nested.
    #[expect(clippy::new_without_default, reason = "it has an effect")]
    pub fn new() -> Self {
        // SAFETY: `drop` undoes it, on the same thread.
        unsafe { bindings::xen_local_bh_disable() };
        Self(NotThreadSafe)
    }
}

impl Drop for NoSoftirqs {
    fn drop(&mut self) {
        // SAFETY: `new` has disabled them.
        unsafe { bindings::xen_local_bh_enable() };
    }
}
