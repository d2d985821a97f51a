// SPDX-License-Identifier: GPL-2.0

//! Xen backend network device module.
//!
//! Connects guests to networks of this domain: each of a guest's interfaces has one here, `vif1.0` for the
//! first one of guest 1, which is on a bridge, say. What the guest transmits on its interface is received
//! on that one, and the other way round.
//!
//! | file              | what                                                            |
//! |-------------------|-----------------------------------------------------------------|
//! | `features.rs`     | what the two ends agree on, checked (pure)                      |
//! | `backend.rs`      | a device from its appearance to its removal: the state machine  |
//! | `keys.rs`         | what is written and read in xenstore at any time                |
//! | `connection.rs`   | what a frontend has written, its rings mapped                   |
//! | `interface.rs`    | the interface in this domain                                    |
//! | `queue.rs`        | a queue of it, connected or not                                 |
//! | `poller.rs`       | polling a queue                                                 |
//! | `guest_tx.rs`     | packets from the guest: one hot path                            |
//! | `transmit.rs`     | how requests become packets (pure)                              |
//! | `plan.rs`         | how a packet's bytes get here (pure)                            |
//! | `guest_rx.rs`     | packets to the guest: the other hot path                        |
//! | `delivery.rs`     | how packets become responses (pure)                             |
//! | `outbox.rs`       | where packets wait for the guest                                |
//! | `backlog.rs`      | those packets, a limited number of them                         |
//! | `stall.rs`        | whether it still takes packets (pure)                           |
//! | `rules.rs`        | what holds for all queues of a device                           |
//! | `credit.rs`       | how much may be sent (pure)                                     |
//! | `multicast.rs`    | which multicast packets a guest wants (pure)                    |
//! | `hash.rs`         | which queue a packet belongs to (pure)                          |
//! | `control_ring.rs` | the ring by which a frontend says that                          |
//! | `control.rs`      | what is said there (pure)                                       |
//! | `stats.rs`        | what a queue has done, counted                                  |
//! | `files.rs`        | what is shown in debugfs                                        |
//! | `failure.rs`      | what can be wrong with a device                                 |
//!
//! Protocol: Xen's public header `xen/include/public/io/netif.h`.

mod backend;
mod backlog;
mod connection;
mod control;
mod control_ring;
mod credit;
mod delivery;
mod failure;
mod features;
mod files;
mod guest_rx;
mod guest_tx;
mod hash;
mod interface;
mod keys;
mod multicast;
mod outbox;
mod plan;
mod poller;
mod queue;
mod rules;
mod stall;
mod stats;
mod transmit;

// As what is pure calls it.
use xen::io::netif;

use backend::Bound;
use core::ffi::CStr;
use kernel::{
    device,
    driver,
    prelude::*, //
};
use xen::{
    debugfs::ModuleDir,
    domain,
    moderation::{
        Defaults,
        Frames,
        Usecs, //
    },
    work::{
        ModuleQueue,
        ModuleQueueGuard, //
    },
    xenbus::{
        self,
        State, //
    },
};

xen::module_param! {
    /// Whether frontends are offered an event channel for each ring.
    static SEPARATE_TX_RX_IRQ: bool = true;
    module: "xen_netback",
    name: "separate_tx_rx_irq",
    mode: 0o644,
    description: "Offer frontends an event channel for each direction of a queue",
}

xen::module_param! {
    /// How long a packet waits for a guest that takes none.
    static RX_DRAIN_TIMEOUT_MSECS: u32 = 10_000;
    module: "xen_netback",
    name: "rx_drain_timeout_msecs",
    mode: 0o444,
    description: "Time in milliseconds after which a packet is dropped that the guest does not take",
}

xen::module_param! {
    /// After what time without frames a guest counts as stalled; 0: never.
    static RX_STALL_TIMEOUT_MSECS: u32 = 60_000;
    module: "xen_netback",
    name: "rx_stall_timeout_msecs",
    mode: 0o444,
    description: "Time in milliseconds after which a guest that takes no packets loses its carrier; 0: never",
}

xen::module_param! {
    /// Queues that an interface may have; 0 until the module is loaded.
    static MAX_QUEUES: u32 = 0;
    module: "xen_netback",
    name: "max_queues",
    mode: 0o644,
    description: "Maximum number of queues per virtual interface",
}

