// SPDX-License-Identifier: GPL-2.0

//! The data behind a block backend.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use crate::blkif::SECTOR;

/// Bytes that are allocated together.
const CHUNK: usize = 64 << 10;

/// A part of a disk in memory; nothing means zeroes.
type Chunk = Mutex<Option<Box<[u8]>>>;

/// A disk of a size that can change, usable by many threads.
pub enum Disk {
    /// Sparse memory that is gone with the program.
    Memory(RwLock<Vec<Chunk>>),
    /// A file.
    File(File),
}

fn lock(chunk: &Chunk) -> MutexGuard<'_, Option<Box<[u8]>>> {
    // The bytes are never in a state that matters to anyone but the guest.
    chunk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk {
    /// Creates a disk of zeroes in memory.
    pub fn memory(sectors: u64) -> Self {
        let disk = Self::Memory(RwLock::default());
        disk.resize(sectors);
        disk
    }

    /// Opens a file, which is made longer if need be.
    pub fn file(path: &Path, sectors: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        if file.metadata()?.len() < sectors * SECTOR {
            file.set_len(sectors * SECTOR)?;
        }
        Ok(Self::File(file))
    }

    /// Makes the disk at least this large.
    ///
    /// It is never made smaller, as a request may be under way; who shrinks a disk refuses requests
    /// beyond its end.
    pub fn resize(&self, sectors: u64) {
        match self {
            Self::Memory(chunks) => {
                let count = (sectors * SECTOR).div_ceil(CHUNK as u64) as usize;
                let mut chunks = chunks.write().unwrap_or_else(PoisonError::into_inner);
                if chunks.len() < count {
                    chunks.resize_with(count, Chunk::default);
                }
            }
            Self::File(file) => {
                // A file that cannot grow gives errors to those who read beyond its end.
                let len = file.metadata().map_or(0, |meta| meta.len());
                if len < sectors * SECTOR {
                    let _ = file.set_len(sectors * SECTOR);
                }
            }
        }
    }

    /// Calls `each` for every chunk of a range: the chunk, the place in it, and the place in the
    /// caller's data.
    fn chunks(
        chunks: &RwLock<Vec<Chunk>>,
        offset: u64,
        len: usize,
        mut each: impl FnMut(&Chunk, std::ops::Range<usize>, usize),
    ) -> io::Result<()> {
        let chunks = chunks.read().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let start = (at % CHUNK as u64) as usize;
            let count = (CHUNK - start).min(len - done);
            let chunk = chunks
                .get((at / CHUNK as u64) as usize)
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            each(chunk, start..start + count, done);
            done += count;
        }
        Ok(())
    }

    /// Reads bytes.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Memory(chunks) => Self::chunks(chunks, offset, out.len(), |chunk, range, at| {
                let out = &mut out[at..at + range.len()];
                match &*lock(chunk) {
                    Some(bytes) => out.copy_from_slice(&bytes[range]),
                    None => out.fill(0),
                }
            }),
            Self::File(file) => file.read_exact_at(out, offset),
        }
    }

    /// Writes bytes.
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(chunks) => Self::chunks(chunks, offset, data.len(), |chunk, range, at| {
                let data = &data[at..at + range.len()];
                let mut chunk = lock(chunk);
                let bytes = chunk.get_or_insert_with(|| vec![0; CHUNK].into());
                bytes[range].copy_from_slice(data);
            }),
            Self::File(file) => file.write_all_at(data, offset),
        }
    }

    /// Makes what was written durable.
    pub fn flush(&self) -> io::Result<()> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.sync_data(),
        }
    }

    /// Makes a range read as zeroes.
    pub fn discard(&self, offset: u64, mut len: u64) -> io::Result<()> {
        let zeroes = [0; CHUNK];
        let mut at = offset;
        while len > 0 {
            let count = len.min(CHUNK as u64 - at % CHUNK as u64);
            match self {
                Self::Memory(chunks) if count == CHUNK as u64 => {
                    Self::chunks(chunks, at, CHUNK, |chunk, _, _| *lock(chunk) = None)?;
                }
                _ => self.write(at, &zeroes[..count as usize])?,
            }
            at += count;
            len -= count;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_across_chunks() {
        let disk = Disk::memory(3 * CHUNK as u64 / SECTOR);
        let data: Vec<u8> = (0..CHUNK).map(|i| i as u8 | 1).collect();
        disk.write(1000, &data).unwrap();
        let mut out = vec![9; CHUNK + 2];
        disk.read(999, &mut out).unwrap();
        assert_eq!(out[0], 0);
        assert_eq!(out[1..=CHUNK], data);
        assert_eq!(out[CHUNK + 1], 0);
    }

    #[test]
    fn the_end_is_the_end() {
        let disk = Disk::memory(CHUNK as u64 / SECTOR);
        assert!(disk.read(CHUNK as u64 - 1, &mut [0; 2]).is_err());
        assert!(disk.write(u64::MAX - 4096, &[0; 2]).is_err());
        disk.resize(2 * CHUNK as u64 / SECTOR);
        assert!(disk.read(CHUNK as u64 - 1, &mut [0; 2]).is_ok());
    }

    #[test]
    fn discarded_bytes_are_zero() {
        let disk = Disk::memory(4 * CHUNK as u64 / SECTOR);
        disk.write(0, &vec![7; 4 * CHUNK]).unwrap();
        disk.discard(512, 3 * CHUNK as u64).unwrap();
        let mut out = vec![9; 4 * CHUNK];
        disk.read(0, &mut out).unwrap();
        assert!(out[..512].iter().all(|&byte| byte == 7));
        assert!(out[512..512 + 3 * CHUNK].iter().all(|&byte| byte == 0));
        assert!(out[512 + 3 * CHUNK..].iter().all(|&byte| byte == 7));
    }
}
