// SPDX-License-Identifier: GPL-2.0

//! What the two ends agree on.
//!
//! Pure logic: values that were read from xenstore go in, checked ones come out. Tested on the host
//! and by KUnit.

use core::fmt;

/// Most queues that a disk can have, whatever the backend offers.
pub(crate) const MAX_QUEUES: u32 = 256;

/// Limits on the rings of one side, or of both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLimits {
    /// Number of queues, each with a ring of its own.
    pub(crate) queues: u32,
    /// A ring has 2 to this power pages.
    pub(crate) order: u32,
}

impl RingLimits {
    /// What both sides allow; at least one queue.
    pub(crate) fn agree(self, other: Self) -> Self {
        Self {
            queues: self.queues.min(other.queues).clamp(1, MAX_QUEUES),
            order: self.order.min(other.order),
        }
    }
}

/// How the backend makes written data durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// It cannot, or has no volatile cache.
    None,
    /// By `FLUSH_DISKCACHE` (`feature-flush-cache`).
    Diskcache,
    /// By `WRITE_BARRIER` (`feature-barrier`), which also serves as a durable write.
    Barrier,
}

impl Flush {
    /// A backend that offers both gets flushes: they do not hold up other requests.
    pub(crate) fn choose(feature_flush_cache: bool, feature_barrier: bool) -> Self {
        match (feature_flush_cache, feature_barrier) {
            (true, _) => Self::Diskcache,
            (false, true) => Self::Barrier,
            (false, false) => Self::None,
        }
    }

    /// How the log names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "barrier or flush: disabled;",
            Self::Diskcache => "flush diskcache: enabled;",
            Self::Barrier => "barrier: enabled;",
        }
    }
}

/// Bits of the backend's `info` key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskInfo(pub(crate) u32);

impl DiskInfo {
    /// The medium can be removed.
    pub(crate) fn is_removable(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Writing is not allowed.
    pub(crate) fn is_read_only(self) -> bool {
        self.0 & 0x4 != 0
    }
}

/// Smallest and largest sector that a disk can have, in bytes.
///
/// The largest is a granted frame: a segment cannot hold a part of a sector.
const SECTOR_SIZES: core::ops::RangeInclusive<u64> = 512..=4096;

/// Largest physical sector that is believed, in bytes.
const MAX_PHYSICAL_SECTOR_SIZE: u64 = 1 << 30;

/// Most 512-byte sectors whose bytes can be counted by a file offset.
const MAX_SECTORS: u64 = (i64::MAX as u64) >> 9;

/// Size and sectors of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Size in units of 512 bytes.
    pub(crate) sectors: u64,
    /// Logical sector size in bytes.
    pub(crate) sector_size: u32,
    /// Physical sector size in bytes.
    pub(crate) physical_sector_size: u32,
}

/// Why a geometry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeometryError {
    /// `sectors` is too large.
    Sectors(u64),
    /// `sector-size` is not a power of two in range.
    SectorSize(u64),
    /// `physical-sector-size` is not a power of two, or smaller than `sector-size`.
    PhysicalSectorSize(u64),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sectors(sectors) => {
                write!(f, "sectors is {sectors}, more than {MAX_SECTORS}")
            }
            Self::SectorSize(size) => write!(
                f,
                "sector-size is {size}, not a power of two from {} to {}",
                SECTOR_SIZES.start(),
                SECTOR_SIZES.end()
            ),
            Self::PhysicalSectorSize(size) => write!(
                f,
                "physical-sector-size is {size}, not a power of two from sector-size to \
                 {MAX_PHYSICAL_SECTOR_SIZE}"
            ),
        }
    }
}

/// Whether a disk can have `sectors` sectors of 512 bytes.
pub(crate) fn check_sectors(sectors: u64) -> Result<u64, GeometryError> {
    if sectors > MAX_SECTORS {
        return Err(GeometryError::Sectors(sectors));
    }
    Ok(sectors)
}

impl Geometry {
    /// Checks what the backend says. Without a physical sector size it is the logical one.
    pub(crate) fn new(
        sectors: u64,
        sector_size: u64,
        physical_sector_size: Option<u64>,
    ) -> Result<Self, GeometryError> {
        if !SECTOR_SIZES.contains(&sector_size) || !sector_size.is_power_of_two() {
            return Err(GeometryError::SectorSize(sector_size));
        }
        let physical = physical_sector_size.unwrap_or(sector_size);
        if !(sector_size..=MAX_PHYSICAL_SECTOR_SIZE).contains(&physical)
            || !physical.is_power_of_two()
        {
            return Err(GeometryError::PhysicalSectorSize(physical));
        }
        Ok(Self {
            sectors: check_sectors(sectors)?,
            // CAST: Both were checked to be at most 2^30.
            sector_size: sector_size as u32,
            physical_sector_size: physical as u32,
        })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkfront_features))]
