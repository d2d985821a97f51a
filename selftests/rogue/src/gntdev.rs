// SPDX-License-Identifier: GPL-2.0

//! Foreign pages through `/dev/xen/gntdev`.
//!
//! C header: `include/uapi/xen/gntdev.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::raw::c_ulong;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;
use std::sync::Arc;

use crate::ring::Memory;
use crate::sys::{self, Access, PAGE_SIZE};

const DEVICE: &str = "/dev/xen/gntdev";

/// C: `IOCTL_GNTDEV_MAP_GRANT_REF`; its size is that of the struct with one reference.
const MAP_GRANT_REF: c_ulong = sys::ioc_none(b'G', 0, 24);
/// C: `IOCTL_GNTDEV_UNMAP_GRANT_REF`.
const UNMAP_GRANT_REF: c_ulong = sys::ioc_none(b'G', 1, size_of::<UnmapGrantRef>());

/// C: `IOCTL_GNTDEV_GRANT_COPY`.
const GRANT_COPY: c_ulong = sys::ioc_none(b'G', 8, size_of::<GrantCopy>());

/// C: `GNTCOPY_source_gref` and `GNTCOPY_dest_gref`.
const SOURCE_IS_GRANT: u16 = 1;
const DEST_IS_GRANT: u16 = 2;

/// C: `struct ioctl_gntdev_grant_copy`.
#[repr(C)]
struct GrantCopy {
    count: u32,
    segments: *mut CopySegment,
}

/// One end of a copy: the address of our memory, or a place in a granted page.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct CopyEnd(u64);

impl CopyEnd {
    /// A place in a page granted by domain `domid`; C: `foreign`.
    fn foreign(domid: u16, piece: &Piece) -> Self {
        Self(u64::from(piece.gref) | (u64::from(piece.offset) << 32) | (u64::from(domid) << 48))
    }

    /// An address of ours; C: `virt`.
    fn local(address: *const u8) -> Self {
        // CAST: The kernel wants the number.
        Self(address as u64)
    }
}

/// C: `struct gntdev_grant_copy_segment`.
#[derive(Clone, Copy)]
#[repr(C)]
struct CopySegment {
    source: CopyEnd,
    dest: CopyEnd,
    len: u16,
    flags: u16,
    status: i16,
}

/// A part of a granted page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The grant.
    pub gref: u32,
    /// First byte.
    pub offset: u16,
    /// Number of bytes.
    pub len: u16,
}

/// C: `struct ioctl_gntdev_unmap_grant_ref`.
#[repr(C)]
struct UnmapGrantRef {
    index: u64,
    count: u32,
    pad: u32,
}

/// Builds a `struct ioctl_gntdev_map_grant_ref` for `refs`: a count and padding, the offset that the
/// kernel fills in, and the references, each with its domain.
fn map_argument(domid: u16, refs: &[u32]) -> Vec<u64> {
    let mut arg = Vec::with_capacity(2 + refs.len());
    arg.push(refs.len() as u64);
    arg.push(0);
    arg.extend(
        refs.iter()
            .map(|&gref| (u64::from(gref) << 32) | u64::from(domid)),
    );
    arg
}

/// An open grant device.
#[derive(Clone)]
pub struct Gntdev(Arc<File>);

impl Gntdev {
    /// Opens the device.
    pub fn open() -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        Ok(Self(Arc::new(file)))
    }

    /// Maps the pages that domain `domid` granted by `refs`, side by side in the order given.
    pub fn map(&self, domid: u16, refs: &[u32], access: Access) -> io::Result<Mapping> {
        let mut arg = map_argument(domid, refs);

        // SAFETY: `arg` is laid out as this ioctl expects, with as many references as it counts.
        unsafe { sys::ioctl_ptr(&self.0, MAP_GRANT_REF, arg.as_mut_ptr()) }?;
        let index = arg[1];

        match sys::map_pages(&self.0, index, refs.len(), access) {
            // INVARIANT: The address and the count are those of a mapping just made, which nobody
            // else knows.
            Ok(addr) => Ok(Mapping {
                addr,
                pages: refs.len(),
                access,
                index,
                device: self.clone(),
            }),
            Err(error) => {
                self.forget(index, refs.len());
                Err(error)
            }
        }
    }

    /// Lets the hypervisor copy pieces of pages granted by domain `domid` to `out`, one after the
    /// other, without mapping them.
    ///
    /// # Panics
    ///
    /// Panics if `out` is shorter than all pieces.
    pub fn copy_out(&self, domid: u16, pieces: &[Piece], out: &mut [u8]) -> io::Result<()> {
        // `out` may be written to through this pointer.
        let base = out.as_mut_ptr().cast_const();
        self.copy(domid, pieces, base, out.len(), SOURCE_IS_GRANT)
    }

    /// The other way round.
    ///
    /// # Panics
    ///
    /// Panics if `data` is shorter than all pieces.
    pub fn copy_in(&self, domid: u16, pieces: &[Piece], data: &[u8]) -> io::Result<()> {
        self.copy(domid, pieces, data.as_ptr(), data.len(), DEST_IS_GRANT)
    }

    /// Copies between pieces and the `len` bytes at `base`, which must be valid for that.
    fn copy(
        &self,
        domid: u16,
        pieces: &[Piece],
        base: *const u8,
        len: usize,
        flags: u16,
    ) -> io::Result<()> {
        let mut at = 0;
        let mut segments: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let foreign = CopyEnd::foreign(domid, piece);
                let local = CopyEnd::local(base.wrapping_add(at));
                let is_out = flags == SOURCE_IS_GRANT;
                at += usize::from(piece.len);
                CopySegment {
                    source: if is_out { foreign } else { local },
                    dest: if is_out { local } else { foreign },
                    len: piece.len,
                    flags,
                    status: 0,
                }
            })
            .collect();
        assert!(at <= len, "copy outside of the buffer");
        let mut arg = GrantCopy {
            // CAST: A request has at most 4096 pieces.
            count: segments.len() as u32,
            segments: segments.as_mut_ptr(),
        };

        // SAFETY: `arg` is what this ioctl takes, with as many segments as it counts, and all lives
        // across the call. The local ends are inside of a buffer by the assertion; it is writable if
        // they are the destination, as then it came from `copy_out`.
        unsafe { sys::ioctl_ptr(&self.0, GRANT_COPY, &mut arg) }?;
        match segments.iter().find(|segment| segment.status != 0) {
            Some(segment) => Err(io::Error::other(format!(
                "grant copy failed with status {}",
                segment.status
            ))),
            None => Ok(()),
        }
    }

    /// Takes references off the device's table, after their pages were unmapped.
    fn forget(&self, index: u64, pages: usize) {
        let mut arg = UnmapGrantRef {
            index,
            // CAST: No mapping has more pages than fit, as `map` passed the same count.
            count: pages as u32,
            pad: 0,
        };

        // SAFETY: `arg` is what this ioctl takes, and it lives across the call. It can fail only if
        // the entry is unknown, and then there is nothing left to do.
        let _ = unsafe { sys::ioctl_ptr(&self.0, UNMAP_GRANT_REF, &mut arg) };
    }
}

