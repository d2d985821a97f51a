// SPDX-License-Identifier: GPL-2.0

//! The requests in flight on a ring, and what the backend may see of their memory.

use crate::{
    fault::Failure,
    features::{
        Terms,
        DIRECT_SEGMENTS, //
    },
    loan::{
        Lender,
        Loan,
        Needs, //
    },
    stats::Gauges,
    Blkfront, //
};
use kernel::prelude::*;
use xen::blk::mq::{
    Request,
    Status, //
};

/// A request in flight, if there is one.
pub(crate) struct Place {
    // Dropped first: the backend's access ends before the request does.
    pub(crate) loan: Loan,
    pub(crate) request: Option<Request<Blkfront>>,
}

/// What an open ring has for its requests.
///
/// Requests that are still in flight when it is dropped end with an error.
pub(crate) struct Traffic {
    pub(crate) places: KVVec<Place>,
    pub(crate) lender: Lender,
    /// What requests may be like. The backend may turn out not to do what it offered.
    pub(crate) terms: Terms,
}

impl Traffic {
    /// For a ring with so many places for requests. If there are too few grant references for a request
    /// as large as the terms allow, requests go in smaller parts. Process context.
    pub(crate) fn new(mut needs: Needs, places: usize, mut terms: Terms) -> Result<Self, Failure> {
        let lender = match Lender::new(needs) {
            Err(errno) if errno == ENOSPC && terms.segments > DIRECT_SEGMENTS => {
                terms.segments = DIRECT_SEGMENTS;
                needs.segments = DIRECT_SEGMENTS;
                Lender::new(needs)
            }
            lender => lender,
        }
        .map_err(|errno| Failure::Errno("setting grant references and pages aside", errno))?;
        let mut list = KVVec::with_capacity(places, GFP_KERNEL)?;
        for _ in 0..places {
            let place = Place {
                loan: Loan::new(needs)
                    .map_err(|errno| Failure::Errno("allocating a ring's requests", errno))?,
                request: None,
            };
            list.push(place, GFP_KERNEL)?;
        }
        Ok(Self {
            places: list,
            lender,
            terms,
        })
    }

    /// How many segments a request has at most.
    pub(crate) fn segments(&self) -> u32 {
        self.terms.segments
    }

    /// Ends those requests with an error whose memory the backend has not mapped any more. Says how
    /// many are left.
    pub(crate) fn fail_unmapped(&mut self) -> usize {
        let mut left = 0;
        for Place { loan, request } in self.places.iter_mut() {
            if request.is_some() && !loan.try_end() {
                left += 1;
            } else if let Some(request) = request.take() {
                loan.clear(&mut self.lender);
                request.end(Status::IoError);
            }
        }
        left
    }

    /// Gives the requests in flight back to the block layer, to be sent again. The backend that had them is no
    /// more, and so is whatever it had mapped.
    pub(crate) fn give_back(&mut self) {
        for place in self.places.iter_mut() {
            if let Some(mut request) = place.request.take() {
                place.loan.try_end();
                place.loan.clear(&mut self.lender);
                request.data_mut().start_over();
                request.requeue();
            }
        }
    }

    /// What it has at this moment.
    pub(crate) fn gauges(&self) -> Gauges {
        let in_flight = self.places.iter().filter(|p| p.request.is_some()).count();
        Gauges {
            in_flight: in_flight as u64,
            references: self.lender.references().into(),
            granted_pages: self.lender.kept_pages().into(),
        }
    }

    /// What remains when the requests that are left end with an error.
    pub(crate) fn into_remains(self) -> Remains {
        let Self {
            mut places,
            mut lender,
            ..
        } = self;
        for Place { loan, request } in places.iter_mut() {
            loan.clear(&mut lender);
            if let Some(request) = request.take() {
                request.end(Status::IoError);
            }
        }
        Remains { _lender: lender }
    }
}

/// What a closed ring leaves: pages that stay granted, which the backend may have mapped as long as it
/// is connected. Dropped before that, they are parked, and the kernel looks after them but slowly.
pub(crate) struct Remains {
    _lender: Lender,
}
