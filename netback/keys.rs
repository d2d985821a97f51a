// SPDX-License-Identifier: GPL-2.0

//! What a device writes to xenstore and reads there at any time, besides the states.
//!
//! | directory | key                         | meaning                                                 |
//! |-----------|-----------------------------|---------------------------------------------------------|
//! | backend   | `rate`                      | bytes that the guest may transmit, and in how many µs   |
//! | backend   | `rate-packets`              | ... and packets                                         |
//! | backend   | `rate-rx`                   | bytes that it may be sent, and in how many µs           |
//! | backend   | `rate-rx-packets`           | ... and packets                                         |
//! | frontend  | `request-multicast-control` | it wants multicast packets only that it has asked for   |
//! | frontend  | `xdp-headroom`              | bytes that it wants to be free before packets           |
//!
//! A rate is two decimal numbers with a comma between them.

use crate::{
    backend::Backend,
    credit::Rate,
    features,
    rules::Rules,
    PROVIDES_XDP_HEADROOM,
    SEPARATE_TX_RX_IRQ, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::xenbus::{
    store,
    DeviceRef,
    Watch,
    WatchHandler,
    WatchThread, //
};

/// What can change in xenstore, besides the frontend's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The device itself: whether it is to go.
    Device,
    /// Whether the script has set it up.
    Hotplug,
    /// How much may be sent.
    Rates,
    /// Which multicast packets the guest wants.
    Multicast,
}

/// Who is told that something has changed.
pub(crate) struct Observer {
    backend: Arc<Backend>,
    subject: Subject,
}

impl WatchHandler for Observer {
    fn changed(this: &Arc<Self>, thread: &WatchThread) {
        this.backend.changed(this.subject, thread);
    }
}

/// Has the device told of all changes.
///
/// # Errors
///
/// `ENOMEM`, or what xenstore says.
pub(crate) fn watch(backend: &Arc<Backend>) -> Result<KVec<Watch<Observer>>> {
    let own = backend.dev.nodename();
    let mut watches = KVec::new();
    for (dir, key, subject) in [
        (own, c"online", Subject::Device),
        (own, c"state", Subject::Device),
        (own, c"hotplug-status", Subject::Hotplug),
        (own, c"rate", Subject::Rates),
        (own, c"rate-packets", Subject::Rates),
        (own, c"rate-rx", Subject::Rates),
        (own, c"rate-rx-packets", Subject::Rates),
        (
            &backend.otherend,
            c"request-multicast-control",
            Subject::Multicast,
        ),
    ] {
        let observer = Observer {
            backend: backend.clone(),
            subject,
        };
        let watch = Watch::new(dir, key, Arc::new(observer, GFP_KERNEL)?)?;
        watches.push(watch, GFP_KERNEL)?;
    }
    Ok(watches)
}

/// Writes what a frontend can choose, among so many queues.
///
/// # Errors
///
/// `ENOMEM`, or what xenstore says.
pub(crate) fn write_offer(dev: &DeviceRef, max_queues: u32) -> Result {
    let split = u32::from(SEPARATE_TX_RX_IRQ.get());
    let headroom = u32::from(PROVIDES_XDP_HEADROOM.get());
    store::Transaction::run(|transaction| {
        for (key, value) in [
            (c"feature-sg", 1),
            (c"feature-gso-tcpv4", 1),
            (c"feature-gso-tcpv6", 1),
            (c"feature-ipv6-csum-offload", 1),
            (c"feature-rx-copy", 1),
            (c"feature-xdp-headroom", headroom),
            // Old frontends want to be told that this is no longer done.
            (c"feature-rx-flip", 0),
            (c"feature-multicast-control", 1),
            (c"feature-dynamic-multicast-control", 1),
            (c"feature-split-event-channels", split),
            (c"multi-queue-max-queues", max_queues),
            (c"feature-ctrl-ring", 1),
        ] {
            transaction.write(dev.nodename(), key, fmt!("{value}"))?;
        }
        Ok(())
    })
}

/// Follows what the toolstack says of rates.
pub(crate) fn read_rates(dev: &DeviceRef, rules: &Rules) {
    rules
        .from_guest
        .set(read_rate(dev, c"rate"), read_rate(dev, c"rate-packets"));
    rules.to_guest.set(
        read_rate(dev, c"rate-rx"),
        read_rate(dev, c"rate-rx-packets"),
    );
}

fn read_rate(dev: &DeviceRef, key: &'static CStr) -> Option<Rate> {
    let text = store::read_text(dev.nodename(), key).ok()??;
    let rate = Rate::parse(text.as_bytes());
    if rate.is_none() {
        pr_warn!("Failed to parse network rate limit. Traffic unlimited.\n");
    }
    rate
}

/// Follows whether the guest wants multicast packets only that it has asked for.
///
/// # Errors
///
/// The key makes no sense. Then all is as it was.
pub(crate) fn read_multicast(otherend: &CStr, rules: &Rules) -> Result<(), store::KeyError> {
    let wanted = store::read::<bool>(otherend, c"request-multicast-control")?;
    rules.set_multicast_control(wanted.unwrap_or(false));
    Ok(())
}

/// Follows how many bytes the guest wants to be free before packets.
///
/// # Errors
///
/// As [`read_multicast`].
pub(crate) fn read_headroom(otherend: &CStr, rules: &Rules) -> Result<(), store::KeyError> {
    let headroom = store::read(otherend, c"xdp-headroom")?;
    rules.set_headroom(features::headroom(headroom));
    Ok(())
}

/// How far the hotplug script has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// It has not said anything yet.
    Pending,
    /// The interface is set up.
    Done,
    /// It has failed.
    Failed,
}

/// Reads what the hotplug script says.
///
/// # Errors
///
/// `ENOMEM`, or what xenstore says.
pub(crate) fn read_setup(dev: &DeviceRef) -> Result<Setup> {
    let status = store::read_text(dev.nodename(), c"hotplug-status")?;
    Ok(match status.as_ref().map(store::Text::as_bytes) {
        Some(b"connected") => Setup::Done,
        Some(b"error") => Setup::Failed,
        _ => Setup::Pending,
    })
}

/// The name of a file, as it is but for what no name has.
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl kernel::fmt::Display for Script<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for part in self.0.utf8_chunks() {
            f.write_str(part.valid())?;
        }
        Ok(())
    }
}
