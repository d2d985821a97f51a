// SPDX-License-Identifier: GPL-2.0

//! What the users of a disk ask of its driver, but for reading and writing.

use super::Operations;
use crate::{
    bindings,
    compat, //
};
use core::{
    marker::PhantomData,
    mem::size_of, //
};
use kernel::{
    error::from_result,
    prelude::*,
    uaccess::{
        UserPtr,
        UserSlice, //
    },
};

/// The functions of `struct block_device_operations`.
pub(super) struct DiskTable<T, const CDROM: bool>(PhantomData<T>);

impl<T: Operations, const CDROM: bool> DiskTable<T, CDROM> {
    /// # Safety
    ///
    /// `disk` must be one that `DiskBuilder` made for `T`, with its `open_mutex` held.
    unsafe extern "C" fn release_callback(disk: *mut bindings::gendisk) {
        // SAFETY: `DiskBuilder` has set `private_data` to `Arc::<T::DiskData>::into_raw`. The disk
        // clears it, with the same lock held, before it drops that reference.
        let Some(data) = (unsafe { (*disk).private_data.cast::<T::DiskData>().as_ref() }) else {
            return;
        };
        // SAFETY: The disk is valid.
        T::released(data, unsafe { bindings::xen_disk_openers(disk) });
    }

    /// # Safety
    ///
    /// `geometry` must be valid for writes.
    unsafe extern "C" fn getgeo_callback(
        disk: *mut bindings::gendisk,
        geometry: *mut kernel::bindings::hd_geometry,
    ) -> c_int {
        // What partitioning programs of old expect of a disk without a geometry.
        const HEADS: u8 = 255;
        const SECTORS: u8 = 63;

        // SAFETY: The block layer calls this with a valid disk.
        let capacity = unsafe { bindings::xen_get_capacity(disk) };
        let cylinders = capacity / (u64::from(HEADS) * u64::from(SECTORS));
        // CAST: The kernel crate knows only the name of the type.
        // SAFETY: By this function's requirements.
        let geometry = unsafe { &mut *geometry.cast::<bindings::hd_geometry>() };
        geometry.heads = HEADS;
        geometry.sectors = SECTORS;
        geometry.cylinders = u16::try_from(cylinders).unwrap_or(u16::MAX);
        0
    }

    /// The two requests by which programs tell a CD-ROM from other disks. It has one session, and none
    /// of a drive's abilities.
    extern "C" fn ioctl_callback(
        _bdev: *mut bindings::block_device,
        _mode: bindings::blk_mode_t,
        command: c_uint,
        argument: c_ulong,
    ) -> c_int {
        from_result(|| match command {
            bindings::CDROMMULTISESSION => {
                let zeroes = [0; size_of::<bindings::cdrom_multisession>()];
                UserSlice::new(UserPtr::from_addr(argument), zeroes.len())
                    .writer()
                    .write_slice(&zeroes)?;
                Ok(0)
            }
            bindings::CDROM_GET_CAPABILITY if CDROM => Ok(0),
            _ => Err(EINVAL),
        })
    }

    const TABLE: bindings::block_device_operations = {
        // SAFETY: All fields are optional functions or pointers that may be NULL.
        let mut table: bindings::block_device_operations = unsafe { core::mem::zeroed() };
        table.owner = compat::owner::<T::Module>();
        table.release = Some(Self::release_callback);
        table.getgeo = Some(Self::getgeo_callback);
        table.ioctl = Some(Self::ioctl_callback);
        // What the argument points to is the same for programs of 32 bits.
        // Without programs of 32 bits there is none.
        #[cfg(CONFIG_COMPAT)]
        {
            table.compat_ioctl = Some(bindings::blkdev_compat_ptr_ioctl);
        }
        table
    };
    pub(in crate::blk) const TABLE_REF: &'static bindings::block_device_operations = &Self::TABLE;
}
