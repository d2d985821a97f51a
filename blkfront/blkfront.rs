// SPDX-License-Identifier: GPL-2.0

//! Xen virtual block device frontend.
//!
//! The disks that a guest sees as `xvda`, `xvdb` and so on. Each has a backend in another domain, to
//! which requests go by rings in shared memory, one for each hardware queue.
//!
//! | file            | what                                                              |
//! |-----------------|-------------------------------------------------------------------|
//! | `number.rs`     | virtual device numbers, names and minors (pure)                   |
//! | `features.rs`   | what the two ends agree on, checked (pure)                        |
//! | `frontend.rs`   | a device from its appearance to its removal: the state machine    |
//! | `connection.rs` | the rings of a device, made and announced                         |
//! | `live.rs`       | the disk of a device while there is one                           |
//! | `queue.rs`      | the disk's hardware queues, and which ring is whose                |
//! | `events.rs`     | the backend's events                                              |
//! | `ring.rs`       | requests and responses of one ring: the hot path                  |
//! | `answer.rs`     | which request a response is about (pure)                          |
//! | `command.rs`    | messages to the backend, and what its answers mean                |
//! | `transfer.rs`   | how reads and writes become messages (pure)                       |
//! | `loan.rs`       | the memory of a request that the backend may use                  |
//! | `stats.rs`      | what a queue has done, counted (pure)                             |
//! | `fault.rs`      | what can be wrong with a device                                   |
//! | `identity.rs`   | which disk a device is                                            |
//! | `disk.rs`       | the disk that the guest sees                                      |
//!
//! Protocol: Xen's public header `xen/include/public/io/blkif.h`.

mod answer;
mod command;
mod connection;
mod disk;
mod events;
mod fault;
mod features;
mod frontend;
mod identity;
mod live;
mod loan;
mod moderator;
mod number;
mod queue;
mod queues;
mod ring;
mod stats;
mod traffic;
mod transfer;

