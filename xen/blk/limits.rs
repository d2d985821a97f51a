// SPDX-License-Identifier: GPL-2.0

//! What a disk can do.

use crate::bindings;

/// How a disk forgets data.
#[derive(Clone, Copy, Debug)]
pub struct DiscardLimits {
    /// It forgets so many bytes at once or nothing; 0 if that is not known.
    pub granularity: u32,
    /// Where the first of these units begins, in bytes.
    pub alignment: u32,
    /// It can also forget so that nobody finds the data again.
    pub secure: bool,
}

/// Limits and features of a disk.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Smallest addressable unit, in bytes; a power of two.
    pub logical_block_size: u32,
    /// Smallest unit that is written without reading first, in bytes; a power of two.
    pub physical_block_size: u32,
    /// Most pieces of memory in a request.
    pub max_segments: u16,
    /// Largest piece of memory, in bytes, and the boundary that none may cross; a power of two.
    pub segment_size: u32,
    /// Largest request, in units of 512 bytes.
    pub max_sectors: u32,
    /// Has a volatile cache: flushes make sense.
    pub write_cache: bool,
    /// Can write past the cache.
    pub fua: bool,
    /// Can forget data.
    pub discard: Option<DiscardLimits>,
}

impl Limits {
    /// The limits of a new disk.
    pub(super) fn to_raw(self) -> bindings::queue_limits {
        let mut raw = bindings::queue_limits::default();
        self.update_raw(&mut raw);
        raw
    }

    /// Changes limits to these. What the user has set of them, and what the block layer has worked out
    /// by itself, stays for it to look at again.
    pub(super) fn update_raw(self, raw: &mut bindings::queue_limits) {
        raw.logical_block_size = self.logical_block_size;
        // Each piece of memory must be whole sectors, and a page's end may end it.
        raw.dma_alignment = self.logical_block_size.wrapping_sub(1);
        raw.physical_block_size = self.physical_block_size;
        raw.max_segments = self.max_segments;
        raw.max_segment_size = self.segment_size;
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        raw.seg_boundary_mask = self.segment_size.wrapping_sub(1) as usize;
        raw.max_hw_sectors = self.max_sectors;

        raw.features &= !(bindings::BLK_FEAT_WRITE_CACHE | bindings::BLK_FEAT_FUA);
        if self.write_cache {
            raw.features |= bindings::BLK_FEAT_WRITE_CACHE;
        }
        if self.fua {
            raw.features |= bindings::BLK_FEAT_FUA;
        }

        let discard = self.discard.unwrap_or(DiscardLimits {
            granularity: 0,
            alignment: 0,
            secure: false,
        });
        let most = |can: bool| if can { u32::MAX } else { 0 };
        raw.max_hw_discard_sectors = most(self.discard.is_some());
        raw.max_secure_erase_sectors = most(discard.secure);
        raw.discard_granularity = discard.granularity;
        raw.discard_alignment = discard.alignment;
    }
}
