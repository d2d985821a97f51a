// SPDX-License-Identifier: GPL-2.0

//! Memory that the backend may use for a request.
//!
//! That is the request's own memory, or pages in its place into or out of which the data is copied:
//!
//! | the backend …       | memory                 | what is granted, and until when                |
//! |---------------------|------------------------|------------------------------------------------|
//! | is trusted          | that can be held       | itself, until the response                     |
//! | is trusted          | of slabs               | a bounce page, until the response              |
//! | is not trusted      | any                    | a bounce page, until the response              |
//! | may be given up     | that is read into      | a bounce page, until the response              |
//! | keeps pages mapped  | any                    | a persistent page, all the time                |

use crate::{
    command::Message,
    stats::Stats,
    Blkfront, //
};
use core::mem::size_of;
use kernel::prelude::*;
use xen::{
    blk::mq::{
        Memory,
        Request, //
    },
    grant::{
        Access,
        BouncePage,
        BouncePool,
        Grant,
        PersistentPage,
        PersistentPool,
        Reserve,
        StillMapped,
        WritableFrame, //
    },
    io::blkif::{
        self,
        Operation,
        Segment, //
    },
};

/// Most bounce pages that a ring has, unless one request needs more.
const MOST_BOUNCE_PAGES: u32 = 4096;

/// What a ring's requests are to be lent, in numbers.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Segments of a request.
    pub(crate) segments: u32,
    /// Requests at once.
    pub(crate) requests: u32,
    /// The backend keeps pages mapped, see the table above.
    pub(crate) persistent: bool,
    /// Most pages that stay granted, unless one request needs more.
    pub(crate) most_persistent: u32,
    /// The backend is to see nothing but the data.
    pub(crate) untrusted: bool,
    /// Requests may end although the backend has not answered: it is to write to no memory of theirs.
    pub(crate) impatient: bool,
    /// The backend's domain.
    pub(crate) domain: u16,
}

impl Needs {
    /// Frames that list the segments of the largest request.
    pub(crate) fn frames(&self) -> u32 {
        // CAST: At most 8.
        blkif::indirect_frames(self.segments as usize) as u32
    }
}

/// Why memory could not be lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// There is no reference or no page left.
    Short,
    /// It does not fit.
    Unsuitable,
}

/// Where references and pages come from.
///
/// One request's worth is set aside from the beginning. Since a request gives back what it was lent
/// when it ends, a ring can always make progress, whatever other rings and devices use up.
pub(crate) struct Lender {
    reserve: Reserve,
    bounce: BouncePool,
    /// Pages that stay granted: for data if the backend keeps pages mapped, and for the lists of
    /// segments of indirect requests in any case.
    kept: PersistentPool,
    persistent: bool,
    untrusted: bool,
    impatient: bool,
    domain: u16,
}

impl Lender {
    /// Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` if there are not enough grant references for a single request.
    pub(crate) fn new(needs: Needs) -> Result<Self> {
        let frames = needs.frames();
        let each = needs.segments.saturating_add(frames);
        let most = each.saturating_mul(needs.requests);
        // CAST: At most 4104.
        let mut reserve = Reserve::new(each as u16, most)?;
        let (bounce, kept) = if needs.persistent {
            let most = needs.most_persistent.min(most);
            let kept = PersistentPool::new(
                needs.domain,
                // The backend maps pages before it knows what they are for.
                Access::ReadWrite,
                true,
                (each, most),
                &mut reserve,
            )?;
            (BouncePool::new(0, 0)?, kept)
        } else {
            let kept = PersistentPool::new(
                needs.domain,
                Access::ReadOnly,
                false,
                (frames, frames.saturating_mul(needs.requests)),
                &mut reserve,
            )?;
            let most = needs.segments.saturating_mul(needs.requests);
            (
                BouncePool::new(needs.segments, most.min(MOST_BOUNCE_PAGES))?,
                kept,
            )
        };
        Ok(Self {
            reserve,
            bounce,
            kept,
            persistent: needs.persistent,
            untrusted: needs.untrusted,
            impatient: needs.impatient,
            domain: needs.domain,
        })
    }

    /// Whether there may be enough pages that stay granted for a message.
    #[inline]
    fn kept_for(&self, message: &Message) -> bool {
        message.segments.saturating_add(message.frames) <= self.kept.available() as usize
    }

    /// Whether it has more than what was set aside.
    #[inline]
    pub(crate) fn has_grown(&self) -> bool {
        self.reserve.has_grown() || self.bounce.has_grown() || self.kept.has_grown()
    }

    /// Gives back what has not been needed since the last call.
    pub(crate) fn trim(&mut self) {
        self.bounce.trim();
        self.kept.trim(&mut self.reserve);
        self.reserve.trim();
    }

