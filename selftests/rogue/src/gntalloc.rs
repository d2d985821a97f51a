// SPDX-License-Identifier: GPL-2.0

//! Pages granted to another domain, through `/dev/xen/gntalloc`.
//!
//! C header: `include/uapi/xen/gntalloc.h`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::raw::c_ulong;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use crate::ring::Memory;
use crate::sys::{self, Access, PAGE_SIZE};

const DEVICE: &str = "/dev/xen/gntalloc";

/// C: `IOCTL_GNTALLOC_ALLOC_GREF`; its size is that of the struct with one reference.
const ALLOC_GREF: c_ulong = sys::ioc_none(b'G', 5, size_of::<AllocGref>());
/// C: `GNTALLOC_FLAG_WRITABLE`.
const WRITABLE: u16 = 1;

/// C: `struct ioctl_gntalloc_alloc_gref`, for one page.
#[repr(C)]
struct AllocGref {
    domid: u16,
    flags: u16,
    count: u32,
    index: u64,
    gref: u32,
}

/// A page that another domain may read and write. It is zeroed at first.
///
/// # Invariants
///
/// `address` is a mapping of one page that belongs to this value.
pub struct Granted {
    address: NonNull<u8>,
    gref: u32,
    // The grant ends with the file.
    _file: File,
}

impl Granted {
    /// Grants a new page to domain `domid`.
    pub fn new(domid: u16) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        let mut arg = AllocGref {
            domid,
            flags: WRITABLE,
            count: 1,
            index: 0,
            gref: 0,
        };
        // SAFETY: `arg` is what this ioctl takes, and it lives across the call.
        unsafe { sys::ioctl_ptr(&file, ALLOC_GREF, &mut arg) }?;
        // INVARIANT: The mapping was just made, and nobody else knows it.
        Ok(Self {
            address: sys::map_pages(&file, arg.index, 1, Access::ReadWrite)?,
            gref: arg.gref,
            _file: file,
        })
    }

    /// The reference to tell the other domain.
    pub fn gref(&self) -> u32 {
        self.gref
    }

    /// Copies bytes to the start of the page.
    pub fn write(&self, bytes: &[u8]) {
        for (word, chunk) in self.words().iter().zip(bytes.chunks(4)) {
            let mut value = [0; 4];
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(
                u32::from_le_bytes(value),
                std::sync::atomic::Ordering::Relaxed,
            );
        }
    }

    /// Copies the page.
    pub fn read(&self) -> Vec<u8> {
        self.words()
            .iter()
            .flat_map(|word| {
                word.load(std::sync::atomic::Ordering::Relaxed)
                    .to_le_bytes()
            })
            .collect()
    }
}

impl Memory for Granted {
    fn words(&self) -> &[AtomicU32] {
        // SAFETY: The page is mapped as long as `self` lives, by the invariant; it is aligned, and any
        // bits are a valid word, which whoever shares the page changes as a whole.
        unsafe {
            std::slice::from_raw_parts(
                self.address.as_ptr().cast::<AtomicU32>(),
                PAGE_SIZE / size_of::<AtomicU32>(),
            )
        }
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        // SAFETY: The mapping is this value's by the invariant, and nobody refers to it any more.
        unsafe { sys::unmap_pages(self.address, 1) };
    }
}
