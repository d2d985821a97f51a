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

    /// How many of the queues are polled, if so many are to be: all but one at most.
    pub(crate) fn polled(self, wanted: u32) -> u32 {
        wanted.min(self.queues.saturating_sub(1))
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

/// How many segments a request may have, if this side allows `ours` and the backend `theirs` for
/// indirect requests (`feature-max-indirect-segments`).
///
/// [`DIRECT_SEGMENTS`] means that there are none of those: so many go without.
pub(crate) fn agree_segments(ours: u32, theirs: u32) -> u32 {
    ours.min(theirs)
        .clamp(DIRECT_SEGMENTS, MOST_INDIRECT_SEGMENTS)
}

/// Segments of a request that is not indirect.
pub(crate) const DIRECT_SEGMENTS: u32 = 11;

/// Most segments of an indirect request: 8 frames of 512.
pub(crate) const MOST_INDIRECT_SEGMENTS: u32 = 4096;

/// How the backend forgets data (`feature-discard`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discard {
    /// It forgets so many bytes at once or nothing; 0 if it does not say.
    pub(crate) granularity: u32,
    /// Where the first of these units begins, in bytes.
    pub(crate) alignment: u32,
    /// It can forget so that nobody finds the data again (`discard-secure`).
    pub(crate) secure: bool,
}

/// `discard-granularity` is not a number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GranularityError(u32);

impl fmt::Display for GranularityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "discard-granularity is {}, not a multiple of 512",
            self.0
        )
    }
}

impl Discard {
    /// Checks what the backend says.
    ///
    /// Linux' backend writes an alignment of 2^32 - 1 for a disk that does not know its own: what is
    /// no place within the first unit is none.
    pub(crate) fn new(
        granularity: u32,
        alignment: u32,
        secure: bool,
    ) -> Result<Self, GranularityError> {
        if granularity % 512 != 0 {
            return Err(GranularityError(granularity));
        }
        let known = alignment < granularity && alignment % 512 == 0;
        Ok(Self {
            granularity,
            alignment: if known { alignment } else { 0 },
            secure,
        })
    }
}

/// What requests may be like, for both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// How data is made durable.
    pub(crate) flush: Flush,
    /// How data is forgotten, if at all.
    pub(crate) discard: Option<Discard>,
    /// Most segments of a request, see [`agree_segments`].
    pub(crate) segments: u32,
    /// Pages are granted once for many requests (`feature-persistent`).
    pub(crate) persistent: bool,
    /// Requests must be of whole sectors of so many bytes.
    pub(crate) sector_size: u32,
}

impl Terms {
    /// Whether `offered` has secure discards, and these terms only others.
    pub(crate) fn lost_secure(&self, offered: Self) -> bool {
        matches!(
            (self.discard, offered.discard),
            (
                Some(Discard { secure: false, .. }),
                Some(Discard { secure: true, .. })
            )
        )
    }

    /// These terms without what has turned out not to work with `other`.
    pub(crate) fn without_lost(self, other: Self) -> Self {
        let discard = match (self.discard, other.discard) {
            (Some(ours), Some(theirs)) => Some(Discard {
                secure: ours.secure && theirs.secure,
                ..ours
            }),
            _ => None,
        };
        Self {
            flush: if other.flush == self.flush {
                self.flush
            } else {
                Flush::None
            },
            discard,
            ..self
        }
    }
}

/// Bits of the backend's `info` key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskInfo(pub(crate) u32);

impl DiskInfo {
    /// It is a CD-ROM.
    pub(crate) fn is_cdrom(self) -> bool {
        self.0 & 0x1 != 0
    }

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
    fn one_queue_is_not_polled() {
        assert_eq!(limits(4, 0).polled(0), 0);
        assert_eq!(limits(4, 0).polled(2), 2);
        assert_eq!(limits(4, 0).polled(u32::MAX), 3);
        assert_eq!(limits(1, 0).polled(1), 0);
        assert_eq!(limits(0, 0).polled(1), 0);
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
    fn segments_are_what_both_allow() {
        assert_eq!(agree_segments(32, 256), 32);
        assert_eq!(agree_segments(256, 32), 32);
        assert_eq!(agree_segments(256, 12), 12);
        // Nothing offered, or not worth it: requests without frames of segments.
        for theirs in 0..=11 {
            assert_eq!(agree_segments(32, theirs), 11);
        }
        for ours in 0..=11 {
            assert_eq!(agree_segments(ours, 256), 11);
        }
        assert_eq!(agree_segments(u32::MAX, u32::MAX), 4096);
    }

    #[test]
    fn discards_that_can_be() {
        for (granularity, alignment, expected) in [
            (0, 0, 0),
            (0, 512, 0),
            (4096, 0, 0),
            (4096, 3584, 3584),
            (4096, 4096, 0),
            (4096, 100, 0),
            (65536, u32::MAX, 0),
            (196_608, 65536, 65536),
        ] {
            for secure in [false, true] {
                assert_eq!(
                    Discard::new(granularity, alignment, secure),
                    Ok(Discard {
                        granularity,
                        alignment: expected,
                        secure,
                    })
                );
            }
        }
        for granularity in [1, 511, 513, u32::MAX] {
            assert_eq!(
                Discard::new(granularity, 0, false),
                Err(GranularityError(granularity))
            );
        }
    }

    /// All terms that differ in what can turn out not to work.
    fn all_terms() -> impl Iterator<Item = Terms> {
        let discards = [None, Some(false), Some(true)];
        let flushes = [Flush::None, Flush::Diskcache, Flush::Barrier];
        flushes.into_iter().flat_map(move |flush| {
            discards.into_iter().map(move |secure| Terms {
                flush,
                discard: secure.map(|secure| Discard {
                    granularity: 4096,
                    alignment: 512,
                    secure,
                }),
                segments: 32,
                persistent: false,
                sector_size: 512,
            })
        })
    }

    #[test]
    fn nothing_lost_is_no_change() {
        for terms in all_terms() {
            assert_eq!(terms.without_lost(terms), terms);
        }
    }

    #[test]
    fn what_is_lost_stays_lost() {
        for offered in all_terms() {
            for now in all_terms() {
                let left = offered.without_lost(now);
                assert!(left.flush == Flush::None || left.flush == offered.flush);
                assert!(left.flush == Flush::None || left.flush == now.flush);
                if let Some(discard) = left.discard {
                    assert!(offered.discard.is_some());
                    assert_eq!(
                        now.discard.map(|now| discard.secure && !now.secure),
                        Some(false)
                    );
                }
                assert_eq!(left.without_lost(now), left);
                assert_eq!(left.segments, offered.segments);
            }
        }
    }

    #[test]
    fn bits_of_the_disk() {
        for bits in 0..8 {
            // Bits that nobody has given a meaning do not count.
            for junk in [0, 0xffff_fff8] {
                let info = DiskInfo(bits | junk);
                assert_eq!(info.is_cdrom(), bits & 1 != 0);
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
        let mut rest = Rest("discard-granularity is 513, not a multiple of 512");
        assert!(write!(rest, "{}", GranularityError(513)).is_ok());
        assert_eq!(rest.0, "");
    }
}
