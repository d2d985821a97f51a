// SPDX-License-Identifier: GPL-2.0

//! Xen virtual block device backend.
//!
//! Gives guests block devices of this domain as disks. Requests come by rings in memory that the guest
//! shares; each ring has a thread.
//!
//! | file            | what                                                              |
//! |-----------------|-------------------------------------------------------------------|
//! | `features.rs`   | what the two ends agree on, checked (pure)                        |
//! | `request.rs`    | whether a request makes sense for the disk (pure)                 |
//! | `backend.rs`    | a device from its appearance to its removal: the state machine    |
//! | `failure.rs`    | why a device cannot be used                                       |
//! | `disk.rs`       | the block device, and what the toolstack wants done with it       |
//! | `connection.rs` | the rings of a device: mapped, and served by their threads        |
//! | `job.rs`        | a request on its way                                              |
//! | `ring.rs`       | the thread of a ring, and its responses: the hot path             |
//! | `ring/`         | ... its requests                                                  |
//! | `mover.rs`      | data: copied, mapped, or mapped for good                          |
//! | `persistent.rs` | frames that stay mapped                                           |
//! | `pressure.rs`   | shortage that concerns all rings                                  |
//! | `statistics.rs` | counters                                                          |
//! | `files.rs`      | what sysfs shows                                                  |
//!
//! Protocol: Xen's public header `xen/include/public/io/blkif.h`.

mod backend;
mod connection;
mod disk;
mod failure;
mod features;
mod files;
mod job;
mod mover;
mod persistent;
mod pressure;
mod request;
mod ring;
mod statistics;

use backend::Bound;
use core::ffi::CStr;
use kernel::{
    device,
    driver,
    prelude::*, //
};
// The pure logic calls it so, wherever it is compiled.
use xen::io::blkif::back as wire;
use xen::{
    domain,
    io::blkif,
    moderation::{
        Defaults,
        Frames,
        Priority,
        Usecs, //
    },
    shrinker::PressureGauge,
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
    /// Pages that a ring keeps for data.
    static MAX_BUFFER_PAGES: i32 = 1024;
    module: "xen_blkback",
    name: "max_buffer_pages",
    mode: 0o644,
    description: "Maximum number of free pages to keep in each block backend buffer",
}

xen::module_param! {
    /// Frames of a ring that stay mapped.
    static MAX_PERSISTENT_GRANTS: i32 = 1056;
    module: "xen_blkback",
    name: "max_persistent_grants",
    mode: 0o644,
    description: "Maximum number of grants to map persistently",
}

xen::module_param! {
    /// How long they stay mapped without being used; 0: for ever.
    static PERSISTENT_GRANT_UNUSED_SECONDS: u32 = 60;
    module: "xen_blkback",
    name: "persistent_grant_unused_seconds",
    mode: 0o644,
    description: "Time in seconds an unused persistent grant is allowed to remain allocated. Default is 60, 0 means unlimited.",
}

xen::module_param! {
    /// Rings that a disk may have; 0: as many as there are CPUs.
    static MAX_QUEUES: u32 = 0;
    module: "xen_blkback",
    name: "max_queues",
    mode: 0o644,
    description: "Maximum number of hardware queues per virtual disk. By default it is the number of online CPUs.",
}

xen::module_param! {
    /// Pages that a ring may have, as a power of two.
    static MAX_RING_PAGE_ORDER: i32 = 4;
    module: "xen_blkback",
    name: "max_ring_page_order",
    mode: 0o444,
    description: "Maximum order of pages to be used for the shared ring",
}

xen::module_param! {
    /// Whether statistics are printed.
    static LOG_STATS: i32 = 0;
    module: "xen_blkback",
    name: "log_stats",
    mode: 0o644,
    description: "Print the counters of each ring every ten seconds",
}

xen::module_param! {
    /// Whether frontends may have frames stay mapped.
    static FEATURE_PERSISTENT: bool = true;
    module: "xen_blkback",
    name: "feature_persistent",
    mode: 0o644,
    description: "Enables the persistent grants feature",
}

xen::module_param! {
    /// How long no page is kept after memory was short.
    static BUFFER_SQUEEZE_DURATION_MS: i32 = 10;
    module: "xen_blkback",
    name: "buffer_squeeze_duration_ms",
    mode: 0o644,
    description: "Duration in ms to squeeze pages buffer when a memory pressure is detected",
}

xen::module_param! {
    /// Largest number of segments of a request whose data is copied rather than mapped.
    static COPY_THRESHOLD: u32 = 16;
    module: "xen_blkback",
    name: "copy_threshold",
    mode: 0o644,
    description: "Requests of up to so many segments are copied rather than mapped (default is 16); 0 maps all",
}

xen::module_param! {
    /// How long a ring is looked at before its thread sleeps, at most.
    static POLL_USECS: Usecs = Usecs::new(0);
    module: "xen_blkback",
    name: "poll_usecs",
    mode: 0o644,
    description: "Time in microseconds that a ring is polled for at most before its thread sleeps; 0 switches polling off (default)",
}

xen::module_param! {
    /// Requests that wait for one event.
    static FRAMES: Frames = Frames::new(16);
    module: "xen_blkback",
    name: "frames",
    mode: 0o644,
    description: "Maximum number of requests that wait for one event (default is 16; 1: an event each)",
}

xen::module_param! {
    /// How long they wait.
    static USECS: Usecs = Usecs::new(100);
    module: "xen_blkback",
    name: "usecs",
    mode: 0o644,
    description: "Maximum time in microseconds that a request waits for others (default is 100)",
}

xen::module_param! {
    /// Whether that depends on recent history.
    static ADAPTIVE: bool = true;
    module: "xen_blkback",
    name: "adaptive",
    mode: 0o644,
    description: "Requests wait for others only as far as has been good of late",
}

xen::module_param! {
    /// Priority of disks' events.
    static PRIORITY: Priority = Priority::new(7);
    module: "xen_blkback",
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

/// The driver, as the bus sees it.
struct Blkback;

impl xenbus::Driver for Blkback {
    type Side = xenbus::Backend;
    type Data<'bound> = Bound;

    const DEVICE_TYPE: &'static CStr = c"vbd";

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
        dev: &'bound xenbus::Device<device::Core<'_>>,
        backend: Pin<&Self::Data<'bound>>,
    ) {
        backend.unbind(dev);
    }
}

/// The module while it is loaded.
///
/// Fields are dropped in this order: first all devices go, then what is left of their work is waited
/// for, and nobody is told of pressure any more.
#[pin_data]
struct BlkbackModule {
    #[pin]
    _driver: driver::Registration<xenbus::Adapter<Blkback>>,
    _work: ModuleQueueGuard,
    _gauge: PressureGauge,
}

impl kernel::InPlaceModule for BlkbackModule {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _gauge: {
                if !domain::is_xen() {
                    return Err(ENODEV);
                }
                check_parameters();
                PressureGauge::new(c"xen-blkback", pressure::memory)?
            },
            _work: WORK.create(c"xen-blkback")?,
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
    if MAX_QUEUES.get() == 0 {
        MAX_QUEUES.set(domain::online_cpus());
    }
}

module! {
    type: BlkbackModule,
    name: "xen_blkback",
    authors: ["xen-pv-rust contributors"],
    description: "Virtual block device back-end driver",
    license: "GPL",
    alias: ["xen-backend:vbd"],
}
