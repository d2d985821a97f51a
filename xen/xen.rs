// SPDX-License-Identifier: GPL-2.0
//! x
pub mod bindings;
