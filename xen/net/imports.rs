// SPDX-License-Identifier: GPL-2.0

//! Packets that Xen copies from frames of another domain.

use super::{
    PagePool,
    Poll,
    Polling,
    RxPacket, //
};
use crate::{
    bindings,
    grant::{
        CopyBatch,
        Frame, //
    },
};
use kernel::prelude::*;

/// Most pages behind the head of a packet.
const MOST_PAGES: usize = 17;

/// Where in a packet something is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So many bytes behind the start of its head.
    Head(u32),
    /// To the page of this number, so many bytes behind its start.
    Page(usize, u32),
}

/// A packet that is being copied.
struct Import {
    packet: RxPacket,
    /// Bytes that no copy was made for, or was asked for.
    missing: u32,
}

/// Packets of one domain that are being copied, all by one hypercall.
///
/// Nobody sees them before they have been copied as a whole.
pub struct Imports {
    copies: CopyBatch,
    /// The number of the packet that each copy is for.
    owners: KVec<u16>,
    packets: KVec<Import>,
}

/// The packet that was begun last, to which copies are added.
///
/// # Invariants
///
/// The frames of the head and the pages are those of the last packet of `imports`, which has as many
/// bytes in its head as `head`, and in its pages as `pages` says.
pub struct Draft<'a> {
    imports: &'a mut Imports,
    /// The first frame of the head, where the head starts there, and how many bytes it has.
    first: usize,
    start: u32,
    head: u32,
    /// The frames of the pages, and how many bytes of each belong to the packet.
    pages: [(usize, u32); MOST_PAGES],
}

/// The packet was copied in part at most, or not as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

impl Imports {
    /// Makes room for `packets` packets of `domain`, which need `copies` copies at most. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(domain: u16, packets: u16, copies: usize) -> Result<Self> {
        Ok(Self {
            copies: CopyBatch::new(domain, copies)?,
            owners: KVec::with_capacity(copies, GFP_KERNEL)?,
            packets: KVec::with_capacity(packets.into(), GFP_KERNEL)?,
        })
    }

    /// How many packets have been begun.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none has been begun.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether another packet can be begun that needs so many copies.
    #[inline]
    pub fn has_room(&self, copies: usize) -> bool {
        self.packets.len() < self.packets.capacity() && self.copies.room() >= copies
    }

    /// Begins a packet with so many bytes in its head, and so many in pages behind it. [`None`] if there is
    /// no memory, or no room.
    #[inline]
    pub fn begin<P: Poll>(
        &mut self,
        napi: &Polling<'_, P>,
        pool: &mut PagePool<P>,
        head: u32,
        mut behind: u32,
    ) -> Option<Draft<'_>> {
        if self.packets.len() >= self.packets.capacity() {
            return None;
        }
        let missing = head.checked_add(behind)?;
        let mut packet = RxPacket::new(napi, head)?;
        let (first, start) = packet.put_room(head)?;
        let mut pages = [(0, 0); MOST_PAGES];
        for place in &mut pages {
            if behind == 0 {
                break;
            }
            // CAST: 4096.
            let length = behind.min(bindings::XEN_PAGE_SIZE as u32);
            let page = pool.alloc(napi)?;
            *place = (page.frame(), length);
            packet.add(page, 0, length).ok()?;
            behind -= length;
        }
        if behind > 0 {
            return None;
        }
        // There is room: see above.
        let _ = self
            .packets
            .push_within_capacity(Import { packet, missing });
        // INVARIANT: They were just found out of this packet, which is the last one as long as `self` is
        // borrowed.
        Some(Draft {
            imports: self,
            first,
            start,
            head,
            pages,
        })
    }

    /// Makes all copies, and then hands over the packets in the order in which they were begun.
    pub fn run(&mut self, mut each: impl FnMut(Result<RxPacket, Torn>)) {
        // SAFETY: `Draft` has checked that the copies go to the heads and pages of the packets, which are
        // alive in `packets`. They hold bytes only, and nobody else has seen them.
        unsafe { self.copies.run() };
        // Whatever Xen wrote to a packet of which a copy failed, it is dropped.
        const LOST: u32 = u32::MAX;
        for (owner, good) in self.owners.iter().zip(self.copies.results()) {
            if !good {
                if let Some(import) = self.packets.get_mut(usize::from(*owner)) {
                    import.missing = LOST;
                }
            }
        }
        self.copies.clear();
        self.owners.clear();
        for import in self.packets.drain_all() {
            each(if import.missing == 0 {
                Ok(import.packet)
            } else {
                Err(Torn)
            });
        }
    }
}

impl Draft<'_> {
    /// How far the head is behind the start of a frame, in bytes: no copy may leave a frame.
    #[inline]
    pub fn head_start(&self) -> u32 {
        self.start
    }

    /// Adds a copy of `length` bytes, which start `from` bytes behind the start of the frame that `gref`
    /// names, to a place of the packet; [`false`] if they do not lie in it, or in one frame of it, or there
    /// is no room for another copy.
    #[inline]
    #[must_use]
    pub fn copy(&mut self, gref: u32, from: u32, place: Place, length: u32) -> bool {
        // CAST: 4096.
        let size = bindings::XEN_PAGE_SIZE as u32;
        let target = match place {
            Place::Head(offset) => (offset.checked_add(length))
                .filter(|&end| end <= self.head)
                .and_then(|_| self.start.checked_add(offset))
                // CAST: `u32` fits into `usize` on every machine that runs Linux.
                .map(|at| (self.first + (at / size) as usize, at % size)),
            Place::Page(number, offset) => self.pages.get(number).and_then(|(pfn, used)| {
                let end = offset.checked_add(length)?;
                (end <= *used).then_some((*pfn, offset))
            }),
        };
        let Some((pfn, to)) = target else {
            return false;
        };
        if to.checked_add(length).is_none_or(|end| end > size) || from >= size {
            return false;
        }
        // CAST: Less than a frame, or as much.
        let (from, to, short) = (from as u16, to as u16, length as u16);
        let imports = &mut *self.imports;
        let Some(owner) = imports.packets.len().checked_sub(1) else {
            return false;
        };
        // CAST: There is room for no more than 65535 packets.
        if imports.owners.push_within_capacity(owner as u16).is_err() {
            return false;
        }
        if !imports.copies.push_import((gref, from), (pfn, to), short) {
            // As many copies as owners.
            imports.owners.pop();
            return false;
        }
        if let Some(import) = imports.packets.last_mut() {
            import.missing = import.missing.wrapping_sub(length);
        }
        true
    }
}
