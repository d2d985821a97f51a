// SPDX-License-Identifier: GPL-2.0

//! Xen virtual network device frontend.
//!
//! The interfaces that a guest sees as `eth0`, `eth1` and so on, or `enX0` by the names that systemd gives
//! them. Each has a backend in another domain, with which it shares for each queue a ring of packets to send
//! and one of pages to be filled with packets.
//!
//! | file              | what                                                           |
//! |-------------------|----------------------------------------------------------------|
//! | `features.rs`     | what the two ends agree on, checked (pure)                     |
//! | `frontend.rs`     | a device from its appearance to its removal: the state machine |
//! | `changes.rs`      | what changes while it is connected                             |
//! | `connection.rs`   | the rings of a device, made and announced                      |
//! | `interface.rs`    | the interface that the guest sees                              |
//! | `queue.rs`        | a queue of it, connected or not                                |
//! | `link.rs`         | a direction of it that is connected, and its events            |
//! | `poller.rs`       | polling a queue                                                |
//! | `sender.rs`       | packets to the backend: one hot path                           |
//! | `contents.rs`     | what of a packet is copied                                     |
//! | `transmit.rs`     | how packets become requests (pure)                             |
//! | `in_flight.rs`    | requests that are not answered, by their numbers (pure)        |
//! | `receiver.rs`     | packets from the backend: the other hot path                   |
//! | `receive.rs`      | how responses become packets (pure)                            |
//! | `groups.rs`       | which multicast packets are wanted (pure)                      |
//! | `hash.rs`         | which packets are to come by which queue (pure)                |
//! | `control_ring.rs` | telling the backend of that                                    |
//! | `stats.rs`        | what a queue has done, counted                                 |
//! | `fault.rs`        | what can be wrong with a device                                |
//!
//! Protocol: Xen's public header `xen/include/public/io/netif.h`.

mod changes;
mod connection;
mod contents;
mod control_ring;
mod fault;
mod features;
mod frontend;
mod groups;
mod hash;
mod in_flight;
mod interface;
mod link;
mod poller;
mod queue;
mod receive;
mod receiver;
mod sender;
mod stats;
mod transmit;

use core::ffi::CStr;
use frontend::Frontend;
use kernel::{
    device,
    driver,
    prelude::*,
    sync::Arc, //
};
use xen::{
    domain,
    io::netif,
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
    /// Queues that an interface may have; 0 until the module is loaded.
    static MAX_QUEUES: u32 = 0;
    module: "xen_netfront",
    name: "max_queues",
    mode: 0o644,
    description: "Maximum number of queues per virtual interface",
}

xen::module_param! {
    /// Whether backends may see whole pages of the guest.
    static TRUSTED: bool = true;
    module: "xen_netfront",
    name: "trusted",
    mode: 0o644,
    description: "Is the backend trusted",
}

xen::module_param! {
    /// Packets received that wait for one event.
    static RX_FRAMES: Frames = Frames::new(16);
    module: "xen_netfront",
    name: "rx_frames",
    mode: 0o644,
    description: "Maximum number of packets received that wait for one event (default is 16; 1: an event each)",
}

xen::module_param! {
    /// How long they wait.
    static RX_USECS: Usecs = Usecs::new(50);
    module: "xen_netfront",
    name: "rx_usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that they wait (default is 50)",
}

xen::module_param! {
    /// Whether that depends on recent history.
    static RX_ADAPTIVE: bool = true;
    module: "xen_netfront",
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

xen::module_param! {
    /// Packets sent that wait for one event.
    static TX_FRAMES: Frames = Frames::new(16);
    module: "xen_netfront",
    name: "tx_frames",
    mode: 0o644,
    description: "Maximum number of packets sent that wait for one event (default is 16; 1: an event each)",
}

xen::module_param! {
    /// How long they wait.
    static TX_USECS: Usecs = Usecs::new(50);
    module: "xen_netfront",
    name: "tx_usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that they wait (default is 50)",
}

xen::module_param! {
    /// Whether that depends on recent history.
    static TX_ADAPTIVE: bool = true;
    module: "xen_netfront",
    name: "tx_adaptive",
    mode: 0o644,
    description: "They wait only as far as has been good of late",
}

/// What holds for an interface for which it is not set.
static TX_MODERATION: Defaults = Defaults {
    frames: &TX_FRAMES,
    usecs: &TX_USECS,
    poll_usecs: None,
    adaptive: &TX_ADAPTIVE,
    priority: None,
};

/// Where devices change their state: off the one thread that serves the whole bus.
static WORK: ModuleQueue = ModuleQueue::new();

/// The driver, as the bus sees it.
struct Netfront;

impl xenbus::Driver for Netfront {
    type Side = xenbus::Frontend;
    type Data<'bound> = Arc<Frontend>;

    const DEVICE_TYPE: &'static CStr = c"vif";

    fn probe<'bound>(
        dev: &'bound xenbus::Device<device::Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        Frontend::new(dev)
    }

    fn otherend_changed<'bound>(
        dev: &'bound xenbus::Device<device::Bound>,
        frontend: Pin<&Self::Data<'bound>>,
        theirs: State,
    ) {
        frontend.otherend_changed(dev, theirs);
    }

    fn is_ready<'bound>(
        _dev: &'bound xenbus::Device<device::Bound>,
        frontend: Pin<&Self::Data<'bound>>,
    ) -> bool {
        frontend.is_ready()
    }

    fn resume<'bound>(
        dev: &'bound xenbus::Device<device::Bound>,
        frontend: Pin<&Self::Data<'bound>>,
    ) -> Result {
        frontend.resume(dev)
    }

    fn unbind<'bound>(
        dev: &'bound xenbus::Device<device::Core<'_>>,
        frontend: Pin<&Self::Data<'bound>>,
    ) {
        frontend.unbind(dev);
    }
}

/// The module while it is loaded.
///
/// Fields are dropped in this order: first all devices go, then nothing queues work any more.
#[pin_data]
struct NetfrontModule {
    #[pin]
    _driver: driver::Registration<xenbus::Adapter<Netfront>>,
    _work: ModuleQueueGuard,
}

impl kernel::InPlaceModule for NetfrontModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _work: {
                if !domain::is_xen() || !domain::has_pv_interfaces() {
                    return Err(ENODEV);
                }
                pr_info!("Initialising Xen virtual ethernet driver\n");
                if MAX_QUEUES.get() == 0 {
                    MAX_QUEUES.set(connection::default_queues());
                }
                WORK.create(c"xen-netfront")?
            },
            _driver <- driver::Registration::new(
                <Self as kernel::ModuleMetadata>::NAME,
                module,
            ),
        }? Error)
    }
}

module! {
    type: NetfrontModule,
    name: "xen_netfront",
    authors: ["xen-pv-rust contributors"],
    description: "Xen virtual network device frontend",
    license: "GPL",
    alias: ["xen:vif", "xennet"],
}
