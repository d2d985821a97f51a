// SPDX-License-Identifier: GPL-2.0

//! What has the data of a packet that is to be sent, and what of it is copied.

use crate::transmit::{
    Obstacle,
    Piece as Part, //
};
use kernel::prelude::*;
use xen::{
    grant::BouncePage,
    io::netif::FRAME_SIZE,
    net::{
        xdp::Frame,
        PieceFrame,
        TxPacket, //
    },
};

/// Where the data of a part of a packet is.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// It is copied, from this position in the packet on.
    Copy { position: u32 },
    /// It is in a fragment, `within` bytes behind its start.
    Fragment {
        fragment: u32,
        within: u32,
        position: u32,
    },
}

/// What has the data of a packet.
pub(crate) trait Data {
    /// Copies bytes from a position on to an offset of a page; [`false`] if that cannot be.
    fn copy_to(&self, position: u32, length: u32, page: &mut BouncePage, offset: u32) -> bool;

    /// The frame of a fragment, from a position in it on, if that can be granted.
    fn frame(&self, fragment: u32, within: u32) -> Option<PieceFrame<'_>>;
}

impl Data for TxPacket {
    fn copy_to(&self, position: u32, length: u32, page: &mut BouncePage, offset: u32) -> bool {
        self.copy_to(position, length, page, offset)
    }

    fn frame(&self, fragment: u32, within: u32) -> Option<PieceFrame<'_>> {
        self.piece(fragment, within)?.frame()
    }
}

impl Data for Frame {
    fn copy_to(&self, position: u32, length: u32, page: &mut BouncePage, offset: u32) -> bool {
        self.copy_to(position, length, page, offset)
    }

    fn frame(&self, _fragment: u32, _within: u32) -> Option<PieceFrame<'_>> {
        // Its memory goes back at once to where it is from.
        None
    }
}

/// Has the first `length` bytes of a packet copied.
pub(crate) fn plan_copy(parts: &mut KVec<Part<Source>>, length: u32) -> Result<(), Obstacle> {
    let mut position = 0;
    while position < length {
        let part = Part {
            frame: Source::Copy { position },
            offset: 0,
            length: (length - position).min(FRAME_SIZE),
        };
        position += part.length;
        // There is room for as many as a packet may have.
        parts
            .push_within_capacity(part)
            .map_err(|_| Obstacle::Linearize)?;
    }
    Ok(())
}
