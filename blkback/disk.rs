// SPDX-License-Identifier: GPL-2.0

//! The disk that a guest is given: the block device, and what the toolstack wants done with it.

use crate::{
    failure::Failure,
    features,
    request::Bounds, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};
use xen::{
    blk::{
        BlockDevice,
        DeviceNumber, //
    },
    xenbus::store::{
        self,
        Transaction, //
    },
};

/// A disk.
pub(crate) struct Disk {
    /// The block device.
    pub(crate) device: Arc<BlockDevice>,
    /// Its number.
    pub(crate) number: DeviceNumber,
    /// The `mode` key, as it was.
    pub(crate) mode: CString,
    /// Writing is allowed.
    writable: bool,
    cdrom: bool,
    /// The toolstack lets the guest discard.
    may_discard: bool,
    /// The size that the frontend has been told, in sectors of 512 bytes.
    announced: Atomic<u64>,
    /// The device turned out not to flush.
    pub(crate) flush_lost: Atomic<bool>,
}

impl Disk {
    /// Reads the number of the device from the toolstack's key, if it is there yet.
    pub(crate) fn number(node: &CStr) -> Result<Option<DeviceNumber>, Failure> {
        let text = store::read_text(node, c"physical-device")
            .map_err(|errno| Failure::Errno("reading physical-device", errno))?;
        let Some(text) = text else { return Ok(None) };
        match features::parse_device(text.as_bytes()) {
            Some((major, minor)) => Ok(Some(DeviceNumber { major, minor })),
            None => Err(Failure::PhysicalDevice(text)),
        }
    }

    /// Opens the device.
    pub(crate) fn open(
        node: &CStr,
        otherend: &CStr,
        number: DeviceNumber,
    ) -> Result<Arc<Self>, Failure> {
        let mode = store::read_text(node, c"mode")
            .map_err(|errno| Failure::Errno("reading mode", errno))?
            .ok_or(Failure::Errno("reading mode", ENOENT))?;
        let asked = features::is_writable(mode.as_bytes());
        let may_discard = store::read(node, c"discard-enable")?.unwrap_or(true);
        let cdrom = store::read_text(otherend, c"device-type")
            .map_err(|errno| Failure::Errno("reading device-type", errno))?
            .is_some_and(|text| text.as_bytes() == b"cdrom");

        let device =
            BlockDevice::open(number, asked).map_err(|errno| Failure::Device(number, errno))?;
        if !device.is_claimed() {
            pr_warn!("device {number} is in use in this domain as well\n");
        }
        let writable = asked && !device.is_read_only();
        if asked && !writable {
            pr_warn!("device {number} cannot be written, the guest's disk will be read-only\n");
        }
        Ok(Arc::new(
            Self {
                cdrom: cdrom || device.is_cdrom(),
                announced: Atomic::new(device.sectors()),
                device,
                number,
                mode: CString::try_from_fmt(fmt!("{mode}"))
                    .map_err(|errno| Failure::Errno("allocating memory", errno))?,
                writable,
                may_discard,
                flush_lost: Atomic::new(false),
            },
            GFP_KERNEL,
        )?)
    }

    /// What a request is checked against now.
    #[inline]
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            sectors: self.device.sectors(),
            sector_size: self.device.logical_block_size(),
            writable: self.writable,
        }
    }

    /// Whether the guest may discard.
    pub(crate) fn may_discard(&self) -> bool {
        self.may_discard
    }

    /// Whether the device has a size that the frontend has not been told.
    pub(crate) fn is_resized(&self) -> bool {
        self.device.sectors() != self.announced.load(Relaxed)
    }

    /// Writes the size, and returns it.
    pub(crate) fn write_size(&self, to: &Transaction, node: &CStr) -> Result<u64> {
        let sectors = self.device.sectors();
        to.write(node, c"sectors", fmt!("{sectors}"))?;
        Ok(sectors)
    }

    /// The frontend has been told that size.
    pub(crate) fn set_announced(&self, sectors: u64) {
        self.announced.store(sectors, Relaxed);
    }

    /// Writes all that a frontend must know of the disk. Returns the size that it was told.
    pub(crate) fn write_keys(&self, to: &Transaction, node: &CStr) -> Result<u64> {
        let device = &self.device;
        self.write_flush(to, node)?;
        match device.discard().filter(|_| self.may_discard) {
            Some(discard) => {
                to.write(
                    node,
                    c"discard-granularity",
                    fmt!("{}", discard.granularity),
                )?;
                to.write(node, c"discard-alignment", fmt!("{}", discard.alignment))?;
                to.write(
                    node,
                    c"discard-secure",
                    fmt!("{}", u32::from(discard.secure)),
                )?;
                to.write(node, c"feature-discard", fmt!("1"))?;
            }
            None => {
                for key in [
                    c"discard-granularity",
                    c"discard-alignment",
                    c"discard-secure",
                ] {
                    to.remove(node, key)?;
                }
                // Without permission there is no key at all.
                if self.may_discard {
                    to.write(node, c"feature-discard", fmt!("0"))?;
                } else {
                    to.remove(node, c"feature-discard")?;
                }
            }
        }
        let info = features::disk_info(self.cdrom, device.is_removable(), !self.writable);
        to.write(node, c"info", fmt!("{info}"))?;
        to.write(
            node,
            c"sector-size",
            fmt!("{}", device.logical_block_size()),
        )?;
        to.write(
            node,
            c"physical-sector-size",
            fmt!("{}", device.physical_block_size()),
        )?;
        self.write_size(to, node)
    }

    /// Writes whether flushes make sense.
    pub(crate) fn write_flush(&self, to: &Transaction, node: &CStr) -> Result {
        let flush = self.device.has_write_cache() && !self.flush_lost.load(Relaxed);
        let flush = u32::from(flush);
        to.write(node, c"feature-flush-cache", fmt!("{flush}"))?;
        to.write(node, c"feature-barrier", fmt!("{flush}"))
    }
}
