// SPDX-License-Identifier: GPL-2.0

//! Requests from the block layer, by hardware queue.
//!
//! A driver implements [`Operations`], makes a [`TagSet`] and then a [`Disk`](super::Disk). The block
//! layer hands it each [`Request`] once, and the type sees to it that the driver gives each back
//! once: by ending it, by completing it, or by leaving it to the block layer to try again. One that
//! is dropped on any other path ends with an I/O error rather than never.

mod disk_table;
mod operations;
mod request;
mod tag_set;

pub use self::{
    operations::Operations,
    request::{
        Held,
        Memory,
        Op,
        Request,
        Status, //
    },
    tag_set::TagSet, //
};

/// The functions of a disk of `T`, which may be a CD-ROM.
pub(super) fn disk_table<T: Operations>(
    cdrom: bool,
) -> &'static crate::bindings::block_device_operations {
    if cdrom {
        disk_table::DiskTable::<T, true>::TABLE_REF
    } else {
        disk_table::DiskTable::<T, false>::TABLE_REF
    }
}
