// SPDX-License-Identifier: GPL-2.0

//! What a disk can do.

use crate::bindings;

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
}

impl Limits {
    /// Changes what can change while a disk is in use: the sizes of its sectors, and the features.
    pub(super) fn update_raw(self, raw: &mut bindings::queue_limits) {
        raw.logical_block_size = self.logical_block_size;
        raw.physical_block_size = self.physical_block_size;
        raw.features &= !(bindings::BLK_FEAT_WRITE_CACHE | bindings::BLK_FEAT_FUA);
        self.add_features(raw);
    }

    fn add_features(self, raw: &mut bindings::queue_limits) {
        if self.write_cache {
            raw.features |= bindings::BLK_FEAT_WRITE_CACHE;
        }
        if self.fua {
            raw.features |= bindings::BLK_FEAT_FUA;
        }
    }

    pub(super) fn to_raw(self) -> bindings::queue_limits {
        let mut raw = bindings::queue_limits {
            logical_block_size: self.logical_block_size,
            physical_block_size: self.physical_block_size,
            max_segments: self.max_segments,
            max_segment_size: self.segment_size,
            // CAST: `u32` fits into `usize` on every machine that runs Linux.
            seg_boundary_mask: self.segment_size.wrapping_sub(1) as usize,
            max_hw_sectors: self.max_sectors,
            // Positions in memory must be those of whole sectors of 512 bytes.
            dma_alignment: 511,
            ..Default::default()
        };
        self.add_features(&mut raw);
        raw
    }
}
