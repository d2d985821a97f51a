// SPDX-License-Identifier: GPL-2.0

//! Whether a request makes sense for the disk.
//!
//! Pure logic: what a frontend asks for goes in, and what is safe to do comes out. Tested on the host
//! and by KUnit.

use crate::wire::Segment;
use core::fmt;

/// What there is to know of a disk when a request comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Its size in sectors of 512 bytes.
    pub(crate) sectors: u64,
    /// Its logical sector size in bytes.
    pub(crate) sector_size: u32,
    /// Writing is allowed.
    pub(crate) writable: bool,
}

/// Why a request makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsuitable {
    /// It would change a disk that must not be changed.
    ReadOnly,
    /// It does not lie on the disk: where it starts, how many sectors it has.
    OutOfRange(u64, u64),
    /// It does not start or end where a sector of the disk does.
    Unaligned(u64, u64),
    /// This segment does not lie in its frame, or is not made of whole sectors of the disk.
    Segment(Segment),
}

impl fmt::Display for Unsuitable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly => f.write_str("the disk is read-only"),
            Self::OutOfRange(sector, count) => {
                write!(f, "{count} sectors from {sector} on are not on the disk")
            }
            Self::Unaligned(sector, count) => {
                write!(
                    f,
                    "{count} sectors from {sector} on are not whole ones of the disk"
                )
            }
            Self::Segment(segment) => {
                let (first, last) = segment.sectors();
                write!(f, "segment from sector {first} to {last} of a frame")
            }
        }
    }
}

impl Bounds {
    /// Sectors of 512 bytes in one of the disk's, less one.
    fn mask(&self) -> u64 {
        u64::from((self.sector_size >> 9).max(1)) - 1
    }

    /// Whether `count` sectors from `sector` on may be used.
    pub(crate) fn check_range(
        &self,
        sector: u64,
        count: u64,
        writes: bool,
    ) -> Result<(), Unsuitable> {
        if writes && !self.writable {
            return Err(Unsuitable::ReadOnly);
        }
        match sector.checked_add(count) {
            Some(end) if end <= self.sectors => {}
            _ => return Err(Unsuitable::OutOfRange(sector, count)),
        }
        if (sector | count) & self.mask() != 0 {
            return Err(Unsuitable::Unaligned(sector, count));
        }
        Ok(())
    }

    /// Whether these segments may be used for what is on the disk from `sector` on. Returns how many
    /// sectors of 512 bytes they have together.
    pub(crate) fn check_segments(
        &self,
        sector: u64,
        segments: &[Segment],
        writes: bool,
    ) -> Result<u64, Unsuitable> {
        let mut count = 0u64;
        for segment in segments {
            let length = match segment.span() {
                Some((_, length)) => u64::from(length >> 9),
                None => return Err(Unsuitable::Segment(*segment)),
            };
            if length & self.mask() != 0 {
                return Err(Unsuitable::Segment(*segment));
            }
            // A segment has at most 8 sectors, and there are at most some thousand of them.
            count = count.saturating_add(length);
        }
        // Where an empty flush or barrier starts means nothing.
        if count > 0 {
            self.check_range(sector, count, writes)?;
        }
        Ok(count)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkback_request))]
mod tests {
    use super::*;

    const DISK: Bounds = Bounds {
        sectors: 1000,
        sector_size: 512,
        writable: true,
    };

    fn seg(first: u8, last: u8) -> Segment {
        let bytes = [7, 0, 0, 0, first, last, 0, 0];
        let mut segments = crate::wire::segments(&bytes);
        segments.next().unwrap_or_default()
    }

