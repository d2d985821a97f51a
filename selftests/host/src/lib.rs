// SPDX-License-Identifier: GPL-2.0

//! The pure logic of the project, built for the host.
//!
//! The files are those of the kernel modules, as they are. They touch shared memory through
//! `crate::memory` and use no other kernel function, so that a small module of that name is all it
//! takes. Their unit tests are beside them, and KUnit runs the same ones.

// Here nobody but the tests uses what the files define.
#![allow(dead_code, unused_imports)]

mod bindings;
pub mod fuzz;
mod memory;
mod schedule;

#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod threads;

use xen::{
    io,
    moderation,
    ring,
    xenbus, //
};

// As the roots of the drivers call them.
use io::{
    blkif::back as wire,
    netif, //
};

#[path = "../../../xen"]
mod xen {
    pub mod blk {
        pub mod piece;
    }
    pub mod grant {
        pub mod quota;
    }
    pub mod io;
    pub mod moderation {
        pub mod histogram;
        pub mod hold_off;
        #[cfg(test)]
        mod model;
        pub mod packets;
        pub mod polling;
        pub mod settings;
    }
    pub mod net {
        pub mod owed;
    }
    pub mod ring;
    pub mod xenbus {
        pub mod state;
        pub mod value;
    }
}

#[path = "../../../blkfront"]
mod blkfront {
    pub mod answer;
    pub mod features;
    pub mod number;
    pub mod stats;
    pub mod transfer;
}

#[path = "../../../blkback"]
mod blkback {
    pub mod features;
    pub mod request;
}

#[path = "../../../netback"]
mod netback {
    pub mod control;
    pub mod credit;
    pub mod delivery;
    pub mod features;
    pub mod hash;
    pub mod multicast;
    pub mod plan;
    pub mod stall;
    pub mod transmit;
}

#[path = "../../../netfront"]
mod netfront {
    pub mod features;
    pub mod groups;
    pub mod hash;
    pub mod in_flight;
    pub mod receive;
    pub mod transmit;
}
