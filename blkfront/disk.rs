// SPDX-License-Identifier: GPL-2.0

//! The disk that the guest sees.

use crate::{
    features::{
        check_sectors,
        DiskInfo,
        Flush,
        Geometry, //
    },
    frontend::Failure,
    number::XENVBD_MAJOR,
    queue::Queues,
    ring::Command,
    Blkfront,
    BlkfrontModule, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    sync::Arc, //
};
use xen::{
    blk::{
        mq::{
            Operations,
            Request,
            TagSet, //
        },
        Disk,
        DiskBuilder,
        Limits,
        Minors, //
    },
    io::blkif,
    xenbus::store, //
};

/// What a backend says of its disk, checked.
pub(crate) struct Offer {
    pub(crate) geometry: Geometry,
    pub(crate) info: DiskInfo,
    pub(crate) flush: Flush,
}

impl Offer {
    /// Reads it from the backend's directory.
    pub(crate) fn read(otherend: &CStr) -> Result<Self, Failure> {
        let sectors = store::require(otherend, c"sectors")?;
        let sector_size = store::require(otherend, c"sector-size")?;
        let physical_sector_size = store::read(otherend, c"physical-sector-size")?;
        let info = store::require(otherend, c"info")?;
        let flush_cache = store::read(otherend, c"feature-flush-cache")?;
        let barrier = store::read(otherend, c"feature-barrier")?;
        Ok(Self {
            geometry: Geometry::new(sectors, sector_size, physical_sector_size)?,
            info: DiskInfo(info),
            flush: Flush::choose(flush_cache.unwrap_or(false), barrier.unwrap_or(false)),
        })
    }
}

impl Offer {
    /// What it means for the disk's requests.
    pub(crate) fn limits(&self) -> Limits {
        // CAST: 11, and a product of it that is less than 2^32.
        let max_segments = blkif::MAX_SEGMENTS as u16;
        Limits {
            logical_block_size: self.geometry.sector_size,
            physical_block_size: self.geometry.physical_sector_size,
            max_segments,
            segment_size: blkif::FRAME_SIZE,
            max_sectors: u32::from(max_segments) * (blkif::FRAME_SIZE / blkif::SECTOR_SIZE),
            write_cache: self.flush != Flush::None,
            fua: self.flush == Flush::Barrier,
        }
    }
}

/// Reads the disk's size again, in units of 512 bytes.
pub(crate) fn read_sectors(otherend: &CStr) -> Result<u64, Failure> {
    let sectors = store::require(otherend, c"sectors")?;
    Ok(check_sectors(sectors)?)
}

/// Makes the disk. Nobody sees it before it is added.
pub(crate) fn make(offer: &Offer, queues: &Arc<Queues>) -> Result<Disk<Blkfront>, Failure> {
    let number = queues.number();
    let tag_set = Arc::pin_init(TagSet::new(queues.count(), queues.depth()), GFP_KERNEL)
        .map_err(|e| Failure::Errno("allocating requests", e))?;

    let minors = Minors::claim(XENVBD_MAJOR, number.first_minor(), number.minors()).map_err(
        |e| match e {
            e if e == EBUSY => Failure::MinorsInUse(number),
            e => Failure::Errno("claiming minor numbers", e),
        },
    )?;
    let builder = DiskBuilder {
        minors,
        capacity: offer.geometry.sectors,
        read_only: offer.info.is_read_only(),
        removable: offer.info.is_removable(),
        limits: offer.limits(),
    };
    builder
        .build(fmt!("{number}"), tag_set, queues.clone())
        .map_err(|e| Failure::Errno("allocating the disk", e))
}

impl Operations for Blkfront {
    type Module = BlkfrontModule;
    type DiskData = Queues;
    type RequestData = Command;

    fn queue_rq(
        queues: &Queues,
        queue: u32,
        request: Request<Self>,
        last: bool,
    ) -> Result<(), Request<Self>> {
        queues.queue_rq(queue, request, last)
    }

    fn commit_rqs(queues: &Queues, queue: u32) {
        queues.commit_rqs(queue);
    }

    fn released(queues: &Queues, openers: u32) {
        if openers == 0 {
            // The toolstack may be waiting for this.
            queues.frontend().kick();
        }
    }
}
