// SPDX-License-Identifier: GPL-2.0

//! Asks a disk what programs ask to find out whether it is a CD-ROM, and prints the answers.
//!
//! Made for a guest, in which there is no other program that shows them.

use std::fs::File;
use std::process::ExitCode;

use rogue::report;
use rogue::sys::ioctl_ptr;

/// `struct cdrom_multisession` of C is that long; it has no pointers.
const MULTISESSION: usize = 8;

/// `CDROMMULTISESSION` and `CDROM_GET_CAPABILITY` of C, and one that nobody has.
const CDROMMULTISESSION: u64 = 0x5310;
const CDROM_GET_CAPABILITY: u64 = 0x5331;
const NOBODYS: u64 = 0x53ff;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("cdrom-ioctl: which disk?");
        return ExitCode::FAILURE;
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => {
            eprintln!("cdrom-ioctl: {path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (name, request) in [
        ("multisession", CDROMMULTISESSION),
        ("capability", CDROM_GET_CAPABILITY),
        ("other", NOBODYS),
    ] {
        let mut answer = [0xffu8; MULTISESSION];
        // SAFETY: The first writes that many bytes, the others none.
        match unsafe { ioctl_ptr(&file, request, &mut answer) } {
            Ok(result) => report!("{name} {result} {}", answer.escape_ascii()),
            Err(error) => report!("{name} errno={}", error.raw_os_error().unwrap_or(0)),
        }
    }
    ExitCode::SUCCESS
}
