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
    compat::synchronize_rcu,
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
    /// It is a CD-ROM: the `ioctl`s by which programs find that out work.
    pub cdrom: bool,
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
        // SAFETY: It was allocated, and nobody else knows it yet.
        let gendisk = unsafe { &mut *raw };
        gendisk.private_data = private;
        let disk = Disk {
            raw: NonNull::from(&mut *gendisk),
            added: false,
            paused: false,
            minors: self.minors,
            _tag_set: tag_set,
        };

        gendisk.fops = super::mq::disk_table::<T>(self.cdrom);
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
/// `raw` is a disk that [`DiskBuilder`] made, whose `private_data` and `queuedata` are one reference to
/// the driver's data; `added` tells whether the block layer knows it, and `paused` whether its queue
/// was quiesced.
pub struct Disk<T: Operations> {
    raw: NonNull<bindings::gendisk>,
    added: bool,
    paused: bool,
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
    /// `EBUSY` if it was added before; `EEXIST` and others of the driver core, after which the disk
    /// can only be dropped.
    pub fn add(&mut self, parent: &xenbus::Device) -> Result {
        if self.added {
            return Err(EBUSY);
        }
        let parent: &kernel::device::Device = parent.as_ref();
        // CAST: `Device` is a transparent wrapper.
        let parent = core::ptr::from_ref(parent).cast_mut().cast();
        // SAFETY: The disk is valid and was not added; the parent is valid.
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

    /// Allows writing, or forbids it, and tells user space. Process context.
    pub fn set_read_only(&self, read_only: bool) {
        // SAFETY: The disk is valid.
        unsafe { bindings::set_disk_ro(self.raw.as_ptr(), read_only) };
    }

    /// Gives the disk another size, in units of 512 bytes, and tells user space.
    pub fn set_capacity(&self, sectors: u64) {
        // SAFETY: The disk is valid.
        unsafe { bindings::set_capacity_and_notify(self.raw.as_ptr(), sectors) };
    }

    /// Changes the disk's limits and features while it may be in use. Requests that were made by the
    /// old limits may still come meanwhile.
    ///
    /// # Context
    ///
    /// Process context. Waits for the requests in flight, which must be answered or ended meanwhile.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the limits contradict each other; then nothing has changed.
    pub fn update_limits(&self, limits: Limits) -> Result {
        let queue = self.queue();
        let mut raw = bindings::queue_limits::default();
        // SAFETY: The queue is valid. This takes the lock that the commit releases.
        unsafe { bindings::xen_queue_limits_start_update(queue, &mut raw) };
        limits.update_raw(&mut raw);
        // SAFETY: The update was started above.
        to_result(unsafe { bindings::queue_limits_commit_update_frozen(queue, &mut raw) })
    }

    fn queue(&self) -> *mut bindings::request_queue {
        // SAFETY: The disk is valid.
        unsafe { (*self.raw.as_ptr()).queue }
    }

    /// Has the block layer keep requests to itself. When this returns, no call of
    /// [`Operations::queue_rq`] runs, and none comes before [`go_on`](Self::go_on) is called or the
    /// disk is dropped. Process context.
    pub fn pause(&mut self) {
        if !core::mem::replace(&mut self.paused, true) {
            // INVARIANT: It is quiesced.
            // SAFETY: The queue is valid.
            unsafe { bindings::blk_mq_quiesce_queue(self.queue()) };
        }
    }

    /// Whether the block layer keeps requests to itself, see [`pause`](Self::pause).
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Has the block layer hand over requests again. Any context.
    pub fn go_on(&mut self) {
        if core::mem::replace(&mut self.paused, false) {
            // INVARIANT: It is not quiesced any more.
            // SAFETY: The queue is valid, and was quiesced by the type invariant.
            unsafe { bindings::blk_mq_unquiesce_queue(self.queue()) };
        }
    }

    /// Marks the device as gone: what is not yet begun fails at once.
    pub fn mark_dead(&self) {
        // SAFETY: The disk is valid.
        unsafe { bindings::blk_mark_disk_dead(self.raw.as_ptr()) };
    }
}

impl<T: Operations> Drop for Disk<T> {
    fn drop(&mut self) {
        // The disk goes when its requests have ended.
        self.go_on();
        let raw = self.raw.as_ptr();
        // SAFETY: The disk is valid, and this is what `build` set.
        let private = unsafe { (*raw).private_data };
        if self.added {
            // SAFETY: It is added. After this no request comes any more.
            unsafe { bindings::del_gendisk(raw) };
            // The last one may have ended before `queue_rq` returned, which is called within
            // `rcu_read_lock`.
            synchronize_rcu();
            // Who still has it open will close it some time, but not be told of to the driver.
            // SAFETY: The disk is valid until it is put. `DiskTable::release_callback` runs with
            // this lock held.
            unsafe {
                let lock = core::ptr::addr_of_mut!((*raw).open_mutex);
                bindings::mutex_lock(lock);
                (*raw).private_data = core::ptr::null_mut();
                bindings::mutex_unlock(lock);
            }
        }
        // SAFETY: The disk is valid, and this is the reference of `build`'s.
        unsafe { bindings::put_disk(raw) };
        // SAFETY: This is the reference that `build` gave away. Nobody can reach it any more: no
        // request comes, and `private_data` has been cleared, or the disk was never seen.
        drop(unsafe { Arc::<T::DiskData>::from_raw(private.cast()) });
    }
}
