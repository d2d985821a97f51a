// SPDX-License-Identifier: GPL-2.0

//! Makes of a log of dm-log-writes what a disk would hold had the power gone at some moment.
//!
//! The log holds a superblock and then entries, each in a sector of its own and followed by the data
//! that was written. Everything is little-endian.
//!
//! C source: `drivers/md/dm-log-writes.c`

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

const HELP: &str = "\
Usage: log-writes-replay LOG --list
       log-writes-replay LOG --to NUMBER --onto TARGET

--list prints a line for each entry: its number, what it is (write, discard, mark), flush and fua if
it has these flags, its first sector and number of sectors, and a mark's name.
--to writes all entries before that number to TARGET, a device or file as large as the one logged.
";

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

const FLUSH: u64 = 1 << 0;
const FUA: u64 = 1 << 1;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// Bytes that are copied at once.
const PIECE: usize = 1 << 20;

fn word(bytes: &[u8], index: usize) -> io::Result<u64> {
    let start = index * 8;
    match bytes.get(start..start + 8).map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => Ok(u64::from_le_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A log that is being read.
struct Log {
    file: File,
    entries: u64,
    /// Bytes of a sector of the device that was logged, by which entries are laid out.
    unit: u64,
    /// Where the next entry is.
    position: u64,
}

/// An entry.
struct Entry {
    /// In sectors of the device that was logged.
    sector: u64,
    sectors: u64,
    flags: u64,
    name: String,
    /// Where in the log its data is.
    data: u64,
}

impl Log {
    fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut head = [0; 32];
        file.read_exact_at(&mut head, 0)?;
        if word(&head, 0)? != MAGIC || word(&head, 1)? != VERSION {
            return Err(io::Error::other("this is no log of dm-log-writes"));
        }
        let unit = word(&head, 3)? & u64::from(u32::MAX);
        if !(512..=1 << 16).contains(&unit) {
            return Err(io::Error::other(format!(
                "sectors of {unit} bytes cannot be"
            )));
        }
        Ok(Self {
            file,
            entries: word(&head, 2)?,
            unit,
            position: unit,
        })
    }

    /// A number of sectors in bytes.
    fn bytes(&self, sectors: u64) -> io::Result<u64> {
        sectors
            .checked_mul(self.unit)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    fn next(&mut self) -> io::Result<Entry> {
        let mut head = vec![0; self.unit as usize];
        self.file.read_exact_at(&mut head, self.position)?;
        let mut entry = Entry {
            sector: word(&head, 0)?,
            sectors: word(&head, 1)?,
            flags: word(&head, 2)?,
            name: String::new(),
            data: self.position + self.unit,
        };
        let length = word(&head, 3)?;
        self.position = entry.data;
        if entry.flags & MARK != 0 {
            let name = head.get(32..).unwrap_or_default();
            let name = name.get(..length as usize).unwrap_or(name);
            entry.name = String::from_utf8_lossy(name)
                .trim_end_matches('\0')
                .to_owned();
        } else if entry.flags & DISCARD == 0 {
            self.position = self
                .bytes(entry.sectors)?
                .checked_add(entry.data)
                .ok_or(io::ErrorKind::InvalidData)?;
        }
        Ok(entry)
    }

    fn copy(&self, entry: &Entry, target: &File) -> io::Result<()> {
        let (mut from, mut to) = (entry.data, self.bytes(entry.sector)?);
        let mut left = self.bytes(entry.sectors)?;
        let mut piece = vec![0; PIECE];
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            // What was discarded reads as zeros, as one of the things that it may read as.
            if entry.flags & DISCARD == 0 {
                self.file.read_exact_at(&mut piece[..length], from)?;
            }
            target.write_all_at(&piece[..length], to)?;
            from += length as u64;
            to += length as u64;
            left -= length as u64;
        }
        Ok(())
    }
}

fn list(log: &mut Log) -> io::Result<()> {
    for number in 0..log.entries {
        let entry = log.next()?;
        let kind = match entry.flags {
            flags if flags & MARK != 0 => "mark",
            flags if flags & DISCARD != 0 => "discard",
            _ => "write",
        };
        let flush = if entry.flags & FLUSH != 0 {
            " flush"
        } else {
            ""
        };
        let fua = if entry.flags & FUA != 0 { " fua" } else { "" };
        let (sector, sectors) = (entry.sector, entry.sectors);
        println!(
            "{number} {kind}{flush}{fua} {sector} {sectors} {}",
            entry.name
        );
    }
    Ok(())
}

fn replay(log: &mut Log, end: u64, target: &str) -> io::Result<()> {
    let target = OpenOptions::new().write(true).open(target)?;
    for _ in 0..end.min(log.entries) {
        let entry = log.next()?;
        if entry.flags & MARK == 0 {
            log.copy(&entry, &target)?;
        }
    }
    target.sync_all()
}

fn act(words: &[String]) -> io::Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--help"] => {
            print!("{HELP}");
            Ok(())
        }
        [log, "--list"] => list(&mut Log::open(log)?),
        [log, "--to", number, "--onto", target] => {
            let number = number.parse().map_err(io::Error::other)?;
            replay(&mut Log::open(log)?, number, target)
        }
        _ => Err(io::Error::other("unknown arguments, see --help")),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match act(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("log-writes-replay: {error}");
            ExitCode::FAILURE
        }
    }
}
