// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a device.

use crate::{
    features::{
        GeometryError,
        GranularityError, //
    },
    number::{
        DiskNumber,
        NumberError, //
    },
};
use core::fmt;
use kernel::{
    alloc::AllocError,
    prelude::*, //
};
use xen::{
    grant::StillMapped,
    ring::Impossible,
    xenbus::store, //
};

/// Why a device cannot be used.
pub(crate) enum Failure {
    /// A key in xenstore is missing or makes no sense.
    Key(store::KeyError),
    /// The virtual device number makes no sense.
    Number(u32, NumberError),
    /// The disk's size or sectors make no sense.
    Geometry(GeometryError),
    /// What the backend says of discards makes no sense.
    Granularity(GranularityError),
    /// The disk is in use with sectors of `old` bytes, and has larger ones now.
    SectorsGrown {
        /// What its users know.
        old: u32,
        /// What the backend says.
        new: u32,
    },
    /// Another disk has the minor numbers.
    MinorsInUse(DiskNumber),
    /// Something else went wrong, while doing what is named.
    Errno(&'static str, Error),
}

impl Failure {
    /// The errno that says the same.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Key(error) => error.errno(),
            Self::Number(..) => ENODEV,
            Self::Geometry(_) | Self::Granularity(_) => EINVAL,
            Self::SectorsGrown { .. } | Self::MinorsInUse(_) => EBUSY,
            Self::Errno(_, errno) => *errno,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Number(number, error) => {
                write!(f, "virtual-device {number:#x} cannot be used: {error}")
            }
            Self::Geometry(error) => error.fmt(f),
            Self::Granularity(error) => error.fmt(f),
            Self::SectorsGrown { old, new } => write!(
                f,
                "sector-size is {new}, but the disk is in use with sectors of {old} bytes"
            ),
            Self::MinorsInUse(number) => {
                write!(f, "the minor numbers of {number} are another disk's")
            }
            Self::Errno(what, errno) => write!(f, "{what}: error {}", errno.to_errno()),
        }
    }
}

impl From<store::KeyError> for Failure {
    fn from(error: store::KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<GeometryError> for Failure {
    fn from(error: GeometryError) -> Self {
        Self::Geometry(error)
    }
}

impl From<GranularityError> for Failure {
    fn from(error: GranularityError) -> Self {
        Self::Granularity(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Errno("allocating memory", ENOMEM)
    }
}

/// What the backend did that no honest backend does, or did not do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Its producer index is impossible.
    Producer(Impossible),
    /// It answered a request that is not in flight.
    Id(u64),
    /// It answered with another operation than it was asked for.
    Operation { asked: u8, answered: u8 },
    /// It answered but keeps a page mapped.
    StillMapped(StillMapped),
    /// It has not answered a request for so many seconds, and the user wants no more patience.
    Silent(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Producer(impossible) => write!(f, "illegal number of responses: {impossible}"),
            Self::Id(id) => write!(
                f,
                "response has incorrect id ({id}), it references no pending request"
            ),
            Self::Operation { asked, answered } => write!(
                f,
                "response has wrong operation ({answered} instead of {asked})"
            ),
            Self::StillMapped(StillMapped { gref }) => {
                write!(f, "backend has not unmapped grant: {gref}")
            }
            Self::Silent(seconds) => {
                write!(f, "backend has not answered a request for {seconds} s")
            }
        }
    }
}

xen::printable!(DiskNumber, Failure, Fault);
