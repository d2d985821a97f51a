// SPDX-License-Identifier: GPL-2.0

//! Block devices: what drivers of Xen's disks need beyond [`kernel::block::mq`].
//!
//! That is several hardware queues that know their number, requests with operation, position, data
//! and any result, data of the driver for each request, limits and features, device numbers, and
//! disks that come and go while they are in use.
//!
//! | here                | C                                   |
//! |---------------------|-------------------------------------|
//! | [`mq::Operations`]  | `struct blk_mq_ops`                 |
//! | [`mq::TagSet`]      | `struct blk_mq_tag_set`             |
//! | [`mq::Request`]     | `struct request`, owned by a driver |
//! | [`Disk`]            | `struct gendisk`, added             |
//! | [`Limits`]          | `struct queue_limits`               |
//! | [`BlockDevice`]     | `struct block_device`, opened       |
//! | [`bio::Transfer`]   | `struct bio`, owned                 |
//!
//! C headers: [`include/linux/blk-mq.h`](srctree/include/linux/blk-mq.h),
//! [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

mod bdev;
pub mod bio;
mod disk;
mod limits;
mod minors;
pub mod mq;
mod piece;

pub use self::{
    bdev::{
        BlockDevice,
        DeviceNumber,
        Discard, //
    },
    disk::{
        Disk,
        DiskBuilder, //
    },
    limits::{
        DiscardLimits,
        Limits, //
    },
    minors::{
        Major,
        Minors, //
    },
    piece::{
        fitting,
        Joined,
        Piece,
        Window, //
    },
};
