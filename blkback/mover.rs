// SPDX-License-Identifier: GPL-2.0

//! How data gets from the frontend's memory to the block device and back.
//!
//! | way         | when                                          | what it costs                     |
//! |-------------|-----------------------------------------------|-----------------------------------|
//! | stay mapped | the frontend offers persistent grants         | nothing, after the first time     |
//! | copy        | it does not, and there are few segments       | one hypercall, and the copying    |
//! | map         | it does not, and there are many               | two hypercalls, and a TLB flush   |
//!
//! If this domain has as many frames mapped as Xen lets it, everything else is copied: that takes none.

use crate::{
    job::Job,
    persistent::{
        Lookup,
        Mapped,
        Persistent, //
    },
    pressure,
    statistics::Counters,
    COPY_THRESHOLD,
    MAX_BUFFER_PAGES,
    MAX_PERSISTENT_GRANTS,
    PERSISTENT_GRANT_UNUSED_SECONDS, //
};
use kernel::prelude::*;
use xen::{
    blk::bio::{
        Buffer,
        Part,
        Transfer, //
    },
    grant::{
        Access,
        BouncePage,
        BouncePool,
        Copier,
        Copy,
        Direction,
        MapError,
        Mapper,
        Mapping, //
    },
    io::blkif::{
        back::{
            self,
            SEGMENTS_OF_FRAME,
            SEGMENT_SIZE, //
        },
        Segment,
        FRAME_SIZE, //
    },
};

/// Pages for copies that a ring has from the beginning, so that it can go on when there is no memory;
/// and how many it keeps.
const LEAST_COPY_PAGES: u32 = 2;
const MOST_COPY_PAGES: u32 = 512;

/// Most segments of a request, which the frontend is told.
pub(crate) const MAX_SEGMENTS: usize = xen::blk::bio::MAX_PARTS;

/// Why data cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Something is used up that others will give back.
    Short,
    /// The frontend's memory cannot be used.
    Refused { gref: u32, status: i16 },
}

impl From<MapError> for Trouble {
    fn from(error: MapError) -> Self {
        match error {
            MapError::NoMemory | MapError::NoSpace => Self::Short,
            MapError::Refused { gref, status } => Self::Refused { gref, status },
        }
    }
}

impl From<kernel::alloc::AllocError> for Trouble {
    fn from(_: kernel::alloc::AllocError) -> Self {
        Self::Short
    }
}

impl Mapped for Mapping {
    fn gref(&self) -> u32 {
        self.gref()
    }
}

/// Moves the data of one ring.
pub(crate) struct Mover {
    mapper: Mapper,
    copier: Copier,
    pool: BouncePool,
    persistent: Option<Persistent<Mapping>>,
    /// Frames that a request has already, in the order of its segments.
    found: KVec<Option<Mapping>>,
    /// References of those that it has not.
    missing: KVec<u32>,
    /// Frames that have just been mapped.
    fresh: KVec<Mapping>,
    /// Frames to be unmapped.
    returned: KVec<Mapping>,
    /// Nobody is going to give pages back: waiting for memory holds up no one.
    alone: bool,
}

impl Mover {
    /// Makes one for the memory of `domain`.
    pub(crate) fn new(domain: u16, persistent: bool) -> Result<Self> {
        Ok(Self {
            mapper: Mapper::new(domain)?,
            copier: Copier::new(domain)?,
            pool: BouncePool::new(LEAST_COPY_PAGES, MOST_COPY_PAGES)?,
            persistent: persistent.then(Persistent::new),
            found: KVec::new(),
            missing: KVec::new(),
            fresh: KVec::new(),
            returned: KVec::new(),
            alone: true,
        })
    }

    /// How many frames stay mapped, and how many may.
    pub(crate) fn persistent(&self) -> (usize, usize) {
        let count = self.persistent.as_ref().map_or(0, Persistent::count);
        (count, crate::features::limit(MAX_PERSISTENT_GRANTS.get()))
    }

    /// Whether it holds anything that need not be kept for ever.
    pub(crate) fn has_spare(&self) -> bool {
        self.mapper.spare() > 0 || self.persistent().0 > 0 || self.pool.has_grown()
    }

    /// Takes note of whether nothing else of this ring has pages. A request then waits for memory;
    /// otherwise there is none for now, and it can be tried again when others are done.
    pub(crate) fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    fn take_page(&mut self) -> Option<BouncePage> {
        if self.alone {
            self.pool.take_waiting()
        } else {
            self.pool.take()
        }
    }