    /// Grant references it has, in use or not.
    pub(crate) fn references(&self) -> u32 {
        self.reserve.owned()
    }

    /// Pages that stay granted, in use or not.
    pub(crate) fn kept_pages(&self) -> u32 {
        self.kept.owned()
    }

    #[inline]
    fn lend(&mut self, memory: &Memory<'_>, read: bool, stats: &mut Stats) -> Option<Lent> {
        if self.persistent {
            let mut page = self.kept.take(&mut self.reserve)?;
            if !read {
                memory.copy_to(page.page_mut());
            }
            stats.persistent += 1;
            return Some(Lent::Persistent(page));
        }
        let access = if read {
            Access::ReadWrite
        } else {
            Access::ReadOnly
        };
        let bounces = self.untrusted || read && self.impatient;
        let held = if bounces { None } else { memory.held() };
        if let Some(held) = held {
            return Some(Lent::Own(Some(self.grant(&held, access)?)));
        }
        let mut page = self.bounce.take()?;
        if !read {
            memory.copy_to(&mut page);
        }
        match self.grant(&page, access) {
            Some(grant) => {
                stats.bounced += 1;
                Some(Lent::Bounce(Some(grant), page))
            }
            None => {
                self.bounce.give(page);
                None
            }
        }
    }
}

impl Lender {
    #[inline]
    fn grant(&mut self, frame: &impl WritableFrame, access: Access) -> Option<Grant> {
        if let Some(grant) = self.reserve.grant(self.domain, frame, access) {
            return Some(grant);
        }
        // Frames that wait for large requests have references that were set aside for any.
        if !self.kept.yield_to(&mut self.reserve) {
            return None;
        }
        self.reserve.grant(self.domain, frame, access)
    }
}

/// A piece of a request's memory that the backend may use. A grant that is missing has ended.
enum Lent {
    /// The memory itself.
    Own(Option<Grant>),
    /// A page in its place.
    Bounce(Option<Grant>, BouncePage),
    /// A page in its place that stays granted.
    Persistent(PersistentPage),
}

impl Lent {
    fn gref(&self) -> Option<u32> {
        match self {
            Self::Own(grant) | Self::Bounce(grant, _) => grant.as_ref().map(Grant::gref),
            Self::Persistent(page) => Some(page.gref()),
        }
    }
}

/// What a request that is sent to the backend has been lent. It is used for one request after the
/// other, so that nothing has to be allocated.
pub(crate) struct Loan {
    pieces: KVVec<Lent>,
    /// Lists of the segments of an indirect request.
    frames: KVVec<PersistentPage>,
}

