// SPDX-License-Identifier: GPL-2.0

//! Disks.

use super::{
    mq::{
        Operations,
        TagSet, //
    },
    Limits,
    Minors, //
};
use crate::{
    bindings,
    xenbus, //
};
use core::{
    fmt,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    fmt::Write,
    prelude::*,
    static_lock_class,
    str::NullTerminatedFormatter,
    sync::Arc, //
};

/// What a disk is to be.
pub struct DiskBuilder {
    /// Its device numbers.
    pub minors: Minors,
    /// Size in units of 512 bytes.
    pub capacity: u64,
    /// Writing is not allowed.
    pub read_only: bool,
    /// The medium can be removed.
    pub removable: bool,
    /// Limits and features.
    pub limits: Limits,
}

impl DiskBuilder {
    /// Makes the disk, which nobody sees before [`Disk::add`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the limits contradict each other or the name is too long.
    pub fn build<T: Operations>(
        self,
        name: fmt::Arguments<'_>,
        tag_set: Arc<TagSet<T>>,
        data: Arc<T::DiskData>,
    ) -> Result<Disk<T>> {
        let mut limits = self.limits.to_raw();
        let private = Arc::into_raw(data).cast_mut().cast::<c_void>();
        // SAFETY: The tag set is initialised and lives as long as the disk, see below.
        let raw = from_err_ptr(unsafe {
            bindings::__blk_mq_alloc_disk(
                tag_set.as_raw(),
                &mut limits,
                private,
                static_lock_class!().as_ptr(),
            )
        })
        .inspect_err(|_| {
            // SAFETY: The reference was not given away after all.
            drop(unsafe { Arc::<T::DiskData>::from_raw(private.cast()) });
        })?;
        // INVARIANT: The disk is allocated for `T`, holds a reference to its data, and not added.
        let disk = Disk {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            added: false,
            minors: self.minors,
            _tag_set: tag_set,
        };

        // SAFETY: Nobody else knows the disk yet.
        let gendisk = unsafe { &mut *raw };
        gendisk.private_data = private;
        gendisk.fops = super::mq::disk_table::<T>();
        // CAST: C has numbers of 20 bits and less here as `int`.
        gendisk.major = disk.minors.major() as c_int;
        gendisk.first_minor = disk.minors.first() as c_int;
        gendisk.minors = disk.minors.count() as c_int;
        if self.removable {
            gendisk.flags |= bindings::GENHD_FL_REMOVABLE as c_int;
        }
        NullTerminatedFormatter::new(&mut gendisk.disk_name)
            .ok_or(EINVAL)?
            .write_fmt(name)
            .map_err(|_| EINVAL)?;
        // SAFETY: The disk is valid.
        unsafe {
            bindings::set_capacity(raw, self.capacity);
            bindings::set_disk_ro(raw, self.read_only);
        }
        Ok(disk)
    }
}

/// A disk.
///
/// Dropping it takes it away from its users, waiting for the requests in flight; who has it open
/// gets errors from then on. Process context.
///
/// # Invariants
///
/// `raw` is a disk that [`DiskBuilder`] made, whose `private_data` is a reference to the driver's data;
/// `added` tells whether the block layer knows it.
pub struct Disk<T: Operations> {
    raw: NonNull<bindings::gendisk>,
    added: bool,
    minors: Minors,
    _tag_set: Arc<TagSet<T>>,
}

// SAFETY: The block layer synchronises all use of a disk; the driver's data is `Send` and `Sync`.
unsafe impl<T: Operations> Send for Disk<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Sync for Disk<T> {}

impl<T: Operations> Disk<T> {
    /// Shows the disk to its users and reads its partition table.
    ///
    /// # Context
    ///
    /// Process context, and requests must be answered meanwhile.
    ///
    /// # Errors
    ///
    /// `EEXIST` and others of the driver core. The disk can then only be dropped.
    pub fn add(&mut self, parent: &xenbus::Device) -> Result {
        let parent: &kernel::device::Device = parent.as_ref();
        // CAST: `Device` is a transparent wrapper.
        let parent = core::ptr::from_ref(parent).cast_mut().cast();
        // SAFETY: The disk was not added, or this would be called twice; the parent is valid.
        to_result(unsafe {
            bindings::device_add_disk(parent, self.raw.as_ptr(), core::ptr::null_mut())
        })?;
        // INVARIANT: It is added.
        self.added = true;
        Ok(())
    }

    /// How many have it open.
    pub fn openers(&self) -> u32 {
        // SAFETY: The disk is valid.
        unsafe { bindings::xen_disk_openers(self.raw.as_ptr()) }
    }

    /// Its size in units of 512 bytes.
    pub fn capacity(&self) -> u64 {
        // SAFETY: The disk is valid.
        unsafe { bindings::xen_get_capacity(self.raw.as_ptr()) }
    }

    /// Gives the disk another size, in units of 512 bytes, and tells user space.
    pub fn set_capacity(&self, sectors: u64) {
        // SAFETY: The disk is valid.
        unsafe { bindings::set_capacity_and_notify(self.raw.as_ptr(), sectors) };
    }

    /// Marks the device as gone: what is not yet begun fails at once.
    pub fn mark_dead(&self) {
        // SAFETY: The disk is valid.
        unsafe { bindings::blk_mark_disk_dead(self.raw.as_ptr()) };
    }
}

impl<T: Operations> Drop for Disk<T> {
    fn drop(&mut self) {
        let raw = self.raw.as_ptr();
        if self.added {
            // SAFETY: It is added. What is left of it, `free_disk_callback` releases when the last
            // user has closed it.
            unsafe {
                bindings::del_gendisk(raw);
                bindings::put_disk(raw);
            }
        } else {
            // SAFETY: The disk is valid.
            let private = unsafe { (*(*raw).queue).queuedata };
            // SAFETY: Nobody else knows the disk.
            unsafe { bindings::put_disk(raw) };
            // The block layer calls `free_disk_callback` for disks that were added only.
            // SAFETY: This is the reference that `build` gave away.
            drop(unsafe { Arc::<T::DiskData>::from_raw(private.cast()) });
        }
    }
}
