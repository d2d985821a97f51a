// SPDX-License-Identifier: GPL-2.0

//! The KUnit suites of the pure logic.
//!
//! The files are those of the drivers, compiled once more with their tests: the drivers' own objects
//! have none, and each suite runs once however many drivers there are.

// Nobody but the tests uses what the files define.
#![allow(dead_code, unreachable_pub, unused_imports)]

use kernel::prelude::*;
use xen::{
    io,
    memory,
    moderation,
    ring,
    xenbus, //
};

// As the roots of the drivers call them.
use io::{
    blkif::back as wire,
    netif, //
};

#[path = "../../xen"]
mod xen {
    pub(crate) mod blk {
        pub(crate) mod piece;
    }
    pub(crate) mod grant {
        pub(crate) mod quota;
    }
    pub(crate) mod io;
    pub(crate) mod memory;
    pub(crate) mod moderation {
        pub(crate) mod histogram;
        pub(crate) mod hold_off;
        pub(crate) mod packets;
        pub(crate) mod polling;
        pub(crate) mod settings;
    }
    pub(crate) mod net {
        pub(crate) mod owed;
    }
    pub(crate) mod ring;
    pub(crate) mod xenbus {
        pub(crate) mod value;
    }
}

#[path = "../../blkfront"]
mod blkfront {
    pub(crate) mod answer;
    pub(crate) mod features;
    pub(crate) mod number;
    pub(crate) mod stats;
    pub(crate) mod transfer;
}

#[path = "../../blkback"]
mod blkback {
    pub(crate) mod features;
    pub(crate) mod persistent;
    pub(crate) mod request;
}

#[path = "../../netback"]
mod netback {
    pub(crate) mod control;
    pub(crate) mod credit;
    pub(crate) mod delivery;
    pub(crate) mod features;
    pub(crate) mod hash;
    pub(crate) mod multicast;
    pub(crate) mod plan;
    pub(crate) mod stall;
    pub(crate) mod transmit;
}

#[path = "../../netfront"]
mod netfront {
    pub(crate) mod features;
    pub(crate) mod groups;
    pub(crate) mod hash;
    pub(crate) mod in_flight;
    pub(crate) mod receive;
    pub(crate) mod transmit;
}

/// What `xen/memory.rs` needs of the generated bindings.
mod bindings {
    use kernel::sync::barrier::{
        smp_mb,
        Full,
        Read,
        Write, //
    };

    /// Both ends of the tests' rings are on this machine, so that its barriers do.
    ///
    /// # Safety
    ///
    /// None is needed; the generated function is unsafe as all C functions are.
    pub(crate) unsafe fn virt_mb() {
        smp_mb(Full);
    }

    /// # Safety
    ///
    /// As in [`virt_mb`].
    pub(crate) unsafe fn virt_rmb() {
        smp_mb(Read);
    }

    /// # Safety
    ///
    /// As in [`virt_mb`].
    pub(crate) unsafe fn virt_wmb() {
        smp_mb(Write);
    }
}

struct XenKunit;

impl kernel::Module for XenKunit {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

module! {
    type: XenKunit,
    name: "xen_kunit",
    authors: ["xen-pv-rust contributors"],
    description: "KUnit suites of the Xen PV drivers",
    license: "GPL",
}