    #[test]
    fn ranges_on_the_disk() {
        for (sector, count, good) in [
            (0, 1, true),
            (0, 1000, true),
            (999, 1, true),
            (1000, 0, true),
            (0, 1001, false),
            (999, 2, false),
            (1000, 1, false),
            (1001, 0, false),
            (u64::MAX, 1, false),
            (1, u64::MAX, false),
            (u64::MAX, u64::MAX, false),
            (u64::MAX - 7, 8, false),
            (1 << 63, 1 << 63, false),
        ] {
            let expected = if good {
                Ok(())
            } else {
                Err(Unsuitable::OutOfRange(sector, count))
            };
            assert_eq!(DISK.check_range(sector, count, false), expected);
            assert_eq!(DISK.check_range(sector, count, true), expected);
        }
    }

    #[test]
    fn nothing_changes_a_read_only_disk() {
        let disk = Bounds {
            writable: false,
            ..DISK
        };
        assert_eq!(disk.check_range(0, 1, true), Err(Unsuitable::ReadOnly));
        assert_eq!(disk.check_range(0, 1, false), Ok(()));
        assert_eq!(
            disk.check_segments(0, &[seg(0, 7)], true),
            Err(Unsuitable::ReadOnly)
        );
        // There is nothing to write.
        assert_eq!(disk.check_segments(0, &[], true), Ok(0));
    }

    #[test]
    fn segments_lie_in_their_frames() {
        for first in 0..=u8::MAX {
            for last in 0..=u8::MAX {
                let segment = seg(first, last);
                let expected = if first <= last && last < 8 {
                    Ok(u64::from(last - first) + 1)
                } else {
                    Err(Unsuitable::Segment(segment))
                };
                assert_eq!(DISK.check_segments(0, &[segment], true), expected);
                // Wherever it is among others.
                let sum = DISK.check_segments(0, &[seg(0, 7), segment, seg(3, 3)], false);
                assert_eq!(sum, expected.map(|count| count + 9));
            }
        }
    }

    #[test]
    fn many_segments_add_up() {
        // As many as the backend takes; more would not fit on a kernel's stack.
        let all = [seg(0, 7); 256];
        let disk = Bounds {
            sectors: 8 * 256,
            ..DISK
        };
        assert_eq!(disk.check_segments(0, &all, true), Ok(8 * 256));
        assert_eq!(
            disk.check_segments(1, &all, true),
            Err(Unsuitable::OutOfRange(1, 8 * 256))
        );
    }

    #[test]
    fn large_sectors_are_whole() {
        let disk = Bounds {
            sector_size: 4096,
            ..DISK
        };
        assert_eq!(disk.check_segments(8, &[seg(0, 7)], true), Ok(8));
        assert_eq!(
            disk.check_segments(4, &[seg(0, 7)], true),
            Err(Unsuitable::Unaligned(4, 8))
        );
        // Together they would be whole ones, but the disk takes no parts.
        for last in 0..7 {
            assert_eq!(
                disk.check_segments(0, &[seg(0, last), seg(last + 1, 7)], true),
                Err(Unsuitable::Segment(seg(0, last)))
            );
        }
        assert_eq!(
            disk.check_range(8, 9, true),
            Err(Unsuitable::Unaligned(8, 9))
        );
        assert_eq!(disk.check_range(8, 16, true), Ok(()));
    }

    #[test]
    fn sectors_of_two_kibibytes() {
        let disk = Bounds {
            sector_size: 2048,
            writable: false,
            ..DISK
        };
        assert_eq!(
            disk.check_segments(4, &[seg(4, 7), seg(0, 3)], false),
            Ok(8)
        );
        // The position in the frame is not one on the disk.
        assert_eq!(disk.check_segments(4, &[seg(1, 4)], false), Ok(4));
        assert_eq!(
            disk.check_segments(4, &[seg(0, 5)], false),
            Err(Unsuitable::Segment(seg(0, 5)))
        );
        assert_eq!(
            disk.check_segments(2, &[seg(0, 3)], false),
            Err(Unsuitable::Unaligned(2, 4))
        );
    }

    #[test]
    fn an_empty_flush_is_anywhere() {
        for sector in [0, 1, 1000, 1001, u64::MAX] {
            assert_eq!(DISK.check_segments(sector, &[], true), Ok(0));
        }
    }
}
