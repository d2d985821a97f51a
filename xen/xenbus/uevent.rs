// SPDX-License-Identifier: GPL-2.0

//! Telling user space that a device can be set up.
//!
//! C header: [`include/linux/kobject.h`](srctree/include/linux/kobject.h)

use super::Device;
use crate::bindings;
use core::fmt;
use kernel::{
    error::to_result,
    prelude::*,
    str::CString, //
};

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hotplug {
    /// The device has what a script works on.
    Online,
    /// It is about to lose that.
    Offline,
}

impl Device {
    /// Sends a uevent with these two variables besides those that the bus adds. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM` and others.
    pub fn announce(&self, what: Hotplug, variables: [fmt::Arguments<'_>; 2]) -> Result {
        let [first, second] = variables;
        let (first, second) = (
            CString::try_from_fmt(first)?,
            CString::try_from_fmt(second)?,
        );
        let action = match what {
            Hotplug::Online => bindings::kobject_action_KOBJ_ONLINE,
            Hotplug::Offline => bindings::kobject_action_KOBJ_OFFLINE,
        };
        let mut list = [
            first.as_char_ptr().cast_mut(),
            second.as_char_ptr().cast_mut(),
            core::ptr::null_mut(),
        ];
        // SAFETY: The device is valid by its invariant, and so is its object. The list ends with NULL, and
        // the texts in it are copied, not written.
        to_result(unsafe {
            bindings::kobject_uevent_env(
                core::ptr::addr_of_mut!((*self.as_device()).kobj),
                action,
                list.as_mut_ptr(),
            )
        })
    }
}
