// SPDX-License-Identifier: GPL-2.0

//! What the two ends agree on.
//!
//! Pure logic: values that were read from xenstore go in, checked ones come out. Tested on the host
//! and by KUnit.

use core::fmt;

/// Most queues that a disk can have, whatever the backend offers.
pub const MAX_QUEUES: u32 = 256;

/// Limits on the rings of one side, or of both together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Number of queues, each with a ring of its own.
    pub queues: u32,
    /// A ring has 2 to this power pages.
    pub order: u32,
}

impl RingLimits {
    /// What both sides allow; at least one queue.
    pub fn agree(self, other: Self) -> Self {
        Self {
            queues: self.queues.min(other.queues).clamp(1, MAX_QUEUES),
            order: self.order.min(other.order),
        }
    }
}

/// How the backend makes written data durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// It cannot, or has no volatile cache.
    None,
    /// By `FLUSH_DISKCACHE` (`feature-flush-cache`).
    FlushDiskcache,
    /// By `WRITE_BARRIER` (`feature-barrier`), which also serves as a durable write.
    Barrier,
}

impl Flush {
    /// A backend that offers both gets flushes: they do not hold up other requests.
    pub fn choose(feature_flush_cache: bool, feature_barrier: bool) -> Self {
        match (feature_flush_cache, feature_barrier) {
            (true, _) => Self::FlushDiskcache,
            (false, true) => Self::Barrier,
            (false, false) => Self::None,
        }
    }

    /// How the log names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "barrier or flush: disabled;",
            Self::FlushDiskcache => "flush diskcache: enabled;",
            Self::Barrier => "barrier: enabled;",
        }
    }
}

/// Bits of the backend's `info` key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskInfo(pub u32);

impl DiskInfo {
    /// A CD-ROM drive.
    pub fn is_cdrom(self) -> bool {
        self.0 & 0x1 != 0
    }

    /// The medium can be removed.
    pub fn is_removable(self) -> bool {
        self.0 & 0x2 != 0
    }

    /// Writing is not allowed.
    pub fn is_read_only(self) -> bool {
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
pub struct Geometry {
    /// Size in units of 512 bytes.
    pub sectors: u64,
    /// Logical sector size in bytes.
    pub sector_size: u32,
    /// Physical sector size in bytes.
    pub physical_sector_size: u32,
}

/// Why a geometry cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryError {
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
pub fn check_sectors(sectors: u64) -> Result<u64, GeometryError> {
    if sectors > MAX_SECTORS {
        return Err(GeometryError::Sectors(sectors));
    }
    Ok(sectors)
}

impl Geometry {
    /// Checks what the backend says. Without a physical sector size it is the logical one.
    pub fn new(
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

/// A piece of a request's data that lies in one granted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The frame's number.
    pub frame: usize,
    /// Where in the frame it starts, in bytes.
    pub offset: u32,
    /// How long it is, in bytes.
    pub length: u32,
}

impl Piece {
    /// This piece and the `next` one as one, if they touch.
    pub fn join(self, next: Self) -> Option<Self> {
        let end = self.offset.checked_add(self.length)?;
        if self.frame != next.frame || end != next.offset {
            return None;
        }
        Some(Self {
            length: self.length.checked_add(next.length)?,
            ..self
        })
    }
}