    /// Fetches the descriptors of an indirect request.
    pub(crate) fn segments(
        &mut self,
        count: usize,
        grefs: &[u32],
    ) -> Result<KVec<Segment>, Trouble> {
        let mut segments = KVec::with_capacity(count, GFP_KERNEL)?;
        let page = self.take_page().ok_or(Trouble::Short)?;
        let mut result = Ok(());
        for gref in grefs {
            let left = (count - segments.len()).min(SEGMENTS_OF_FRAME);
            if left == 0 {
                break;
            }
            // CAST: At most a frame.
            let length = (left * SEGMENT_SIZE) as u32;
            let copy = Copy {
                gref: *gref,
                page: &page,
                offset: 0,
                length,
            };
            if let Err(error) = self.copier.copy(Direction::FromGrant, [copy]) {
                result = Err(Trouble::Refused {
                    gref: error.gref,
                    status: error.status,
                });
                break;
            }
            for index in 0..left {
                let mut bytes = [0; SEGMENT_SIZE];
                if !page.read(index * SEGMENT_SIZE, &mut bytes) {
                    break;
                }
                for segment in back::segments(&bytes) {
                    // There is room for `count`.
                    let _ = segments.push_within_capacity(segment);
                }
            }
        }
        self.pool.give(page);
        result.map(|()| segments)
    }

    /// Gives a transfer its memory: one part for each segment, with the data in it if it is to be
    /// written. Every segment has been found to lie in its frame.
    pub(crate) fn load(
        &mut self,
        transfer: &mut Transfer<Job>,
        segments: &[Segment],
        writes: bool,
        now: u64,
        counters: &Counters,
    ) -> Result<(), Trouble> {
        let mapped = match self.persistent.take() {
            Some(mut persistent) => {
                let result =
                    self.load_persistent(transfer, segments, now, &mut persistent, counters);
                self.persistent = Some(persistent);
                result
            }
            None if segments.len() <= COPY_THRESHOLD.get() as usize => Err(MapError::NoSpace),
            None if pressure::on_maptrack(now) => Err(MapError::NoSpace),
            None => self.load_mapped(transfer, segments, writes, now, counters),
        };
        match mapped {
            Ok(()) => Ok(()),
            // It takes no room to copy.
            Err(MapError::NoSpace) => self.load_copies(transfer, segments, writes, counters),
            Err(error) => Err(error.into()),
        }
    }

    fn load_persistent(
        &mut self,
        transfer: &mut Transfer<Job>,
        segments: &[Segment],
        now: u64,
        persistent: &mut Persistent<Mapping>,
        counters: &Counters,
    ) -> Result<(), MapError> {
        self.found.clear();
        self.missing.clear();
        let room = self
            .found
            .reserve(segments.len(), GFP_KERNEL)
            .and_then(|()| self.missing.reserve(segments.len(), GFP_KERNEL));
        room.map_err(|_| MapError::NoMemory)?;
        for segment in segments {
            let found = match persistent.take(segment.gref) {
                Lookup::Mapped(mapping) => Some(mapping),
                Lookup::InUse | Lookup::Unknown => None,
            };
            if found.is_none() {
                let _ = self.missing.push_within_capacity(segment.gref);
            }
            let _ = self.found.push_within_capacity(found);
        }
        let missing = self.missing.iter().copied();
        // With frames that stay, nobody knows what they will be used for next.
        if let Err(error) = self.mapper.map(missing, Access::ReadWrite, &mut self.fresh) {
            for mapping in self.found.drain_all().flatten() {
                if let Err(mapping) = persistent.give_back(mapping, now) {
                    give(&mut self.returned, mapping);
                }
            }
            if error == MapError::NoSpace {
                pressure::maptrack(now);
                // Room for others, at the cost of mapping again what is used again.
                persistent.clear(&mut self.returned);
                self.mapper.unmap(&mut self.returned);
            }
            return Err(error);
        }
        counters.mapped_seg.add(self.fresh.len() as u64);
        counters
            .persistent_seg
            .add((segments.len() - self.fresh.len()) as u64);
        let most = if pressure::on_maptrack(now) {
            0
        } else {
            crate::features::limit(MAX_PERSISTENT_GRANTS.get())
        };
        let mut fresh = self.fresh.drain_all();
        for (segment, found) in segments.iter().zip(self.found.drain_all()) {
            let (mapping, keep) = match found {
                Some(mapping) => (Some(mapping), true),
                None => {
                    let mapping = fresh.next();
                    let keep = persistent.adopt(segment.gref, most, now);
                    (mapping, keep)
                }
            };
            if let Some(mapping) = mapping {
                push(transfer, segment, Buffer::Mapped(mapping), keep);
            }
        }
        Ok(())
    }

