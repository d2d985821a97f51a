// SPDX-License-Identifier: GPL-2.0

//! Virtual device numbers: what the toolstack calls a disk, and how the guest names it.
//!
//! Pure logic, tested on the host and by KUnit.
//!
//! Reference: Xen's `docs/man/xen-vbd-interface.7.pandoc`.

use core::fmt;

/// The block major number that Xen's virtual disks have.
pub(crate) const XENVBD_MAJOR: u32 = 202;

/// First minor number that Linux cannot express.
const MINORS: u32 = 1 << 20;

/// Set in numbers of the extended form.
const EXTENDED: u32 = 1 << 28;

/// Minor numbers that a whole disk has, itself included.
const PARTS: u32 = 16;
const EXTENDED_PARTS: u32 = 256;

/// What a virtual device number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskNumber {
    /// Which disk, counted from 0: `xvda`.
    index: u32,
    /// The partition, if this is not a whole disk.
    partition: Option<u32>,
    first_minor: u32,
    minors: u32,
}

/// Why a virtual device number cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// Bits above the extended form are set.
    AboveExtended,
    /// Neither an xvd, sd nor hd number.
    UnknownMajor(u32),
    /// The minor number would not fit into 20 bits.
    MinorOutOfRange,
}

impl fmt::Display for NumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AboveExtended => f.write_str("it is above the extended range"),
            Self::UnknownMajor(major) => write!(
                f,
                "major number {major} is not an xvd, sd or hd device; use an xvd device"
            ),
            Self::MinorOutOfRange => f.write_str("its minor number is out of range"),
        }
    }
}

impl DiskNumber {
    /// Decodes a virtual device number.
    ///
    /// Whatever bus the number was made for, the disk is an `xvd` one with minors of major 202.
    pub(crate) fn decode(vdevice: u32) -> Result<Self, NumberError> {
        if vdevice & EXTENDED != 0 {
            let minor = vdevice & (EXTENDED - 1);
            if vdevice >> 28 > 1 {
                return Err(NumberError::AboveExtended);
            }
            return Self::new(minor / EXTENDED_PARTS, minor, EXTENDED_PARTS);
        }
        if vdevice >> 28 != 0 {
            return Err(NumberError::AboveExtended);
        }

        let (major, minor) = (vdevice >> 8, vdevice & 0xff);
        match major {
            XENVBD_MAJOR => Self::new(minor / PARTS, minor, PARTS),
            // SCSI disks: 16 on the first major, then 7 majors and again 8 that follow on.
            8 => Self::new(minor / PARTS, minor, PARTS),
            65..=71 => {
                let disk = minor / PARTS + (major - 64) * 16;
                Self::new(disk, minor + (major - 64) * 256, PARTS)
            }
            128..=135 => {
                let disk = minor / PARTS + (major - 120) * 16;
                Self::new(disk, minor + (major - 120) * 256, PARTS)
            }
            3 => Self::ide(0, minor),
            22 => Self::ide(2, minor),
            _ => Err(NumberError::UnknownMajor(major)),
        }
    }

    /// IDE disks: 64 minors each, two on each of the first two controllers. A partition's number
    /// stands for the whole disk, as it always has.
    fn ide(first: u32, minor: u32) -> Result<Self, NumberError> {
        if minor >= 2 * 64 {
            return Err(NumberError::MinorOutOfRange);
        }
        let disk = first + minor / 64;
        Self::new(disk, disk * PARTS, PARTS)
    }

    fn new(index: u32, first_minor: u32, parts: u32) -> Result<Self, NumberError> {
        let partition = first_minor % parts;
        let minors = if partition == 0 { parts } else { 1 };
        if first_minor > MINORS - minors {
            return Err(NumberError::MinorOutOfRange);
        }
        Ok(Self {
            index,
            partition: (partition != 0).then_some(partition),
            first_minor,
            minors,
        })
    }

    /// The disk's first minor number.
    pub(crate) fn first_minor(&self) -> u32 {
        self.first_minor
    }

    /// How many minor numbers it takes.
    pub(crate) fn minors(&self) -> u32 {
        self.minors
    }
}