/// Pages of another domain, mapped until this is dropped.
///
/// The other domain can change them at any moment, so no reference to plain memory is ever made of
/// them: bytes are copied out or in, and words are atomics.
///
/// # Invariants
///
/// `addr` is the start of `pages` pages mapped with `access`, which only this value unmaps.
pub struct Mapping {
    addr: NonNull<u8>,
    pages: usize,
    access: Access,
    index: u64,
    device: Gntdev,
}

// SAFETY: A mapping belongs to the address space, not to a thread; every access is by copy or by
// atomics.
unsafe impl Send for Mapping {}

// SAFETY: Through a shared reference one gets atomics and copies. Two threads copying the same bytes
// may read a mixture, as they may from a domain that writes at the same time; callers treat what they
// read as untrusted in any case.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.pages * PAGE_SIZE
    }

    /// Whether there is no page at all, which [`Gntdev::map`] never returns.
    pub fn is_empty(&self) -> bool {
        self.pages == 0
    }

    /// Returns the address of `len` bytes from `offset`.
    ///
    /// # Panics
    ///
    /// Panics if they are not inside of the mapping.
    fn range(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            len <= self.len() && offset <= self.len() - len,
            "access outside of granted pages"
        );
        // SAFETY: By the assertion the offset is inside of the mapping or at its end.
        unsafe { self.addr.as_ptr().add(offset) }
    }

    /// Copies bytes out of the pages.
    ///
    /// # Panics
    ///
    /// Panics if the range is not inside of the mapping.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) {
        let from = self.range(offset, out.len());

        // SAFETY: `range` checked that the source is mapped, by the invariants for as long as `self`
        // lives; `out` is private memory, so they do not overlap. The other domain may write
        // meanwhile: then the bytes are a mixture, and any byte is a valid `u8`.
        unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes into the pages.
    ///
    /// # Panics
    ///
    /// Panics if the range is not inside of the mapping, or if it is read-only.
    pub fn copy_from(&self, offset: usize, data: &[u8]) {
        assert_eq!(self.access, Access::ReadWrite, "store to a read-only page");
        let to = self.range(offset, data.len());

        // SAFETY: As in `copy_to`, and the pages are mapped writable.
        unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }
}

impl Memory for Mapping {
    fn words(&self) -> &[AtomicU32] {
        assert_eq!(
            self.access,
            Access::ReadWrite,
            "atomics need a writable page"
        );
        // SAFETY: By the invariants the memory is mapped, writable, page aligned and of this length,
        // and it stays so while `self` is borrowed. An atomic is a cell: others, the foreign domain
        // among them, may change it behind a shared reference.
        unsafe {
            std::slice::from_raw_parts(self.addr.as_ptr().cast(), self.len() / size_of::<u32>())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the invariants this is a mapping that only we unmap, and no borrow outlives
        // `self`.
        unsafe { sys::unmap_pages(self.addr, self.pages) };
        self.device.forget(self.index, self.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_copy_are_laid_out_as_in_c() {
        let piece = Piece {
            gref: 0x0102_0304,
            offset: 512,
            len: 4096 - 512,
        };
        let bytes = CopyEnd::foreign(3, &piece).0.to_le_bytes();
        assert_eq!(bytes, [4, 3, 2, 1, 0, 2, 3, 0]);
        assert_eq!(size_of::<CopySegment>(), 24);
        assert_eq!(size_of::<GrantCopy>(), 16);
    }

    #[test]
    fn the_argument_is_laid_out_as_in_c() {
        let bytes: Vec<u8> = map_argument(3, &[7, 0x0102_0304])
            .into_iter()
            .flat_map(u64::to_le_bytes)
            .collect();
        assert_eq!(bytes.len(), 16 + 2 * 8);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [3, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(bytes[24..], [3, 0, 0, 0, 4, 3, 2, 1]);
    }
}
