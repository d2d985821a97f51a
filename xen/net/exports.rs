// SPDX-License-Identifier: GPL-2.0

//! Packets that Xen copies to frames of another domain.

use super::{
    packet::Cursor,
    TxPacket, //
};
use crate::{
    bindings,
    grant::CopyBatch, //
};
use kernel::prelude::*;

/// Packets that are being copied to frames of one domain, many by one hypercall.
pub struct Exports {
    copies: CopyBatch,
    /// The number of the frame that each copy is for.
    owners: KVec<u16>,
    /// Whether all copies to each frame were made, so far.
    frames: KVec<bool>,
    /// What is copied from. Longer alive than the copies that name it.
    packets: KVec<TxPacket>,
}

/// A packet whose bytes go to one frame after the other.
pub struct Export<'a> {
    exports: &'a mut Exports,
    cursor: Cursor<'a>,
}

impl Exports {
    /// Makes room for `packets` packets and as many as `frames` frames of `domain`; so many copies are
    /// made by one hypercall. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(domain: u16, packets: usize, frames: u16, copies: usize) -> Result<Self> {
        Ok(Self {
            copies: CopyBatch::new(domain, copies)?,
            owners: KVec::with_capacity(copies, GFP_KERNEL)?,
            frames: KVec::with_capacity(frames.into(), GFP_KERNEL)?,
            packets: KVec::with_capacity(packets, GFP_KERNEL)?,
        })
    }

    /// Whether there is room for another packet that needs so many frames.
    #[inline]
    pub fn has_room(&self, frames: usize) -> bool {
        self.packets.len() < self.packets.capacity()
            && self.frames.capacity() - self.frames.len() >= frames
    }

    /// How many copies have not been made yet.
    #[inline]
    pub fn copies(&self) -> usize {
        self.copies.len()
    }

    /// Has a packet copied as `fill` says. [`None`], and the packet is dropped, if there is no
    /// [room](Self::has_room).
    #[inline]
    pub fn add<R>(
        &mut self,
        packet: TxPacket,
        fill: impl FnOnce(&mut Export<'_>) -> R,
    ) -> Option<R> {
        if self.packets.len() >= self.packets.capacity() {
            return None;
        }
        let result = fill(&mut Export {
            exports: self,
            cursor: packet.start(),
        });
        // There is room, as nothing else adds packets.
        let _ = self.packets.push_within_capacity(packet);
        Some(result)
    }

    /// Makes the copies that have not been made yet.
    fn run(&mut self) {
        // SAFETY: The frames of this domain are those of packets that are in `packets` or borrowed by an
        // `Export`, and they are only read.
        unsafe { self.copies.run() };
        for (owner, good) in self.owners.iter().zip(self.copies.results()) {
            if !good {
                if let Some(frame) = self.frames.get_mut(usize::from(*owner)) {
                    *frame = false;
                }
            }
        }
        self.copies.clear();
        self.owners.clear();
    }

    /// Makes all copies, says of each frame in order whether it was filled, and lets the packets go.
    /// `budget` is that of [`Poll::poll`](super::Poll::poll), or 0 elsewhere.
    pub fn finish(&mut self, budget: u32, mut each: impl FnMut(bool)) {
        self.run();
        for filled in self.frames.drain_all() {
            each(filled);
        }
        for packet in self.packets.drain_all() {
            packet.sent(budget);
        }
    }
}

impl Export<'_> {
    /// Goes on with the next frame without copying anything to it; [`false`] if there is no room for one.
    #[inline]
    #[must_use]
    pub fn skip(&mut self) -> bool {
        self.exports.frames.push_within_capacity(true).is_ok()
    }

    /// Has the packet's next bytes copied to the next frame, the one that `gref` names, from `offset` on:
    /// as many as fit, `most` at most. Says how many they are.
    ///
    /// # Errors
    ///
    /// There is no room for another frame.
    #[inline]
    pub fn fill(&mut self, gref: u32, offset: u32, most: u32) -> Result<u32> {
        // CAST: 4096.
        let size = bindings::XEN_PAGE_SIZE as u32;
        // CAST: There is room for no more than 65535 frames.
        let owner = self.exports.frames.len() as u16;
        if !self.skip() {
            return Err(ENOSPC);
        }
        let most = most.min(size.saturating_sub(offset));
        let mut done = 0;
        while done < most {
            let Some((pfn, from, length)) = self.cursor.next(most - done) else {
                break;
            };
            if self.exports.copies.room() == 0 {
                self.exports.run();
            }
            // CAST: Each lies within a frame.
            let added = self.exports.copies.push_export(
                (pfn, from as u16),
                (gref, (offset + done) as u16),
                length as u16,
            );
            // There is room for both.
            if !added || self.exports.owners.push_within_capacity(owner).is_err() {
                return Err(ENOSPC);
            }
            done += length;
        }
        Ok(done)
    }
}