mod tests {
    use super::*;

    const fn limits(queues: u32, order: u32) -> RingLimits {
        RingLimits { queues, order }
    }

    #[test]
    fn rings_are_what_both_allow() {
        assert_eq!(limits(4, 4).agree(limits(8, 2)), limits(4, 2));
        assert_eq!(limits(8, 2).agree(limits(4, 4)), limits(4, 2));
        assert_eq!(limits(1, 0).agree(limits(1, 0)), limits(1, 0));
        assert_eq!(limits(4, 4).agree(limits(u32::MAX, u32::MAX)), limits(4, 4));
    }

    #[test]
    fn rings_are_never_none_nor_too_many() {
        assert_eq!(limits(4, 0).agree(limits(0, 0)), limits(1, 0));
        assert_eq!(limits(0, 0).agree(limits(0, 0)), limits(1, 0));
        let many = limits(u32::MAX, 0);
        assert_eq!(many.agree(many), limits(MAX_QUEUES, 0));
    }

    #[test]
    fn flush_is_preferred() {
        assert_eq!(Flush::choose(false, false), Flush::None);
        assert_eq!(Flush::choose(false, true), Flush::Barrier);
        assert_eq!(Flush::choose(true, false), Flush::Diskcache);
        assert_eq!(Flush::choose(true, true), Flush::Diskcache);
    }

    #[test]
    fn flush_has_the_name_that_logs_know() {
        assert_eq!(Flush::None.name(), "barrier or flush: disabled;");
        assert_eq!(Flush::Diskcache.name(), "flush diskcache: enabled;");
        assert_eq!(Flush::Barrier.name(), "barrier: enabled;");
    }

    #[test]
    fn bits_of_the_disk() {
        for bits in 0..8 {
            // Bits that nobody has given a meaning do not count.
            for junk in [0, 0xffff_fff8] {
                let info = DiskInfo(bits | junk);
                assert_eq!(info.is_removable(), bits & 2 != 0);
                assert_eq!(info.is_read_only(), bits & 4 != 0);
            }
        }
    }

    #[test]
    fn geometry_of_honest_disks() {
        for sector_size in [512, 1024, 2048, 4096] {
            for physical in [None, Some(sector_size), Some(1 << 16), Some(1 << 30)] {
                assert_eq!(
                    Geometry::new(1000, sector_size, physical),
                    Ok(Geometry {
                        sectors: 1000,
                        sector_size: sector_size as u32,
                        physical_sector_size: physical.unwrap_or(sector_size) as u32,
                    })
                );
            }
        }
        assert!(Geometry::new(0, 512, None).is_ok());
    }

    #[test]
    fn sector_sizes_that_cannot_be() {
        for size in [
            0,
            1,
            256,
            511,
            513,
            1536,
            4095,
            4097,
            8192,
            1 << 32,
            512 << 32,
            u64::MAX,
        ] {
            assert_eq!(
                Geometry::new(1, size, None),
                Err(GeometryError::SectorSize(size))
            );
        }
    }

    #[test]
    fn physical_sector_sizes_that_cannot_be() {
        for size in [
            0,
            1,
            512,
            2048,
            4097,
            6144,
            1 << 31,
            1 << 32,
            4096 << 32,
            u64::MAX,
        ] {
            assert_eq!(
                Geometry::new(1, 4096, Some(size)),
                Err(GeometryError::PhysicalSectorSize(size))
            );
        }
    }

    #[test]
    fn sectors_that_a_file_offset_can_count() {
        let most = (1 << 54) - 1;
        assert_eq!(check_sectors(0), Ok(0));
        assert_eq!(check_sectors(most), Ok(most));
        assert!(most
            .checked_mul(512)
            .is_some_and(|bytes| i64::try_from(bytes).is_ok()));
        for sectors in [most + 1, 1 << 63, u64::MAX] {
            assert_eq!(check_sectors(sectors), Err(GeometryError::Sectors(sectors)));
            assert_eq!(
                Geometry::new(sectors, 512, None),
                Err(GeometryError::Sectors(sectors))
            );
        }
    }

    #[test]
    fn errors_say_what_is() {
        use fmt::Write;

        struct Rest<'a>(&'a str);

        impl Write for Rest<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
                Ok(())
            }
        }

        for (error, text) in [
            (
                GeometryError::Sectors(u64::MAX),
                "sectors is 18446744073709551615, more than 18014398509481983",
            ),
            (
                GeometryError::SectorSize(8192),
                "sector-size is 8192, not a power of two from 512 to 4096",
            ),
            (
                GeometryError::PhysicalSectorSize(0),
                "physical-sector-size is 0, not a power of two from sector-size to 1073741824",
            ),
        ] {
            let mut rest = Rest(text);
            assert!(write!(rest, "{error}").is_ok());
            assert_eq!(rest.0, "");
        }
    }
}
