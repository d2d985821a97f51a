// SPDX-License-Identifier: GPL-2.0

//! Programs that users have packets seen by before the network stack does (XDP).
//!
//! A program sees packets that lie in pages of a page pool, in one piece or in several, with room in front and
//! behind for what it may want to add. It says what is to become of each: the network stack gets it, or it is
//! sent by the same interface or by another one, or dropped.
//!
//! C header: [`include/net/xdp.h`](srctree/include/net/xdp.h)

mod frame;
mod program;
mod run;

pub(super) use self::program::setup;
pub use self::{
    frame::{
        Frame,
        Frames, //
    },
    program::{
        Offer,
        Program,
        ProgramSlot,
        Refusal, //
    },
    run::{
        Action,
        Runner,
        RxQueue, //
    },
};

use crate::bindings;

/// Bytes that are free in front of a packet that a program sees.
// CAST: 256.
pub const HEADROOM: u16 = bindings::XDP_PACKET_HEADROOM as u16;

/// Bytes of a packet that a program sees in one piece.
pub fn room() -> u32 {
    // SAFETY: The function has no requirement.
    unsafe { bindings::xen_xdp_room() }
}
