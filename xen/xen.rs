// SPDX-License-Identifier: GPL-2.0

//! Abstractions for Xen's split drivers.

pub mod bindings;
pub mod blk;
pub mod domain;
pub mod evtchn;
pub mod grant;
pub mod io;
pub mod memory;
pub mod param;
mod print;
pub mod ring;
pub mod work;
pub mod xenbus;
