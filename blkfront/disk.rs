// SPDX-License-Identifier: GPL-2.0

//! The disk that the guest sees.

use crate::{
    command::Command,
    fault::Failure,
    features::{
        agree_segments,
        check_sectors,
        Discard,
        DiskInfo,
        Flush,
        Geometry,
        Terms, //
    },
    number::XENVBD_MAJOR,
    queues::Queues,
    Blkfront,
    BlkfrontModule,
    MAX_INDIRECT_SEGMENTS,
    REQUEST_TIMEOUT, //
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
        DiscardLimits,
        Disk,
        DiskBuilder,
        Limits,
        Minors, //
    },
    io::blkif,
    xenbus::store, //
};

/// The block layer's default time after which it looks for requests without an answer, in seconds.
const LONGEST_LOOK: u32 = 30;

/// What a backend says of its disk, checked.
pub(crate) struct Offer {
    pub(crate) geometry: Geometry,
    pub(crate) info: DiskInfo,
    pub(crate) flush: Flush,
    pub(crate) discard: Option<Discard>,
    /// Segments that indirect requests may have, 0 if there are none.
    indirect_segments: u32,
    /// It keeps pages mapped if it may.
    persistent: bool,
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
        let info = DiskInfo(info);
        let discard = store::read(otherend, c"feature-discard")?.unwrap_or(false);
        Ok(Self {
            geometry: Geometry::new(sectors, sector_size, physical_sector_size)?,
            info,
            flush: Flush::choose(flush_cache.unwrap_or(false), barrier.unwrap_or(false)),
            discard: if discard && !info.is_read_only() {
                Some(read_discard(otherend)?)
            } else {
                None
            },
            indirect_segments: store::read(otherend, c"feature-max-indirect-segments")?
                .unwrap_or(0),
            persistent: store::read(otherend, c"feature-persistent")?.unwrap_or(false),
        })
    }
}

fn read_discard(otherend: &CStr) -> Result<Discard, Failure> {
    let granularity = store::read(otherend, c"discard-granularity")?;
    let alignment = store::read(otherend, c"discard-alignment")?;
    let secure = store::read(otherend, c"discard-secure")?;
    Ok(Discard::new(
        granularity.unwrap_or(0),
        alignment.unwrap_or(0),
        secure.unwrap_or(false),
    )?)
}

impl Offer {
    /// What it means for messages to the backend.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            flush: self.flush,
            discard: self.discard,
            segments: agree_segments(MAX_INDIRECT_SEGMENTS.get(), self.indirect_segments),
            persistent: self.persistent,
            sector_size: self.geometry.sector_size,
        }
    }

    /// What it means for the disk's requests.
    pub(crate) fn limits(&self) -> Limits {
        let segments = self.terms().segments;
        Limits {
            logical_block_size: self.geometry.sector_size,
            physical_block_size: self.geometry.physical_sector_size,
            // CAST: At most 4096.
            max_segments: segments as u16,
            segment_size: blkif::FRAME_SIZE,
            max_sectors: segments * (blkif::FRAME_SIZE / blkif::SECTOR_SIZE),
            write_cache: self.flush != Flush::None,
            fua: self.flush == Flush::Barrier,
            discard: self.discard.map(|discard| DiscardLimits {
                granularity: discard.granularity,
                alignment: discard.alignment,
                secure: discard.secure,
            }),
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
    // If a backend that does not answer is to be given up, it must be looked for by then.
    let timeout = match REQUEST_TIMEOUT.get() {
        0 => 0,
        seconds => seconds.min(LONGEST_LOOK) * 1000,
    };
    let tag_set = TagSet::new(queues.count(), queues.polled(), queues.depth(), timeout);
    let tag_set =
        Arc::pin_init(tag_set, GFP_KERNEL).map_err(|e| Failure::Errno("allocating requests", e))?;

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
        cdrom: offer.info.is_cdrom(),
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

    fn poll(queues: &Queues, queue: u32) -> bool {
        queues.poll(queue)
    }

    fn timed_out(queues: &Queues, queue: u32, tag: usize, milliseconds: u32) {
        queues.timed_out(queue, tag, milliseconds);
    }

    fn released(queues: &Queues, openers: u32) {
        if openers == 0 {
            // The toolstack may be waiting for this.
            queues.frontend().kick();
        }
    }
}