xen::module_param! {
    /// From how many slots on a packet is taken for an attack.
    static FATAL_SKB_SLOTS: u32 = 20;
    module: "xen_netback",
    name: "fatal_skb_slots",
    mode: 0o444,
    description: "Maximum number of slots of a packet before its frontend is disabled",
}

xen::module_param! {
    /// Without effect: hashes are made anew for each packet, which takes less than to find them.
    /// Scripts may set it for the C driver.
    static HASH_CACHE_SIZE: u32 = 64;
    module: "xen_netback",
    name: "hash_cache_size",
    mode: 0o644,
    description: "Without effect; known to the C driver",
}

xen::module_param! {
    /// Whether frontends are offered room before packets.
    static PROVIDES_XDP_HEADROOM: bool = true;
    module: "xen_netback",
    name: "provides_xdp_headroom",
    mode: 0o644,
    description: "Offer frontends to leave room before packets",
}

xen::module_param! {
    /// Packets from a guest that wait for one event.
    static RX_FRAMES: Frames = Frames::new(16);
    module: "xen_netback",
    name: "rx_frames",
    mode: 0o644,
    description: "Maximum number of packets from a guest that wait for one event (default is 16; 1: an event each)",
}

xen::module_param! {
    /// How long they wait.
    static RX_USECS: Usecs = Usecs::new(50);
    module: "xen_netback",
    name: "rx_usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that they wait (default is 50)",
}

xen::module_param! {
    /// Whether that depends on recent history.
    static RX_ADAPTIVE: bool = true;
    module: "xen_netback",
    name: "rx_adaptive",
    mode: 0o644,
    description: "They wait only as far as has been good of late",
}

/// What holds for an interface for which it is not set.
static RX_MODERATION: Defaults = Defaults {
    frames: &RX_FRAMES,
    usecs: &RX_USECS,
    poll_usecs: None,
    adaptive: &RX_ADAPTIVE,
    priority: None,
};

/// Where devices change their state: off the one thread that serves the whole bus.
static WORK: ModuleQueue = ModuleQueue::new();

/// The driver, as the bus sees it.
struct Netback;

impl xenbus::Driver for Netback {
    type Side = xenbus::Backend;
    type Data<'bound> = Bound;

    const DEVICE_TYPE: &'static CStr = c"vif";

    fn probe<'bound>(
        dev: &'bound xenbus::Device<device::Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        Bound::new(dev)
    }

    fn otherend_changed<'bound>(
        _dev: &'bound xenbus::Device<device::Bound>,
        backend: Pin<&Self::Data<'bound>>,
        theirs: State,
    ) {
        backend.otherend_changed(theirs);
    }

    fn unbind<'bound>(
        _dev: &'bound xenbus::Device<device::Core<'_>>,
        backend: Pin<&Self::Data<'bound>>,
    ) {
        backend.dissolve();
    }
}

/// The module while it is loaded.
///
/// Fields are dropped in this order: first all devices go, then what is left of their work is waited for.
#[pin_data]
struct NetbackModule {
    #[pin]
    _driver: driver::Registration<xenbus::Adapter<Netback>>,
    _work: ModuleQueueGuard,
    _dir: ModuleDir,
}

impl kernel::InPlaceModule for NetbackModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _dir: {
                if !domain::is_xen() {
                    return Err(ENODEV);
                }
                if MAX_QUEUES.get() == 0 {
                    MAX_QUEUES.set(domain::online_cpus().min(8));
                }
                // What the C driver does with this parameter, users see.
                FATAL_SKB_SLOTS.set(FATAL_SKB_SLOTS.get().max(netif::MIN_SLOTS as u32));
                if HASH_CACHE_SIZE.get() != 64 {
                    pr_info!("hash_cache_size has no effect: hashes are not cached\n");
                }
                ModuleDir::new(c"xen-netback")?
            },
            _work: WORK.create(c"xen-netback")?,
            _driver <- driver::Registration::new(
                <Self as kernel::ModuleMetadata>::NAME,
                module,
            ),
        }? Error)
    }
}

module! {
    type: NetbackModule,
    name: "xen_netback",
    authors: ["xen-pv-rust contributors"],
    description: "Xen backend network device module",
    license: "Dual BSD/GPL",
    alias: ["xen-backend:vif"],
}
