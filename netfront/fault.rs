// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a device.

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
    /// What the two ends say makes no sense, or nothing that both can do.
    Features(crate::features::FeatureError),
    /// While doing what is named first, there was none left of what is named then, which the domain has a limited
    /// number of.
    Exhausted(&'static str, &'static str),
    /// Something else went wrong, while doing what is named.
    Errno(&'static str, Error),
}

impl Failure {
    /// What went wrong while doing `what`, which needs some of the domain's `resource`.
    pub(crate) fn of(what: &'static str, resource: &'static str, errno: Error) -> Self {
        if errno == ENOSPC {
            Self::Exhausted(what, resource)
        } else {
            Self::Errno(what, errno)
        }
    }

    /// The errno that says the same.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Key(error) => error.errno(),
            Self::Features(_) => ENODEV,
            Self::Exhausted(..) => ENOSPC,
            Self::Errno(_, errno) => *errno,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Features(error) => error.fmt(f),
            Self::Exhausted(what, resource) => write!(f, "{what}: no {resource} left"),
            Self::Errno(what, errno) => write!(f, "{what}: error {}", errno.to_errno()),
        }
    }
}

impl From<store::KeyError> for Failure {
    fn from(error: store::KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<crate::features::FeatureError> for Failure {
    fn from(error: crate::features::FeatureError) -> Self {
        Self::Features(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Errno("allocating memory", ENOMEM)
    }
}

/// What the backend did that no honest backend does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Its producer index on a transmit ring is impossible.
    TxProducer(Impossible),
    /// It answered a transmit request that is not in flight.
    TxId(u16),
    /// Its producer index on a receive ring is impossible.
    RxProducer(Impossible),
    /// It keeps a page mapped that it said it is done with.
    StillMapped(StillMapped),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TxProducer(impossible) => {
                write!(f, "Illegal number of responses: {impossible}")
            }
            Self::TxId(id) => write!(f, "Response for inactive request ({id})"),
            Self::RxProducer(impossible) => {
                write!(f, "Illegal number of packets received: {impossible}")
            }
            Self::StillMapped(StillMapped { gref }) => {
                write!(f, "Grant still in use by backend domain ({gref})")
            }
        }
    }
}

xen::printable!(Failure, Fault, crate::receive::Reason);