use core::ffi::CStr;
use frontend::Frontend;
use kernel::{
    device,
    driver,
    prelude::*,
    sync::Arc, //
};
use xen::{
    blk::Major,
    debugfs::ModuleDir,
    domain,
    io::blkif,
    // The pure logic calls it so, too.
    moderation::{
        self,
        Defaults,
        Frames,
        Priority,
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
    /// Rings that a disk may have.
    static MAX_QUEUES: u32 = 4;
    module: "xen_blkfront",
    name: "max_queues",
    mode: 0o444,
    description: "Maximum number of hardware queues/rings used per virtual disk",
}

xen::module_param! {
    /// Rings beside them that are polled.
    static POLL_QUEUES: u32 = 0;
    module: "xen_blkfront",
    name: "poll_queues",
    mode: 0o444,
    description: "Number of additional queues per virtual disk for polled I/O (default is 0)",
}

xen::module_param! {
    /// Pages that a ring may have, as a power of two.
    static MAX_RING_PAGE_ORDER: i32 = 0;
    module: "xen_blkfront",
    name: "max_ring_page_order",
    mode: 0o444,
    description: "Maximum order of pages to be used for the shared ring",
}

xen::module_param! {
    /// Segments that a request may have.
    static MAX_INDIRECT_SEGMENTS: u32 = 128;
    module: "xen_blkfront",
    name: "max_indirect_segments",
    mode: 0o444,
    description: "Maximum amount of segments in indirect requests (default is 128)",
}

xen::module_param! {
    /// Whether backends may keep pages mapped.
    static FEATURE_PERSISTENT: bool = true;
    module: "xen_blkfront",
    name: "feature_persistent",
    mode: 0o644,
    description: "Enables the persistent grants feature",
}

xen::module_param! {
    /// Pages of a ring that may stay granted.
    static MAX_PERSISTENT_GRANTS: u32 = 1056;
    module: "xen_blkfront",
    name: "max_persistent_grants",
    mode: 0o644,
    description: "Maximum number of pages per ring that stay granted (default is 1056)",
}

xen::module_param! {
    /// Seconds after which a backend that does not answer is given up.
    static REQUEST_TIMEOUT: u32 = 0;
    module: "xen_blkfront",
    name: "request_timeout",
    mode: 0o644,
    description: "Seconds after which a disk fails whose backend does not answer, 0 for never (default)",
}

xen::module_param! {
    /// Whether backends may see whole pages of the guest.
    static TRUSTED: bool = true;
    module: "xen_blkfront",
    name: "trusted",
    mode: 0o644,
    description: "Is the backend trusted",
}

xen::module_param! {
    /// Responses that wait for one event.
    static FRAMES: Frames = Frames::new(16);
    module: "xen_blkfront",
    name: "frames",
    mode: 0o644,
    description: "Maximum number of responses that wait for one event (default is 16; 1: an event each)",
}

xen::module_param! {
    /// How long they wait.
    static USECS: Usecs = Usecs::new(100);
    module: "xen_blkfront",
    name: "usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that a response waits for others (default is 100)",
}

xen::module_param! {
    /// How long responses are looked for before events are asked for.
    static POLL_USECS: Usecs = Usecs::new(0);
    module: "xen_blkfront",
    name: "poll_usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that responses are looked for before events are asked for; 0 for never (default)",
}

xen::module_param! {
    /// Whether that depends on recent history.
    static ADAPTIVE: bool = true;
    module: "xen_blkfront",
    name: "adaptive",
    mode: 0o644,
    description: "Responses wait for others only as far as has been good of late",
}

xen::module_param! {
    /// Priority of disks' events.
    static PRIORITY: Priority = Priority::new(7);
    module: "xen_blkfront",
    name: "priority",
    mode: 0o644,
    description: "Priority of disks' events, 0 (highest) to 15 (default is 7)",
}

/// What holds for a disk for which it is not set.
static MODERATION: Defaults = Defaults {
    frames: &FRAMES,
    usecs: &USECS,
    poll_usecs: Some(&POLL_USECS),
    adaptive: &ADAPTIVE,
    priority: Some(&PRIORITY),
};

/// Where devices change their state: off the one thread that serves the whole bus.
static WORK: ModuleQueue = ModuleQueue::new();

/// Where requests are completed that an interrupt had no time for. It does not stand still while the
/// system is about to be suspended, since whoever is to stand still may be waiting for its requests.
static EVENTS: ModuleQueue = ModuleQueue::new();

/// The driver, as the bus sees it.
struct Blkfront;

impl xenbus::Driver for Blkfront {
    type Side = xenbus::Frontend;
    type Data<'bound> = Arc<Frontend>;

    const DEVICE_TYPE: &'static CStr = c"vbd";

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
/// Fields are dropped in this order: first all devices go, then nothing queues work any more, then
/// the directory in debugfs goes, and then no disk has the major number.
#[pin_data]
struct BlkfrontModule {
    #[pin]
    _driver: driver::Registration<xenbus::Adapter<Blkfront>>,
    _work: ModuleQueueGuard,
    _events: ModuleQueueGuard,
    _debugfs: ModuleDir,
    _major: Major,
}

impl kernel::InPlaceModule for BlkfrontModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _major: {
                if !domain::is_xen() || !domain::has_pv_disks() {
                    return Err(ENODEV);
                }
                check_parameters();
                Major::register(number::XENVBD_MAJOR, c"xvd").inspect_err(|_| {
                    pr_warn!("can't get major {} with name xvd\n", number::XENVBD_MAJOR)
                })?
            },
            _debugfs: ModuleDir::new(c"xen-blkfront")?,
            _events: EVENTS.create_unfrozen(c"xen-blkfront-events")?,
            _work: WORK.create(c"xen-blkfront")?,
            _driver <- driver::Registration::new(
                <Self as kernel::ModuleMetadata>::NAME,
                module,
            ),
        }? Error)
    }
}

/// Replaces parameters that make no sense by the nearest that do, and says so.
fn check_parameters() {
    let order = MAX_RING_PAGE_ORDER.get();
    // CAST: 4.
    let most = blkif::MAX_RING_ORDER as i32;
    if !(0..=most).contains(&order) {
        pr_info!("Invalid max_ring_order ({order}), will use default max: {most}.\n");
        MAX_RING_PAGE_ORDER.set(most);
    }

    let segments = MAX_INDIRECT_SEGMENTS.get();
    let most = features::MOST_INDIRECT_SEGMENTS;
    let least = features::DIRECT_SEGMENTS;
    if !(least..=most).contains(&segments) {
        MAX_INDIRECT_SEGMENTS.set(segments.clamp(least, most));
        pr_info!(
            "Invalid max_indirect_segments ({segments}), will use {}.\n",
            MAX_INDIRECT_SEGMENTS.get()
        );
    }

    let online = domain::online_cpus();
    let queues = MAX_QUEUES.get();
    if queues > online || queues == 0 {
        pr_info!("Invalid max_queues ({queues}), will use default max: {online}.\n");
        MAX_QUEUES.set(online);
    }

    let polled = POLL_QUEUES.get();
    if polled > online {
        pr_info!("Invalid poll_queues ({polled}), will use {online}.\n");
        POLL_QUEUES.set(online);
    }
}

module! {
    type: BlkfrontModule,
    name: "xen_blkfront",
    authors: ["xen-pv-rust contributors"],
    description: "Xen virtual block device frontend",
    license: "GPL",
    alias: ["xen:vbd", "xenblk", "block-major-202-*"],
}