impl Loan {
    /// A loan with room for what the largest request needs. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(needs: Needs) -> Result<Self> {
        Ok(Self {
            pieces: KVVec::with_capacity(needs.segments as usize, GFP_KERNEL)?,
            frames: KVVec::with_capacity(needs.frames() as usize, GFP_KERNEL)?,
        })
    }

    /// How many segments it has.
    pub(crate) fn segments(&self) -> usize {
        self.pieces.len()
    }

    /// Lends what a message is about, piece by piece. Each segment is handed to `wire` if it is part of
    /// the request on the ring, or written into a frame.
    fn fill(
        &mut self,
        lender: &mut Lender,
        request: &Request<Blkfront>,
        message: &Message,
        stats: &mut Stats,
        wire: &mut blkif::Request,
    ) -> Result<(), Problem> {
        if lender.persistent && !lender.kept_for(message) {
            // Nothing is copied in vain.
            return Err(Problem::Short);
        }
        for _ in 0..message.frames {
            let frame = lender
                .kept
                .take(&mut lender.reserve)
                .ok_or(Problem::Short)?;
            self.frames
                .push_within_capacity(frame)
                .map_err(|_| Problem::Unsuitable)?;
        }
        let (skip, length) = message.window;
        let read = message.operation == Operation::Read;
        for memory in request.memory(skip, length) {
            let lent = lender.lend(&memory, read, stats).ok_or(Problem::Short)?;
            let gref = lent.gref().ok_or(Problem::Short)?;
            let index = self.pieces.len();
            self.pieces
                .push_within_capacity(lent)
                .map_err(|_| Problem::Unsuitable)?;
            let segment =
                Segment::new(gref, memory.offset(), memory.length()).ok_or(Problem::Unsuitable)?;
            let written = if message.frames == 0 {
                wire.push_segment(segment)
            } else {
                let place = index % blkif::SEGMENTS_PER_FRAME * size_of::<Segment>();
                self.frames
                    .get_mut(index / blkif::SEGMENTS_PER_FRAME)
                    .is_some_and(|frame| frame.page_mut().write(place, &segment.to_bytes()))
            };
            if !written {
                return Err(Problem::Unsuitable);
            }
        }
        Ok(())
    }

    /// Ends the backend's access to all pieces that do not stay granted. All of them, even if it
    /// turns out to have one still mapped; then there is nothing to [copy out](Self::copy_out).
    #[inline]
    pub(crate) fn end(&mut self, lender: &mut Lender) -> Result<(), StillMapped> {
        let mut result = Ok(());
        for lent in self.pieces.iter_mut() {
            let (Lent::Own(grant) | Lent::Bounce(grant, _)) = lent else {
                continue;
            };
            let Some(grant) = grant.take() else {
                continue;
            };
            if let Err(still) = lender.reserve.end(grant) {
                result = Err(still);
                // The page is not to be used again.
                if let Lent::Bounce(..) = core::mem::replace(lent, Lent::Own(None)) {
                    lender.bounce.forgo();
                }
            }
        }
        result
    }

    /// Copies what was read from the pages where it is to the request's memory, and says how many those
    /// are. To be called when the backend has answered, and cannot change it any more or has no
    /// reason to.
    #[inline]
    pub(crate) fn copy_out(&self, request: &Request<Blkfront>) -> usize {
        // Either all pieces are in place or there are pages among them.
        if self.pieces.iter().all(|lent| matches!(lent, Lent::Own(_))) {
            return 0;
        }
        let (skip, length) = request.data().window();
        for (memory, lent) in request.memory(skip, length).zip(&self.pieces) {
            match lent {
                Lent::Own(_) => {}
                Lent::Bounce(_, page) => memory.copy_from(page),
                Lent::Persistent(page) => memory.copy_from(page.page()),
            }
        }
        self.pieces.len()
    }

    /// Ends the backend's access to the request's own memory where it has not mapped it, and says
    /// whether it cannot write to any of it any more. What else it may have mapped is no part of the
    /// request, and what it can only read does no harm.
    pub(crate) fn try_end(&mut self) -> bool {
        let mut all = true;
        for lent in self.pieces.iter_mut() {
            if let Lent::Own(grant) = lent {
                *grant = grant.take().and_then(|grant| grant.try_end().err());
                all &= grant
                    .as_ref()
                    .is_none_or(|grant| grant.access() == Access::ReadOnly);
            }
        }
        all
    }

    /// Gives the pages back. A grant that is left is parked.
    #[inline]
    pub(crate) fn clear(&mut self, lender: &mut Lender) {
        while let Some(lent) = self.pieces.pop() {
            match lent {
                Lent::Own(None) => {}
                Lent::Own(Some(grant)) => {
                    drop(grant);
                    lender.reserve.forgo();
                }
                Lent::Bounce(None, page) => lender.bounce.give(page),
                // Not to be used again while it may be mapped.
                Lent::Bounce(Some(grant), page) => {
                    drop(grant);
                    drop(page);
                    lender.reserve.forgo();
                    lender.bounce.forgo();
                }
                Lent::Persistent(page) => lender.kept.give(page),
            }
        }
        while let Some(frame) = self.frames.pop() {
            lender.kept.give(frame);
        }
    }

    /// Gives everything back that no backend has been told of.
    ///
    /// # Errors
    ///
    /// The backend has mapped some of it all the same.
    pub(crate) fn withdraw(&mut self, lender: &mut Lender) -> Result<(), StillMapped> {
        let ended = self.end(lender);
        self.clear(lender);
        ended
    }
}

impl Message {
    /// Lends what it is about to the backend, and says what to write on the ring. `id` and `handle` are
    /// the request's number there and the disk's.
    pub(crate) fn fill(
        &self,
        loan: &mut Loan,
        lender: &mut Lender,
        request: &Request<Blkfront>,
        (id, handle): (u64, u16),
        stats: &mut Stats,
    ) -> Result<blkif::Request, Problem> {
        let (skip, length) = self.window;
        let sectors = |bytes: u32| u64::from(bytes / blkif::SECTOR_SIZE);
        let sector = request.sector().wrapping_add(sectors(skip));
        if self.operation == Operation::Discard {
            let wire = blkif::Request::discard(id, sector, sectors(length), self.secure);
            return Ok(wire);
        }
        let mut wire = blkif::Request::new(self.operation, handle, id, sector);
        if length > 0 {
            loan.fill(lender, request, self, stats, &mut wire)?;
        }
        if self.frames == 0 {
            return Ok(wire);
        }
        // There may be one frame more than it takes, if pieces turned out to touch.
        let frames = loan.pieces.len().div_ceil(blkif::SEGMENTS_PER_FRAME);
        let grefs = loan.frames.iter().map(PersistentPage::gref).take(frames);
        let write = self.operation == Operation::Write;
        blkif::Request::indirect(write, handle, id, sector, loan.pieces.len(), grefs)
            .ok_or(Problem::Unsuitable)
    }
}
