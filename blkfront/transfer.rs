// SPDX-License-Identifier: GPL-2.0

//! How reads and writes become messages to the backend.
//!
//! Pure logic, tested on the host and by KUnit.

use super::features::{
    Flush,
    Terms,
    DIRECT_SEGMENTS, //
};

/// What is left to do of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    /// It reads.
    pub(crate) read: bool,
    /// It must be durable when it ends.
    pub(crate) durable: bool,
    /// Bytes that are left.
    pub(crate) bytes: u32,
    /// Pieces of memory that they are at most, if that is known: when nothing is done of it yet.
    pub(crate) segments: Option<usize>,
}

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It writes, and what was written before and by itself is durable when it is answered.
    Barrier,
}

/// A message for a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// What it does.
    pub(crate) kind: Kind,
    /// How many bytes it is for.
    pub(crate) bytes: u32,
    /// Most segments that it has.
    pub(crate) segments: usize,
    /// The backend must be told to flush when it is answered.
    pub(crate) flush_next: bool,
}

impl Transfer {
    /// The next message for what is `rest`; [`None`] if no message can be of whole sectors.
    ///
    /// `fitting` says how many bytes a message can be for that has room for so many segments: whole
    /// sectors of the size that the terms give.
    pub(crate) fn next(
        rest: Rest,
        terms: &Terms,
        fitting: impl FnOnce(usize) -> u32,
    ) -> Option<Self> {
        let barrier = rest.durable && terms.flush == Flush::Barrier;
        // A barrier's segments must be in the message itself.
        let most = if barrier {
            DIRECT_SEGMENTS
        } else {
            terms.segments
        } as usize;
        let (bytes, segments) = match rest.segments {
            Some(segments) if segments <= most => (rest.bytes, segments),
            _ => (fitting(most).min(rest.bytes), most),
        };
        if bytes == 0 {
            return None;
        }
        let is_last = bytes == rest.bytes;
        Some(Self {
            kind: match (rest.read, barrier && is_last) {
                (true, _) => Kind::Read,
                (false, false) => Kind::Write,
                // The parts before it have been answered, so that it makes them durable, too.
                (false, true) => Kind::Barrier,
            },
            bytes,
            segments,
            // If the backend had barriers when the block layer began this, and now has not.
            flush_next: rest.durable && is_last && terms.flush == Flush::Diskcache,
        })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkfront_transfer))]
mod tests {
    use super::*;

    const PAGE: u32 = 4096;

    const fn terms(flush: Flush, segments: u32) -> Terms {
        Terms {
            flush,
            discard: None,
            segments,
            persistent: false,
            sector_size: 512,
        }
    }

    /// A request of whole pages.
    const fn request(read: bool, durable: bool, pages: u32) -> Rest {
        Rest {
            read,
            durable,
            bytes: pages * PAGE,
            segments: Some(pages as usize),
        }
    }

    /// Sends a request of whole pages, part by part: says how many messages it takes, how many of
    /// them are barriers, and whether a flush follows.
    fn send(mut rest: Rest, terms: Terms) -> Result<(u32, u32, bool), &'static str> {
        let (mut messages, mut barriers) = (0, 0);
        loop {
            let left = rest.bytes;
            let fitting = |most: usize| (most as u32 * PAGE).min(left);
            let transfer = Transfer::next(rest, &terms, fitting).ok_or("whole pages always fit")?;
            let is_barrier = transfer.kind == Kind::Barrier;
            let is_last = transfer.bytes == left;
            if transfer.bytes == 0 || transfer.bytes > left {
                return Err("nothing, or more than is left");
            }
            if transfer.bytes > transfer.segments as u32 * PAGE {
                return Err("more than its segments hold");
            }
            if (transfer.kind == Kind::Read) != rest.read {
                return Err("a read that writes, or the other way round");
            }
            if !is_last && (is_barrier || transfer.flush_next) {
                return Err("something follows what makes it durable");
            }
            if is_barrier && transfer.segments > 11 {
                return Err("a barrier with too many segments");
            }
            messages += 1;
            barriers += u32::from(is_barrier);
            if is_last {
                return Ok((messages, barriers, transfer.flush_next));
            }
            rest.bytes -= transfer.bytes;
            rest.segments = None;
        }
    }

    #[test]
    fn what_fits_is_one_message() {
        for flush in [Flush::None, Flush::Diskcache, Flush::Barrier] {
            for (pages, segments) in [(1, 11), (11, 11), (12, 32), (32, 32), (256, 256)] {
                for read in [false, true] {
                    let sent = send(request(read, false, pages), terms(flush, segments));
                    assert_eq!(sent, Ok((1, 0, false)));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_goes_in_parts() {
        for (pages, segments, messages) in [(12, 11, 2), (33, 32, 2), (256, 11, 24), (256, 32, 8)] {
            for read in [false, true] {
                let sent = send(request(read, false, pages), terms(Flush::None, segments));
                assert_eq!(sent, Ok((messages, 0, false)));
            }
        }
    }

    #[test]
    fn durable_writes_end_with_a_barrier_or_a_flush() {
        for (pages, messages) in [(1, 1), (11, 1), (12, 2), (32, 3), (256, 24)] {
            let write = request(false, true, pages);
            let sent = send(write, terms(Flush::Barrier, 32));
            assert_eq!(sent, Ok((messages, 1, false)));
        }
        for (pages, messages) in [(1, 1), (32, 1), (33, 2), (256, 8)] {
            let write = request(false, true, pages);
            let sent = send(write, terms(Flush::Diskcache, 32));
            assert_eq!(sent, Ok((messages, 0, true)));
            let sent = send(write, terms(Flush::None, 32));
            assert_eq!(sent, Ok((messages, 0, false)));
        }
    }

    #[test]
    fn parts_of_sectors_are_not_sent() {
        let rest = request(false, false, 12);
        assert_eq!(Transfer::next(rest, &terms(Flush::None, 11), |_| 0), None);
        // Whoever counts too much does not make it more than it is.
        let transfer = Transfer::next(rest, &terms(Flush::None, 11), |_| u32::MAX);
        assert_eq!(transfer.map(|transfer| transfer.bytes), Some(12 * PAGE));
    }
}