/// The disk's name: `xvda`, … `xvdz`, `xvdaa`, …, followed by the partition's number if any.
impl fmt::Display for DiskNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The letters are digits of base 26 without a zero; seven are enough for 32 bits.
        let mut letters = [0u8; 7];
        let mut rest = self.index;
        let mut used = 0;
        for letter in letters.iter_mut().rev() {
            // CAST: The remainder is less than 26.
            *letter = b'a' + (rest % 26) as u8;
            used += 1;
            match (rest / 26).checked_sub(1) {
                Some(more) => rest = more,
                None => break,
            }
        }
        f.write_str("xvd")?;
        for letter in letters.iter().skip(letters.len() - used) {
            fmt::Write::write_char(f, char::from(*letter))?;
        }
        if let Some(partition) = self.partition {
            write!(f, "{partition}")?;
        }
        Ok(())
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkfront_number))]
mod tests {
    use super::*;
    use fmt::Write;

    fn shows(value: &impl fmt::Display, expected: &str) -> bool {
        struct Rest<'a>(&'a str);

        impl Write for Rest<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
                Ok(())
            }
        }

        let mut rest = Rest(expected);
        write!(rest, "{value}").is_ok() && rest.0.is_empty()
    }

    /// Whether a number stands for the disk or partition of this name, first minor and minors.
    fn is(vdevice: u32, name: &str, first_minor: u32, minors: u32) -> bool {
        DiskNumber::decode(vdevice).is_ok_and(|number| {
            shows(&number, name) && number.first_minor() == first_minor && number.minors() == minors
        })
    }

    const fn extended(disk: u32, partition: u32) -> u32 {
        1 << 28 | disk << 8 | partition
    }

    #[test]
    fn xvd_numbers() {
        assert!(is(202 << 8, "xvda", 0, 16));
        assert!(is(202 << 8 | 1, "xvda1", 1, 1));
        assert!(is(202 << 8 | 15, "xvda15", 15, 1));
        assert!(is(202 << 8 | 16, "xvdb", 16, 16));
        assert!(is(202 << 8 | 15 << 4 | 15, "xvdp15", 255, 1));
        // The usual ones, as numbers.
        assert!(is(51712, "xvda", 0, 16));
        assert!(is(51728, "xvdb", 16, 16));
    }

    #[test]
    fn extended_numbers() {
        assert!(is(extended(0, 0), "xvda", 0, 256));
        assert!(is(extended(0, 255), "xvda255", 255, 1));
        assert!(is(extended(16, 0), "xvdq", 4096, 256));
        assert!(is(extended(25, 3), "xvdz3", 25 * 256 + 3, 1));
        assert!(is(extended(26, 0), "xvdaa", 26 * 256, 256));
        assert!(is(268439552, "xvdq", 4096, 256));
    }

    #[test]
    fn sd_numbers() {
        assert!(is(8 << 8, "xvda", 0, 16));
        assert!(is(8 << 8 | 1, "xvda1", 1, 1));
        assert!(is(8 << 8 | 15 << 4, "xvdp", 240, 16));
        assert!(is(65 << 8, "xvdq", 256, 16));
        assert!(is(65 << 8 | 9 << 4 | 2, "xvdz2", 402, 1));
        assert!(is(71 << 8 | 15 << 4, "xvddx", 127 * 16, 16));
        assert!(is(128 << 8, "xvddy", 128 * 16, 16));
        assert!(is(135 << 8 | 15 << 4 | 15, "xvdiv15", 255 * 16 + 15, 1));
    }

    #[test]
    fn all_sd_disks_differ() {
        let mut disk = 0;
        for major in [8].into_iter().chain(65..=71).chain(128..=135) {
            for minor in (0..256).step_by(16) {
                let number = DiskNumber::decode(major << 8 | minor);
                assert_eq!(number.map(|number| number.first_minor()), Ok(disk * 16));
                assert_eq!(number.map(|number| number.index), Ok(disk));
                disk += 1;
            }
        }
        assert_eq!(disk, 256);
    }

    #[test]
    fn hd_numbers() {
        assert!(is(3 << 8, "xvda", 0, 16));
        assert!(is(3 << 8 | 1, "xvda", 0, 16));
        assert!(is(3 << 8 | 64, "xvdb", 16, 16));
        assert!(is(22 << 8, "xvdc", 32, 16));
        assert!(is(22 << 8 | 64 | 15, "xvdd", 48, 16));
        // The usual ones, as numbers.
        assert!(is(768, "xvda", 0, 16));
        assert!(is(832, "xvdb", 16, 16));
        assert!(is(5632, "xvdc", 32, 16));
        assert!(is(5696, "xvdd", 48, 16));
    }

    #[test]
    fn hd_partitions_stand_for_the_disk() {
        for partition in [1, 15, 16, 63] {
            assert!(is(3 << 8 | partition, "xvda", 0, 16));
            assert!(is(22 << 8 | 64 | partition, "xvdd", 48, 16));
        }
    }

    #[test]
    fn hd_has_two_disks_a_controller() {
        // Minors 128 and above belong to nobody on an IDE major.
        for minor in 128..256 {
            assert_eq!(
                DiskNumber::decode(3 << 8 | minor),
                Err(NumberError::MinorOutOfRange)
            );
            assert_eq!(
                DiskNumber::decode(22 << 8 | minor),
                Err(NumberError::MinorOutOfRange)
            );
        }
    }

    #[test]
    fn other_majors() {
        for major in [
            0, 1, 2, 4, 7, 9, 11, 21, 23, 33, 34, 64, 72, 127, 136, 201, 203, 255, 259,
        ] {
            assert_eq!(
                DiskNumber::decode(major << 8),
                Err(NumberError::UnknownMajor(major))
            );
        }
        // A major number has no more than 20 bits, and all of them count.
        let major = 202 | 1 << 12;
        assert_eq!(
            DiskNumber::decode(major << 8),
            Err(NumberError::UnknownMajor(major))
        );
    }

    #[test]
    fn above_the_extended_form() {
        for bits in 2..16 {
            assert_eq!(
                DiskNumber::decode(bits << 28),
                Err(NumberError::AboveExtended)
            );
        }
        assert_eq!(
            DiskNumber::decode(u32::MAX),
            Err(NumberError::AboveExtended)
        );
    }

    #[test]
    fn last_minors() {
        // 4096 disks of 256 minors fill the 20 bits that a minor number has.
        assert!(is(extended(4095, 0), "xvdfan", 4095 * 256, 256));
        assert!(is(extended(4095, 255), "xvdfan255", 4095 * 256 + 255, 1));
        assert_eq!(
            DiskNumber::decode(extended(4096, 0)),
            Err(NumberError::MinorOutOfRange)
        );
        assert_eq!(
            DiskNumber::decode((1 << 29) - 1),
            Err(NumberError::MinorOutOfRange)
        );
    }

    #[test]
    fn names_of_all_letters() {
        let mut disk = 0;
        for first in b'a'..=b'z' {
            let name = [b'x', b'v', b'd', first];
            let name = core::str::from_utf8(&name).unwrap_or("");
            assert!(is(extended(disk, 0), name, disk * 256, 256));
            disk += 1;
        }
        for first in b'a'..=b'z' {
            for second in b'a'..=b'z' {
                let name = [b'x', b'v', b'd', first, second];
                let name = core::str::from_utf8(&name).unwrap_or("");
                assert!(is(extended(disk, 0), name, disk * 256, 256));
                disk += 1;
            }
        }
        assert!(is(extended(disk, 0), "xvdaaa", disk * 256, 256));
    }

    #[test]
    fn names_of_any_index() {
        let number = DiskNumber {
            index: u32::MAX,
            partition: Some(u32::MAX),
            first_minor: 0,
            minors: 1,
        };
        assert!(shows(&number, "xvdmwlqkwv4294967295"));
    }

    #[test]
    fn errors_say_what_is() {
        assert!(shows(
            &NumberError::AboveExtended,
            "it is above the extended range"
        ));
        assert!(shows(
            &NumberError::UnknownMajor(9),
            "major number 9 is not an xvd, sd or hd device; use an xvd device"
        ));
        assert!(shows(
            &NumberError::MinorOutOfRange,
            "its minor number is out of range"
        ));
    }
}
