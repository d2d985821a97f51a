// SPDX-License-Identifier: GPL-2.0

//! A request on its way from the ring to the block device.

use crate::{
    mover::Trouble,
    request::Unsuitable, //
};
use core::fmt;
use kernel::prelude::*;
use xen::{
    blk::bio::Action,
    io::blkif::{
        back::{
            Answer,
            Malformed,
            Request,
            Segments, //
        },
        Segment,
        Status, //
    },
};

/// What kind of request a transfer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Flush,
    Barrier,
    Discard,
}

/// The request that a transfer is for.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) operation: u8,
    pub(crate) kind: Kind,
}

/// Segments of a request.
pub(crate) enum SegmentList {
    Direct(Segments),
    Indirect(KVec<Segment>),
}

impl SegmentList {
    pub(crate) fn as_slice(&self) -> &[Segment] {
        match self {
            Self::Direct(segments) => segments.as_slice(),
            Self::Indirect(segments) => segments,
        }
    }
}

/// A request that makes sense, and is to be begun.
pub(crate) struct Ready {
    pub(crate) job: Job,
    pub(crate) action: Action,
    pub(crate) sector: u64,
    /// How many sectors of 512 bytes it is about.
    pub(crate) sectors: u64,
    pub(crate) segments: SegmentList,
}

/// A request that cannot be begun yet.
pub(crate) enum Held {
    /// Its descriptors could not be fetched.
    Descriptors(Request),
    /// Its memory could not be mapped or copied.
    Memory(Ready),
    /// It is a barrier, and others are under way.
    Drain(Ready),
}

/// What is wrong with a request.
pub(crate) enum Wrong {
    Malformed(Malformed),
    Unsuitable(Unsuitable),
    Trouble(Trouble),
    /// It was held for too long.
    TooLong,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Unsuitable(unsuitable) => unsuitable.fmt(f),
            Self::Trouble(Trouble::Refused { gref, status }) => {
                write!(f, "Xen refuses grant {gref} with status {status}")
            }
            Self::Trouble(Trouble::Short) | Self::TooLong => {
                f.write_str("no memory, or no room to map frames")
            }
        }
    }
}

xen::printable!(Wrong);

/// Writing data, in order and durably if need be.
pub(crate) fn write(flush_before: bool, durable: bool) -> Action {
    Action::Write {
        flush_before,
        durable,
    }
}

/// The answer to a request that has failed.
pub(crate) fn failed(id: u64, operation: u8) -> Answer {
    Answer {
        id,
        operation,
        status: Status::Error,
    }
}
