// SPDX-License-Identifier: GPL-2.0

//! The rings of a device: agreed on, made, and announced to the backend.

use crate::{
    fault::Failure,
    features::RingLimits,
    queues::Queues,
    ring::{
        Conduct,
        Ring, //
    },
    FEATURE_PERSISTENT,
    MAX_QUEUES,
    MAX_RING_PAGE_ORDER,
    POLL_QUEUES,
    TRUSTED, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    io::blkif,
    moderation::Moderated,
    xenbus::{
        store,
        DeviceRef, //
    },
};

/// What the backend allows and this driver does not exceed.
pub(crate) fn agree(otherend: &CStr) -> Result<RingLimits, Failure> {
    let theirs = RingLimits {
        queues: store::read(otherend, c"multi-queue-max-queues")?.unwrap_or(1),
        order: store::read(otherend, c"max-ring-page-order")?.unwrap_or(0),
    };
    let ours = RingLimits {
        queues: MAX_QUEUES.get().saturating_add(POLL_QUEUES.get()),
        // `check_parameters` has made sure of that.
        order: MAX_RING_PAGE_ORDER.get().try_into().unwrap_or(0),
    };
    Ok(ours.agree(theirs))
}

/// What the toolstack and the user say of how to treat the backend.
pub(crate) fn conduct(front: &CStr) -> Result<Conduct, Failure> {
    let trusted = store::read(front, c"trusted")?.unwrap_or(true);
    Ok(Conduct {
        untrusted: !trusted || !TRUSTED.get(),
        persistent: FEATURE_PERSISTENT.get(),
    })
}

/// Makes all rings.
pub(crate) fn make_rings(
    dev: &DeviceRef,
    queues: &Arc<Queues>,
    limits: RingLimits,
    conduct: Conduct,
) -> Result<(), Failure> {
    queues.live().read_keys(dev.nodename())?;
    for index in 0..limits.queues {
        let ring = Ring::new(dev, queues, index, limits, conduct)?;
        queues.attach(index, limits.queues, ring)?;
    }
    queues.begin_priority();
    Ok(())
}

/// Writes all that the backend must know, at once.
pub(crate) fn announce(
    dev: &DeviceRef,
    queues: &Queues,
    limits: RingLimits,
    conduct: Conduct,
) -> Result<(), Failure> {
    store::Transaction::run(|transaction| {
        let front = dev.nodename();
        // An earlier connection may have left keys that this one does not have.
        if limits.order > 0 {
            transaction.write(front, c"ring-page-order", fmt!("{}", limits.order))?;
        } else {
            transaction.remove(front, c"ring-page-order")?;
        }
        if limits.queues == 1 {
            transaction.remove(front, c"multi-queue-num-queues")?;
            // The layout that backends knew before there were several queues.
            announce_ring(transaction, front, queues, 0, limits.order)?;
        } else {
            transaction.write(front, c"multi-queue-num-queues", fmt!("{}", limits.queues))?;
            for index in 0..limits.queues {
                let dir = CString::try_from_fmt(fmt!("{front}/queue-{index}"))?;
                announce_ring(transaction, &dir, queues, index, limits.order)?;
            }
        }
        transaction.write(front, c"protocol", fmt!("{}", blkif::PROTOCOL))?;
        // Without persistent grants the backend must let go of each page before it answers.
        let persistent = u32::from(conduct.persistent);
        transaction.write(front, c"feature-persistent", fmt!("{persistent}"))
    })
    .map_err(|error| Failure::Errno("writing to xenstore", error))
}

fn announce_ring(
    transaction: &store::Transaction,
    dir: &CStr,
    queues: &Queues,
    index: u32,
    order: u32,
) -> Result {
    queues
        .with_ring(index, |ring| (ring.port(), Grefs::of(ring)))
        .ok_or(ENODEV)
        .and_then(|(port, grefs)| {
            for (page, gref) in grefs.iter().enumerate() {
                if order == 0 {
                    transaction.write(dir, c"ring-ref", fmt!("{gref}"))?;
                } else {
                    let key = CString::try_from_fmt(fmt!("ring-ref{page}"))?;
                    transaction.write(dir, &key, fmt!("{gref}"))?;
                }
            }
            transaction.write(dir, c"event-channel", fmt!("{port}"))
        })
}

/// References of a ring's pages, copied so that no lock is held while they are written.
struct Grefs {
    list: [u32; 1 << blkif::MAX_RING_ORDER],
    used: usize,
}

impl Grefs {
    fn of(ring: &Ring) -> Self {
        let mut list = [0; 1 << blkif::MAX_RING_ORDER];
        let mut used = 0;
        for (place, gref) in list.iter_mut().zip(ring.grefs()) {
            *place = *gref;
            used += 1;
        }
        Self { list, used }
    }

    fn iter(&self) -> impl Iterator<Item = &u32> {
        self.list.iter().take(self.used)
    }
}
