// SPDX-License-Identifier: GPL-2.0

//! What `xen/xenbus/state.rs` needs of the kernel's generated bindings.

#![allow(non_camel_case_types, non_upper_case_globals)]

pub type xenbus_state = core::ffi::c_uint;

pub const xenbus_state_XenbusStateUnknown: xenbus_state = 0;
pub const xenbus_state_XenbusStateInitialising: xenbus_state = 1;
pub const xenbus_state_XenbusStateInitWait: xenbus_state = 2;
pub const xenbus_state_XenbusStateInitialised: xenbus_state = 3;
pub const xenbus_state_XenbusStateConnected: xenbus_state = 4;
pub const xenbus_state_XenbusStateClosing: xenbus_state = 5;
pub const xenbus_state_XenbusStateClosed: xenbus_state = 6;
pub const xenbus_state_XenbusStateReconfiguring: xenbus_state = 7;
pub const xenbus_state_XenbusStateReconfigured: xenbus_state = 8;
