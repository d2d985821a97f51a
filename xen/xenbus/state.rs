// SPDX-License-Identifier: GPL-2.0

//! States of the two ends of a device.

use crate::bindings;

/// What one end of a device says about itself in its `state` node.
///
/// C header: [`include/xen/interface/io/xenbus.h`](srctree/include/xen/interface/io/xenbus.h)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no `state` node, or it cannot be read.
    Unknown,
    /// The toolstack has made the device, this end has done nothing yet.
    Initialising,
    /// This end's part of the negotiation is written, the other end's is awaited.
    InitWait,
    /// Everything that the other end needs is written.
    Initialised,
    /// In use.
    Connected,
    /// This end wants to be disconnected.
    Closing,
    /// Disconnected.
    Closed,
    /// Asks for a change while connected.
    Reconfiguring,
    /// The change is done.
    Reconfigured,
}

impl State {
    /// A state as C has it; what is none of them is unknown.
    pub(crate) fn from_raw(raw: bindings::xenbus_state) -> Self {
        match raw {
            bindings::xenbus_state_XenbusStateInitialising => Self::Initialising,
            bindings::xenbus_state_XenbusStateInitWait => Self::InitWait,
            bindings::xenbus_state_XenbusStateInitialised => Self::Initialised,
            bindings::xenbus_state_XenbusStateConnected => Self::Connected,
            bindings::xenbus_state_XenbusStateClosing => Self::Closing,
            bindings::xenbus_state_XenbusStateClosed => Self::Closed,
            bindings::xenbus_state_XenbusStateReconfiguring => Self::Reconfiguring,
            bindings::xenbus_state_XenbusStateReconfigured => Self::Reconfigured,
            _ => Self::Unknown,
        }
    }

    /// A state as xenstore has it; what is none of them is unknown.
    pub fn from_number(number: u32) -> Self {
        Self::from_raw(number)
    }

    pub(crate) fn into_raw(self) -> bindings::xenbus_state {
        match self {
            Self::Unknown => bindings::xenbus_state_XenbusStateUnknown,
            Self::Initialising => bindings::xenbus_state_XenbusStateInitialising,
            Self::InitWait => bindings::xenbus_state_XenbusStateInitWait,
            Self::Initialised => bindings::xenbus_state_XenbusStateInitialised,
            Self::Connected => bindings::xenbus_state_XenbusStateConnected,
            Self::Closing => bindings::xenbus_state_XenbusStateClosing,
            Self::Closed => bindings::xenbus_state_XenbusStateClosed,
            Self::Reconfiguring => bindings::xenbus_state_XenbusStateReconfiguring,
            Self::Reconfigured => bindings::xenbus_state_XenbusStateReconfigured,
        }
    }
}
