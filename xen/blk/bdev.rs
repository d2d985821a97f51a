// SPDX-License-Identifier: GPL-2.0

//! Block devices of this domain, used by a backend.
//!
//! C header: [`include/linux/blkdev.h`](srctree/include/linux/blkdev.h)

use crate::bindings;
use core::{
    fmt,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::Arc, //
};

/// Major and minor number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceNumber {
    /// Which driver's, 12 bits.
    pub major: u32,
    /// Which of the driver's, 20 bits.
    pub minor: u32,
}

/// Bits of a minor number in C's `dev_t`.
const MINOR_BITS: u32 = 20;

impl DeviceNumber {
    /// A number that is too large is no device's; cut short, it would be another one's.
    fn to_raw(self) -> Option<bindings::dev_t> {
        let fits = self.major < 1 << (u32::BITS - MINOR_BITS) && self.minor < 1 << MINOR_BITS;
        fits.then_some(self.major << MINOR_BITS | self.minor)
    }
}

/// As the toolstack writes it.
impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}:{:x}", self.major, self.minor)
    }
}

crate::printable!(DeviceNumber);

/// What a device can discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Smallest piece, in bytes.
    pub granularity: u32,
    /// Where the first piece starts, in bytes.
    pub alignment: u32,
    /// Can make sure that nobody reads it ever again.
    pub secure: bool,
}

/// A block device that is open.
///
/// It is claimed for all backends together: they can share it, but nobody else who wants it for himself
/// gets it. Dropping it closes it. Any context that may free memory.
///
/// # Invariants
///
/// `file` is open, and `bdev` is its device.
pub struct BlockDevice {
    file: NonNull<bindings::file>,
    bdev: NonNull<bindings::block_device>,
    claimed: bool,
}

// SAFETY: The block layer synchronises all use of a device.
unsafe impl Send for BlockDevice {}
// SAFETY: As above.
unsafe impl Sync for BlockDevice {}

/// Whose address is that of the holder of all devices.
static HOLDER: u8 = 0;

impl BlockDevice {
    /// Opens a device. If somebody else has claimed it, it is used without being claimed. Process
    /// context.
    ///
    /// # Errors
    ///
    /// `ENXIO` if there is none of the number, `ENOMEDIUM`, and others of the device's driver.
    pub fn open(number: DeviceNumber, writable: bool) -> Result<Arc<Self>> {
        match Self::open_as(number, writable, true) {
            Err(error) if error == EBUSY => Self::open_as(number, writable, false),
            result => result,
        }
    }

    fn open_as(number: DeviceNumber, writable: bool, claim: bool) -> Result<Arc<Self>> {
        let raw = number.to_raw().ok_or(ENXIO)?;
        let mut mode = bindings::BLK_OPEN_READ;
        if writable {
            mode |= bindings::BLK_OPEN_WRITE;
        }
        let holder: *const u8 = if claim { &HOLDER } else { core::ptr::null() };
        // SAFETY: The holder is nothing but an address. Without functions of the holder's nobody calls
        // back.
        let file = from_err_ptr(unsafe {
            bindings::bdev_file_open_by_dev(raw, mode, holder.cast_mut().cast(), core::ptr::null())
        })?;
        let file = NonNull::new(file).ok_or(ENXIO)?;
        // SAFETY: The file is open, and one of a block device.
        let bdev = NonNull::new(unsafe { bindings::file_bdev(file.as_ptr()) }).ok_or(ENXIO)?;
        // INVARIANT: It was just opened.
        Ok(Arc::new(
            Self {
                file,
                bdev,
                claimed: claim,
            },
            GFP_KERNEL,
        )?)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::block_device {
        self.bdev.as_ptr()
    }

    /// Whether nobody else can use it for himself.
    pub fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// Size in units of 512 bytes, now.
    #[inline]
    pub fn sectors(&self) -> u64 {
        // SAFETY: The device is valid by the type invariant, here and below.
        unsafe { bindings::xen_bdev_sectors(self.as_raw()) }
    }

    /// Logical sector size, in bytes.
    #[inline]
    pub fn logical_block_size(&self) -> u32 {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_logical_block_size(self.as_raw()) }
    }

    /// Physical sector size, in bytes.
    pub fn physical_block_size(&self) -> u32 {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_physical_block_size(self.as_raw()) }
    }

    /// Whether it has a volatile cache, so that flushes make sense.
    pub fn has_write_cache(&self) -> bool {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_write_cache(self.as_raw()) }
    }

    /// Whether it cannot be written, however it was opened.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_read_only(self.as_raw()) }
    }

    /// Whether it is a CD-ROM drive.
    pub fn is_cdrom(&self) -> bool {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_is_cdrom(self.as_raw()) }
    }

    /// Whether its medium can be removed.
    pub fn is_removable(&self) -> bool {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_is_removable(self.as_raw()) }
    }

    /// Whether it has been pulled out.
    pub fn has_gone(&self) -> bool {
        // SAFETY: See `sectors`; a device has a disk as long as it is open.
        unsafe { !bindings::disk_live((*self.as_raw()).bd_disk) }
    }

    /// What it can discard, if anything.
    pub fn discard(&self) -> Option<Discard> {
        let raw = self.as_raw();
        // SAFETY: See `sectors`.
        unsafe {
            if bindings::xen_bdev_max_discard_sectors(raw) == 0 {
                return None;
            }
            Some(Discard {
                granularity: bindings::xen_bdev_discard_granularity(raw),
                alignment: bindings::bdev_discard_alignment(raw),
                secure: bindings::xen_bdev_max_secure_erase_sectors(raw) != 0,
            })
        }
    }

    /// Most sectors of 512 bytes that one secure erase may have; 0 if there is no such thing.
    pub(super) fn max_secure_erase_sectors(&self) -> u32 {
        // SAFETY: See `sectors`.
        unsafe { bindings::xen_bdev_max_secure_erase_sectors(self.as_raw()) }
    }

    /// Writes out what this domain has cached of the device, and forgets the rest: somebody else is
    /// going to write to it. Pages that are in use stay, such as those of a file system that is mounted
    /// here as well. Process context; waits for the device.
    ///
    /// # Errors
    ///
    /// Those of writing.
    pub fn drop_cache(&self) -> Result {
        // SAFETY: See `sectors`.
        to_result(unsafe { bindings::xen_bdev_drop_cache(self.as_raw()) })
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        // SAFETY: The file is open by the type invariant, and closed here only.
        unsafe { bindings::bdev_fput(self.file.as_ptr()) };
    }
}
