// SPDX-License-Identifier: GPL-2.0

//! Virtual device numbers: what the toolstack calls a disk, and how the guest names it.
//!
//! Pure logic, tested on the host and by KUnit.
//!
//! Reference: Xen's `docs/man/xen-vbd-interface.7.pandoc`.

use core::fmt;

/// The block major number that Xen's virtual disks have.
pub const XENVBD_MAJOR: u32 = 202;

/// First minor number that Linux cannot express.
const MINORS: u32 = 1 << 20;

/// Set in numbers of the extended form.
const EXTENDED: u32 = 1 << 28;

/// Minor numbers that a whole disk has, itself included.
const PARTS: u32 = 16;
const EXTENDED_PARTS: u32 = 256;

/// What a virtual device number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskNumber {
    /// Which disk, counted from 0: `xvda`.
    index: u32,
    /// The partition, if this is not a whole disk.
    partition: Option<u32>,
    first_minor: u32,
    minors: u32,
}

/// Why a virtual device number cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
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
    pub fn decode(vdevice: u32) -> Result<Self, NumberError> {
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

    /// IDE disks: 64 minors each, two on each of the first two controllers. An `xvd` disk has fewer
    /// minors, so not every partition can be expressed.
    fn ide(first: u32, minor: u32) -> Result<Self, NumberError> {
        let (disk, partition) = (first + minor / 64, minor % 64);
        if partition >= PARTS {
            return Err(NumberError::MinorOutOfRange);
        }
        Self::new(disk, disk * PARTS + partition, PARTS)
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
    pub fn first_minor(&self) -> u32 {
        self.first_minor
    }

    /// How many minor numbers it takes.
    pub fn minors(&self) -> u32 {
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
