// SPDX-License-Identifier: GPL-2.0

//! Why a device cannot be used.

use crate::features::ChoiceError;
use core::fmt;
use kernel::{
    alloc::AllocError,
    prelude::*, //
};
use xen::{
    blk::DeviceNumber,
    compat::ENOSYS,
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
    /// `physical-device` makes no sense.
    PhysicalDevice(store::Text),
    /// The block device cannot be opened.
    Device(DeviceNumber, Error),
    /// The frontend lays out its requests in a way that nobody knows.
    Protocol(Option<store::Text>),
    /// The frontend asked for what it was not offered.
    Choice(ChoiceError),
    /// The ring that is told of with this port cannot be used.
    Mapping(u32, Error),
    /// The frontend has broken the protocol of the ring.
    Ring(Impossible),
    /// The frontend is in a state in which it has no business.
    State(State),
    /// Something else went wrong, while doing what is named.
    Errno(&'static str, Error),
}

impl Failure {
    /// The errno that says the same.
    pub(crate) fn errno(&self) -> Error {
        match self {
            Self::Key(error) => error.errno(),
            Self::PhysicalDevice(_) | Self::Choice(_) | Self::State(_) => EINVAL,
            Self::Device(_, errno) | Self::Mapping(_, errno) | Self::Errno(_, errno) => *errno,
            Self::Protocol(_) => ENOSYS,
            Self::Ring(_) => EIO,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::PhysicalDevice(text) => {
                write!(f, "physical-device is \"{text}\", not a device number")
            }
            Self::Device(number, errno) => write!(
                f,
                "device {number} could not be opened: error {}",
                errno.to_errno()
            ),
            Self::Protocol(Some(text)) => write!(f, "unknown fe protocol {text}"),
            Self::Protocol(None) => f.write_str("unknown fe protocol"),
            Self::Choice(error) => error.fmt(f),
            Self::Mapping(port, errno) => {
                write!(
                    f,
                    "mapping ring-ref port {port}: error {}",
                    errno.to_errno()
                )
            }
            Self::Ring(impossible) => impossible.fmt(f),
            Self::State(state) => write!(f, "saw state {state:?} at frontend"),
            Self::Errno(what, errno) => write!(f, "{what}: error {}", errno.to_errno()),
        }
    }
}

impl From<store::KeyError> for Failure {
    fn from(error: store::KeyError) -> Self {
        Self::Key(error)
    }
}

impl From<AllocError> for Failure {
    fn from(_: AllocError) -> Self {
        Self::Errno("allocating memory", ENOMEM)
    }
}

xen::printable!(Failure);
