// SPDX-License-Identifier: GPL-2.0

//! Grants: letting another domain use this one's pages.
//!
//! A grant reference names an entry of the domain's grant table. There is a limited number of
//! them, which all devices share (`max_grant_frames` of the domain's configuration). A [`Reserve`]
//! keeps some for one queue, so that it can go on whatever others use up.
//!
//! | what is granted      | by                 | until              | its data is    |
//! |----------------------|--------------------|--------------------|----------------|
//! | a request's memory   | [`Reserve`]        | the request ends   | where it is    |
//! | a page in its place  | [`BouncePool`]     | the request ends   | copied         |
//! | a page in its place  | [`PersistentPool`] | it is not needed   | copied         |
//!
//! C header: [`include/xen/grant_table.h`](srctree/include/xen/grant_table.h)

mod access;
mod bounce;
mod persistent;
mod quota;

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
pub use self::persistent::{
    PersistentPage,
    PersistentPool, //
};
pub use self::quota::Quota;

/// How many references and pages are given back at once: that is done with interrupts disabled.
const TRIM_STEP: u32 = 256;

/// A reference that names no grant.
pub(crate) const INVALID: u32 = u32::MAX;
