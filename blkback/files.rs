// SPDX-License-Identifier: GPL-2.0

//! What a device shows in sysfs.

use crate::{
    backend::Backend,
    disk::Disk,
    statistics::{
        Counters,
        Field,
        Statistics, //
    },
};
use core::ffi::CStr;
use kernel::{
    fmt,
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    moderation,
    sysfs::{
        self,
        File, //
    },
    xenbus::DeviceRef, //
};

/// A file that shows a counter of all rings together, or of one.
macro_rules! counter {
    ($name:ident) => {
        (
            File {
                name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"?",
                },
                show: |statistics: &Statistics, to| {
                    let field: Field = |counters| &counters.$name;
                    write!(to, "{}", statistics.sum(field))
                },
            },
            File {
                name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"?",
                },
                show: |counters: &Counters, to| write!(to, "{}", counters.$name.get()),
            },
        )
    };
}

/// What the C driver has: xentop reads some of these.
const TOTALS: usize = 7;

/// All counters, those first that are shown for the disk as well.
const COUNTERS: [(File<Statistics>, File<Counters>); 26] = [
    counter!(oo_req),
    counter!(rd_req),
    counter!(wr_req),
    counter!(f_req),
    counter!(ds_req),
    counter!(rd_sect),
    counter!(wr_sect),
    counter!(ds_sect),
    counter!(err_req),
    counter!(persistent_seg),
    counter!(mapped_seg),
    counter!(copied_seg),
    counter!(notifications),
    counter!(events),
    counter!(poll_hits),
    counter!(poll_misses),
    counter!(events_held),
    counter!(events_expired),
    counter!(batch_1),
    counter!(batch_2_3),
    counter!(batch_4_7),
    counter!(batch_8_15),
    counter!(batch_16_31),
    counter!(batch_32_63),
    counter!(batch_64_127),
    counter!(batch_128_up),
];

/// The files of a device.
///
/// Dropping them removes them.
pub(crate) struct Files {
    _disk: sysfs::Files<Disk>,
    _totals: sysfs::Files<Statistics>,
    _moderation: sysfs::Files<Backend>,
    rings: KVec<sysfs::Files<Counters>>,
}

impl Files {
    /// Makes those of the disk.
    pub(crate) fn new(
        dev: &DeviceRef,
        disk: Arc<Disk>,
        statistics: Arc<Statistics>,
        backend: Arc<Backend>,
    ) -> Result<Self> {
        let of_disk = [
            File {
                name: c"physical_device",
                show: |disk: &Disk, to: &mut dyn fmt::Write| write!(to, "{}", disk.number),
            },
            File {
                name: c"mode",
                show: |disk: &Disk, to: &mut dyn fmt::Write| to.write_fmt(fmt!("{}", *disk.mode)),
            },
        ];
        let mut totals = KVec::with_capacity(TOTALS, GFP_KERNEL)?;
        for (total, _) in COUNTERS {
            totals.push(total, GFP_KERNEL)?;
        }
        let folder = CString::try_from_fmt(fmt!("statistics"))?;
        Ok(Self {
            _disk: sysfs::Files::new(dev, None, &of_disk, disk)?,
            _totals: sysfs::Files::new(dev, Some(folder), &totals, statistics)?,
            _moderation: moderation::files(dev, backend)?,
            rings: KVec::new(),
        })
    }

    /// Makes those of rings that there have not been before.
    pub(crate) fn add_rings(&mut self, dev: &DeviceRef, statistics: &Statistics) -> Result {
        while let Some(counters) = statistics.find(self.rings.len()) {
            let mut list = KVec::with_capacity(COUNTERS.len(), GFP_KERNEL)?;
            for (_, file) in COUNTERS {
                list.push(file, GFP_KERNEL)?;
            }
            let folder = CString::try_from_fmt(fmt!("ring-{}", self.rings.len()))?;
            let files = sysfs::Files::new(dev, Some(folder), &list, counters)?;
            self.rings.push(files, GFP_KERNEL)?;
        }
        Ok(())
    }
}
