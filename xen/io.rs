// SPDX-License-Identifier: GPL-2.0

//! What is spoken on the rings: the wire formats of Xen's split drivers.

pub mod blkif;
pub mod netif;
