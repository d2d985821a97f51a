// SPDX-License-Identifier: GPL-2.0

//! Pages that stay granted.

use super::{
    Access,
    BouncePage,
    Grant,
    Quota,
    Reserve,
    INVALID,
    TRIM_STEP, //
};
use kernel::prelude::*;

/// A page of a [`PersistentPool`]: another domain may use it all the time.
///
/// It never holds anything but what that domain is to see, or has written.
///
/// # Invariants
///
/// `grant` is there as long as anybody but the pool can see the value.
pub struct PersistentPage {
    grant: Option<Grant>,
    page: BouncePage,
}

impl PersistentPage {
    /// The reference to tell the other domain.
    #[inline]
    pub fn gref(&self) -> u32 {
        self.grant.as_ref().map_or(INVALID, Grant::gref)
    }

    /// The page, to copy out of.
    #[inline]
    pub fn page(&self) -> &BouncePage {
        &self.page
    }

    /// The page, to copy into.
    #[inline]
    pub fn page_mut(&mut self) -> &mut BouncePage {
        &mut self.page
    }
}

/// Pages of one queue that stay granted to the other end.
///
/// Granting and ending is saved for each use, and the other end may keep them mapped. In turn what they
/// are used for has to be copied. The page that was used last is used next, so that no more are in
/// use than need be; those left over are given back by [`trim`](Self::trim).
///
/// # Invariants
///
/// As many pages are in `pages` as are free by `quota`, and there is room for all that may be.
pub struct PersistentPool {
    pages: KVVec<PersistentPage>,
    quota: Quota,
    domain: u16,
    access: Access,
    stays_mapped: bool,
}

impl PersistentPool {
    /// Makes a pool that has `least` pages and will have up to `most`, granted to `domain`, which keeps
    /// pages mapped that are not in use if it `stays_mapped`. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOSPC` if `reserve` has not so many references.
    pub fn new(
        domain: u16,
        access: Access,
        stays_mapped: bool,
        (least, most): (u32, u32),
        reserve: &mut Reserve,
    ) -> Result<Self> {
        // Pages are given back where nothing can be allocated.
        let mut pool = Self {
            pages: KVVec::with_capacity(most.max(least) as usize, GFP_KERNEL)?,
            quota: Quota::new(least, most),
            domain,
            access,
            stays_mapped,
        };
        for _ in 0..least {
            let page = BouncePage::with_patience().ok_or(ENOMEM)?;
            let page = pool.granted(page, reserve).ok_or(ENOSPC)?;
            // INVARIANT: One more is in `pages`, and in the account.
            pool.pages.push(page, GFP_KERNEL)?;
            pool.quota.add(1);
        }
        Ok(pool)
    }

    fn granted(&self, page: BouncePage, reserve: &mut Reserve) -> Option<PersistentPage> {
        // INVARIANT: It is granted.
        Some(PersistentPage {
            grant: Some(reserve.grant(self.domain, &page, self.access)?),
            page,
        })
    }

    /// How many pages there are, in use or not.
    #[inline]
    pub fn owned(&self) -> u32 {
        self.quota.owned()
    }

    /// Whether there are more pages than there must be.
    #[inline]
    pub fn has_grown(&self) -> bool {
        self.quota.has_grown()
    }

    /// How many pages can be taken at most.
    #[inline]
    pub fn available(&self) -> u32 {
        self.quota.free().saturating_add(self.quota.room(u32::MAX))
    }

    /// Takes a page: one that is free, or a new one if there may be more, and if there are memory and
    /// a reference for it. Any context.
    #[inline]
    pub fn take(&mut self, reserve: &mut Reserve) -> Option<PersistentPage> {
        match self.pages.pop() {
            Some(page) => {
                // INVARIANT: One less is in `pages`.
                let _ = self.quota.lend();
                Some(page)
            }
            None => self.make(reserve),
        }
    }

    #[cold]
    fn make(&mut self, reserve: &mut Reserve) -> Option<PersistentPage> {
        if self.quota.room(1) == 0 {
            return None;
        }
        let page = self.granted(BouncePage::without_waiting()?, reserve)?;
        self.quota.add(1);
        // INVARIANT: The new one is not in `pages`.
        let _ = self.quota.lend();
        Some(page)
    }

    /// Gives a page back. Any context.
    #[inline]
    pub fn give(&mut self, page: PersistentPage) {
        // INVARIANT: One more is in `pages`. There is room, or the page is ended.
        match self.pages.push_within_capacity(page) {
            Ok(()) => self.quota.give_back(),
            Err(_) => self.quota.lose(),
        }
    }

    /// Frees pages that have not been needed since the last call and that the other end has not
    /// mapped, but not too many at once. `reserve` gets their references back, unless the other end
    /// keeps pages mapped: then the domain's table does. Any context.
    pub fn trim(&mut self, reserve: &mut Reserve) {
        let left_over = self.quota.left_over(TRIM_STEP);
        let _ = self.free(left_over, reserve);
    }

    /// Frees all pages that nobody uses, but for those that there must be: `reserve`, which is short of
    /// references, gets theirs back. Says whether there was one. If the other end keeps pages mapped
    /// there is none. Any context.
    #[cold]
    pub fn yield_to(&mut self, reserve: &mut Reserve) -> bool {
        if self.stays_mapped {
            return false;
        }
        let spare = self.quota.owned().saturating_sub(self.quota.least());
        self.free(spare.min(self.quota.free()), reserve) > 0
    }

    /// Frees up to `most` pages. Says how many it were.
    fn free(&mut self, most: u32, reserve: &mut Reserve) -> u32 {
        let mut left = most;
        let mut freed = 0;
        let quota = &mut self.quota;
        let stays_mapped = self.stays_mapped;
        // Those that have not been used for longest are at the beginning.
        self.pages.retain(|page| {
            if left == 0 {
                return true;
            }
            left -= 1;
            // INVARIANT: The page is removed if its grant is.
            let grant = page.grant.take();
            page.grant = grant.and_then(|grant| {
                if stays_mapped {
                    // This one does not complain of a page that is mapped.
                    grant.try_end().inspect(|()| reserve.forgo()).err()
                } else {
                    reserve.try_end(grant).err()
                }
            });
            if page.grant.is_some() {
                if !stays_mapped {
                    // The other end should not have it mapped: one line in the log for it will do.
                    left = 0;
                }
                return true;
            }
            // INVARIANT: One less is in `pages`.
            quota.drop_free();
            freed += 1;
            false
        });
        freed
    }
}
