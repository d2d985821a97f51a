// SPDX-License-Identifier: GPL-2.0

//! Grants: letting another domain use this one's pages, and using another's.
//!
//! | what            | by whom        | here                                                  |
//! |-----------------|----------------|-------------------------------------------------------|
//! | granted         | who has a page | [`Reserve`], [`Grant`], [`BouncePage`]                |
//! | mapped          | who wants it   | [`Mapper`], [`Mapping`]                               |
//! | copied, by Xen  | who wants it   | [`Copier`], [`Imports`], [`Exports`]                  |
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
//! [`Imports`]: crate::net::Imports
//! [`Exports`]: crate::net::Exports
//!
//! C header: [`include/xen/grant_table.h`](srctree/include/xen/grant_table.h)

mod access;
mod batch;
mod bounce;
mod copy;
mod map;
mod persistent;
mod quota;

pub use self::access::{
    parked,
    Access,
    Frame,
    Grant,
    Reserve,
    StillMapped,
    WritableFrame, //
};
pub(crate) use self::batch::CopyBatch;
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

pub use self::copy::{
    Copier,
    Copy,
    CopyError,
    Direction, //
};
pub use self::map::{
    MapError,
    Mapper,
    Mapping, //
};

/// A reference that names no grant.
pub(crate) const INVALID: u32 = u32::MAX;

/// Statuses of Xen's that are told apart.
// CAST: They fit into the 16 bits that Xen has for them.
const OKAY: i16 = crate::bindings::GNTST_okay as i16;
const NO_DEVICE_SPACE: i16 = crate::bindings::GNTST_no_device_space as i16;
/// What Xen says when this domain has no entry left in its table of mapped frames (maptrack).
const NO_SPACE: i16 = crate::bindings::GNTST_no_space as i16;