    fn load_mapped(
        &mut self,
        transfer: &mut Transfer<Job>,
        segments: &[Segment],
        writes: bool,
        now: u64,
        counters: &Counters,
    ) -> Result<(), MapError> {
        let access = if writes {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let grefs = segments.iter().map(|segment| segment.gref);
        self.mapper
            .map(grefs, access, &mut self.fresh)
            .inspect_err(|error| {
                if *error == MapError::NoSpace {
                    pressure::maptrack(now);
                }
            })?;
        counters.mapped_seg.add(segments.len() as u64);
        for (segment, mapping) in segments.iter().zip(self.fresh.drain_all()) {
            push(transfer, segment, Buffer::Mapped(mapping), false);
        }
        Ok(())
    }

    fn load_copies(
        &mut self,
        transfer: &mut Transfer<Job>,
        segments: &[Segment],
        writes: bool,
        counters: &Counters,
    ) -> Result<(), Trouble> {
        for segment in segments {
            match self.take_page() {
                Some(page) => push(transfer, segment, Buffer::Own(page), false),
                None => {
                    self.give_pages_back(transfer);
                    return Err(Trouble::Short);
                }
            }
        }
        counters.copied_seg.add(segments.len() as u64);
        if writes {
            if let Err(trouble) = self.copy([&*transfer], Direction::FromGrant) {
                self.give_pages_back(transfer);
                return Err(trouble);
            }
        }
        Ok(())
    }

    fn copy<'a>(
        &mut self,
        transfers: impl IntoIterator<Item = &'a Transfer<Job>>,
        direction: Direction,
    ) -> Result<(), Trouble> {
        // All parts of a transfer are of the same kind.
        let is_own = |transfer: &&Transfer<Job>| {
            let first = transfer.parts.first();
            matches!(first.map(|part| &part.buffer), Some(Buffer::Own(_)))
        };
        let transfers = transfers.into_iter().filter(is_own);
        let parts = transfers.flat_map(|transfer| &transfer.parts);
        let copies = parts.filter_map(|part| match &part.buffer {
            Buffer::Own(page) => Some(Copy {
                gref: part.gref,
                page,
                offset: part.offset,
                length: part.length,
            }),
            Buffer::Mapped(_) => None,
        });
        self.copier
            .copy(direction, copies)
            .map_err(|error| Trouble::Refused {
                gref: error.gref,
                status: error.status,
            })
    }

    fn give_pages_back(&mut self, transfer: &mut Transfer<Job>) {
        for part in transfer.parts.drain_all() {
            if let Buffer::Own(page) = part.buffer {
                self.pool.give(page);
            }
        }
    }

    /// Brings what these transfers have read to the frontend. With an error, it is not known what of
    /// it has arrived; it may be brought again.
    pub(crate) fn deliver<'a>(
        &mut self,
        transfers: impl IntoIterator<Item = &'a Transfer<Job>>,
    ) -> Result<(), Trouble> {
        self.copy(transfers, Direction::ToGrant)
    }

    /// Takes the memory back of a transfer that is done. What is mapped will be unmapped by
    /// [`unmap_returned`](Self::unmap_returned).
    pub(crate) fn unload(&mut self, transfer: &mut Transfer<Job>, now: u64) {
        for part in transfer.parts.drain_all() {
            match part.buffer {
                // Somebody may still be sending it.
                Buffer::Own(page) if page.is_shared() => {
                    self.pool.forgo();
                    drop(page);
                }
                Buffer::Own(page) => self.pool.give(page),
                Buffer::Mapped(mapping) => {
                    let kept = match (&mut self.persistent, part.keep) {
                        (Some(persistent), true) => persistent.give_back(mapping, now),
                        _ => Err(mapping),
                    };
                    if let Err(mapping) = kept {
                        give(&mut self.returned, mapping);
                    }
                }
            }
        }
    }

    /// Unmaps what has been taken back.
    pub(crate) fn unmap_returned(&mut self) {
        self.mapper.unmap(&mut self.returned);
    }

    /// Gives up what has not been used for long, what is too much, and what others need more. `before`
    /// is when this was last done; `idle` says that there were no requests since then.
    pub(crate) fn tidy(&mut self, before: u64, now: u64, idle: bool) {
        if let Some(persistent) = &mut self.persistent {
            let timeout = u64::from(PERSISTENT_GRANT_UNUSED_SECONDS.get()) * 1000;
            let unused_since = (timeout > 0).then(|| now.saturating_sub(timeout));
            let most = crate::features::limit(MAX_PERSISTENT_GRANTS.get());
            if pressure::on_maptrack(now) {
                persistent.clear(&mut self.returned);
            } else {
                persistent.expire(unused_since, most, &mut self.returned);
            }
            self.mapper.unmap(&mut self.returned);
        }
        let mut most = crate::features::limit(MAX_BUFFER_PAGES.get());
        if idle {
            most = most.min(self.mapper.spare() / 2);
        }
        if pressure::on_memory(before, now) {
            most = 0;
        }
        self.mapper.shrink(most);
        self.pool.shrink(most);
    }

    /// Unmaps everything.
    pub(crate) fn clear(&mut self) {
        if let Some(persistent) = &mut self.persistent {
            persistent.clear(&mut self.returned);
        }
        self.unmap_returned();
    }
}

/// Puts a mapping in line to be unmapped. If there is no memory for that, it is unmapped by itself.
fn give(returned: &mut KVec<Mapping>, mapping: Mapping) {
    if let Err(error) = returned.reserve(1, GFP_KERNEL) {
        let _ = error;
        drop(mapping);
        return;
    }
    let _ = returned.push_within_capacity(mapping);
}

/// Adds a part for a segment, for which there is room.
fn push(transfer: &mut Transfer<Job>, segment: &Segment, buffer: Buffer, keep: bool) {
    let (offset, length) = segment.span().unwrap_or((0, FRAME_SIZE));
    let part = Part {
        buffer,
        offset,
        length,
        gref: segment.gref,
        keep,
    };
    // A part that did not find its place would be missing, and the transfer be refused for that; it
    // was made with room for all.
    let _ = transfer.parts.push_within_capacity(part);
}
