// SPDX-License-Identifier: GPL-2.0

//! What can be wrong with a device.

use crate::{
    features::FeatureError,
    transmit, //
};
use core::fmt;
use kernel::{
    alloc::AllocError,
    prelude::*, //
};
use xen::{
    compat::EOPNOTSUPP,
    ring::Impossible,
    xenbus::{
        store,
        State, //
    },
};

/// Why a device cannot be used.
pub(crate) enum Failure {
    /// A key in xenstore is missing or makes no sense.
    Key(store::KeyError),
    /// The frontend asked for what it was not offered, or left out what it must say.
    Features(FeatureError),
    /// `mac` is no address.
    Address(store::Text),
    /// The rings with these references and ports cannot be used.
    Rings {
        /// Of the transmit and the receive ring.
        grefs: (u32, u32),
        /// As well; the same if there is one channel for both.
        ports: (u32, u32),
        /// Why.
        errno: Error,
    },
    /// The control ring with this reference and port cannot be used.
    ControlRing(u32, u32, Error),
    /// The frontend left indices in a ring that no ring can have.
    Ring(Impossible),
    /// The frontend is in a state in which it has no business.
    State(State),
    /// The hotplug script has failed.
    Hotplug,
    /// Something else went wrong, while doing what is named.
    Errno(&'static str, Error),
}

impl Failure {
    /// The errno that says the same.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Key(error) => error.errno(),
            Self::Features(FeatureError::RxCopy) => EOPNOTSUPP,
            Self::Features(_) | Self::Address(_) | Self::State(_) => EINVAL,
            Self::Rings { errno, .. } | Self::ControlRing(_, _, errno) | Self::Errno(_, errno) => {
                *errno
            }
            Self::Ring(_) | Self::Hotplug => EIO,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Features(error) => error.fmt(f),
            Self::Address(text) => write!(f, "mac is \"{text}\", not an address"),
            Self::Rings {
                grefs: (tx, rx),
                ports: (tx_port, rx_port),
                errno,
            } => {
                write!(f, "mapping shared-frames {tx}/{rx} ")?;
                if tx_port == rx_port {
                    write!(f, "port {tx_port}")?;
                } else {
                    write!(f, "port tx {tx_port} rx {rx_port}")?;
                }
                write!(f, ": error {}", errno.to_errno())
            }
            Self::ControlRing(gref, port, errno) => write!(
                f,
                "mapping shared-frame {gref} port {port}: error {}",
                errno.to_errno()
            ),
            Self::Ring(impossible) => impossible.fmt(f),
            Self::State(state) => write!(f, "saw state {state:?} at frontend"),
            Self::Hotplug => f.write_str("the hotplug script has failed"),
            Self::Errno(what, errno) => write!(f, "{what}: error {}", errno.to_errno()),
        }
    }
}

impl From<store::KeyError> for Failure {
    fn from(error: store::KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<FeatureError> for Failure {
    fn from(error: FeatureError) -> Self {
        Self::Features(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Errno("allocating memory", ENOMEM)
    }
}

/// What the frontend did that no honest frontend does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Its producer index on a transmit ring is impossible.
    TxProducer(Impossible),
    /// What it transmits is not as the protocol has it.
    Transmit(transmit::Fault),
    /// Its producer index on a receive ring is impossible.
    RxProducer(Impossible),
    /// Its producer index on the control ring is impossible.
    ControlProducer(Impossible),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TxProducer(impossible) => {
                write!(f, "Impossible number of requests: {impossible}")
            }
            Self::Transmit(fault) => fault.fmt(f),
            Self::RxProducer(impossible) => {
                write!(f, "Impossible number of frames to receive: {impossible}")
            }
            Self::ControlProducer(impossible) => {
                write!(f, "Impossible number of control requests: {impossible}")
            }
        }
    }
}

xen::printable!(Failure, Fault);
