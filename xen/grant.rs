// SPDX-License-Identifier: GPL-2.0

//! Grants: letting another domain use this one's pages.
//!
//! A grant reference names an entry of the domain's grant table. There is a limited number of
//! them, which all devices share (`max_grant_frames` of the domain's configuration). A [`Reserve`]
//! keeps some for one queue, so that it can go on whatever others use up.
//!
//! C header: [`include/xen/grant_table.h`](srctree/include/xen/grant_table.h)

mod access;
mod bounce;

pub use self::access::{
    parked,
    Access,
    Frame,
    Grant,
    Reserve,
    StillMapped, //
};
pub use self::bounce::{
    BouncePage,
    BouncePool, //
};

/// A reference that names no grant.
pub(crate) const INVALID: u32 = u32::MAX;
