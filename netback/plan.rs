// SPDX-License-Identifier: GPL-2.0

//! How the bytes of a packet come from the guest's frames into one of this domain's packets.
//!
//! All are copied: the first ones to the head of the packet, which the network stack looks at, the others to
//! pages behind it, each of which but the last one is full.
//!
//! Pure logic, tested on the host and by KUnit.

use super::transmit::Packet;
use crate::netif::FRAME_SIZE;

/// Bytes of a packet that are in its head at least, if it has so many: those that drivers and
/// the network stack look at. Headers in fragments have made network cards stop.
pub(crate) const LEAST_HEAD: u32 = 128;

/// Most fragments of a packet (`MAX_SKB_FRAGS`).
pub(crate) const MOST_FRAGMENTS: usize = 17;

/// A copy to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyPiece {
    /// Grant reference of the guest's frame.
    pub(crate) gref: u32,
    /// Where in that frame it starts, in bytes.
    pub(crate) from_offset: u32,
    /// Where in the packet it starts, in bytes; see [`Plan::place`].
    pub(crate) to_offset: u32,
    /// How long it is, in bytes; never 0.
    pub(crate) length: u32,
}

/// Where in this domain a byte of a packet is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// So many bytes behind the start of the head.
    Head(u32),
    /// In the page of this number, so many bytes behind its start.
    Page(usize, u32),
}

/// How the bytes of a packet are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    packet: &'a Packet,
    head: u32,
}

impl<'a> Plan<'a> {
    /// Makes a plan for `packet` by which at least `head` bytes of it are in its head, if it has so
    /// many, and never less than [`LEAST_HEAD`].
    pub(crate) fn new(packet: &'a Packet, head: u32) -> Self {
        Self {
            packet,
            head: head.max(LEAST_HEAD).min(packet.length()),
        }
    }

    /// How many bytes are in the head.
    #[inline]
    pub(crate) fn head(&self) -> u32 {
        self.head
    }

    /// Where a byte of the packet is copied to.
    #[inline]
    pub(crate) fn place(&self, offset: u32) -> Place {
        match offset.checked_sub(self.head) {
            None => Place::Head(offset),
            // CAST: At most 16.
            Some(behind) => Place::Page((behind / FRAME_SIZE) as usize, behind % FRAME_SIZE),
        }
    }

    /// The copies, in the order of the packet's bytes.
    ///
    /// None of them leaves a page, if the head starts `head_start` bytes behind the start of one.
    pub(crate) fn copies(&self, head_start: u32) -> impl Iterator<Item = CopyPiece> + 'a {
        let head = self.head;
        // How far it is from a byte of the packet to the end of what it can be copied with.
        let room = move |offset: u32| {
            let within = |start: u32| FRAME_SIZE - start % FRAME_SIZE;
            match offset.checked_sub(head) {
                None => within(head_start.wrapping_add(offset)).min(head - offset),
                Some(behind) => within(behind),
            }
        };
        // Where in the packet the slot starts.
        let starts = self.packet.slots().iter().scan(0u32, |next, slot| {
            let start = *next;
            // The sizes of all slots add up to the packet's length.
            *next = start.saturating_add(slot.size);
            Some((start, slot))
        });
        starts.flat_map(move |(start, slot)| {
            let mut done = 0;
            core::iter::from_fn(move || {
                let left = slot.size.checked_sub(done).filter(|&left| left > 0)?;
                let to_offset = start.saturating_add(done);
                let piece = CopyPiece {
                    gref: slot.gref,
                    from_offset: slot.offset.saturating_add(done),
                    to_offset,
                    length: left.min(room(to_offset)),
                };
                done = done.saturating_add(piece.length);
                Some(piece)
            })
        })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_plan))]
mod tests {
    use super::{
        super::transmit::{
            collect,
            Limits,
            Outcome, //
        },
        *,
    };
    use crate::netif::{
        TxFlags,
        TxRequest, //
    };

    type Checked = Result<(), &'static str>;

    /// The packet whose slots have these sizes, each at the end of its frame.
    fn packet(sizes: &[u32]) -> Result<Packet, &'static str> {
        let request = |index: usize, size: u32, length: u32| TxRequest {
            gref: 1000 + index as u32,
            offset: (FRAME_SIZE - size) as u16,
            flags: TxFlags::default().with_more_data(index + 1 < sizes.len()),
            id: index as u16,
            size: length as u16,
        };
        let total = sizes.iter().sum();
        let first = request(0, sizes[0], total);
        let mut further = (1..).zip(&sizes[1..]);
        let next = || {
            let (index, &size) = further.next()?;
            Some(request(index, size, size).into())
        };
        match collect(first, next, Limits::new(20)) {
            Outcome::Packet(packet) => Ok(packet),
            _ => Err("not a packet"),
        }
    }

    /// Whether each byte of a packet is moved exactly once, and to where it belongs.
    fn check(packet: &Packet, plan: &Plan<'_>, head_start: u32) -> Checked {
        let ensure = |holds: bool, otherwise| if holds { Ok(()) } else { Err(otherwise) };
        let head = plan.head();
        ensure(head >= LEAST_HEAD.min(packet.length()), "a short head")?;
        ensure(head <= packet.length(), "a head without a packet")?;

        // The slots one after the other, and of each the bytes that the pieces take.
        let mut copies = plan.copies(head_start).peekable();
        let mut to_offset = 0;
        for slot in packet.slots() {
            let mut at = slot.offset;
            while let Some(copy) = copies.next_if(|copy| copy.gref == slot.gref) {
                ensure(copy.length > 0, "a copy of nothing")?;
                ensure(copy.from_offset == at, "a hole in a slot")?;
                ensure(copy.to_offset == to_offset, "a hole in the packet")?;
                at += copy.length;
                to_offset += copy.length;
                let last = to_offset - 1;
                let in_one = match (plan.place(copy.to_offset), plan.place(last)) {
                    (Place::Head(from), Place::Head(to)) => {
                        (head_start + from) / FRAME_SIZE == (head_start + to) / FRAME_SIZE
                    }
                    (Place::Page(from, _), Place::Page(to, _)) => from == to,
                    _ => false,
                };
                ensure(in_one, "a copy to several pages")?;
            }
            ensure(at == slot.offset + slot.size, "bytes left behind")?;
        }
        ensure(copies.next().is_none(), "copies left over")?;
        ensure(to_offset == packet.length(), "not all is copied")?;
        let pages = (packet.length() - head).div_ceil(FRAME_SIZE) as usize;
        ensure(pages <= MOST_FRAGMENTS, "too many pages")
    }

    #[test]
    fn a_short_packet_is_all_head() -> Checked {
        for sizes in [&[14][..], &[60], &[128], &[0, 64, 64], &[1, 0, 13]] {
            let packet = packet(sizes)?;
            let plan = Plan::new(&packet, 0);
            assert_eq!(plan.head(), packet.length());
            check(&packet, &plan, 0)?;
        }
        Ok(())
    }

    #[test]
    fn the_rest_is_copied_to_pages() -> Checked {
        let packet = packet(&[200, 4096, 4000])?;
        let plan = Plan::new(&packet, 0);
        assert_eq!(plan.place(127), Place::Head(127));
        assert_eq!(plan.place(128), Place::Page(0, 0));
        assert_eq!(plan.place(128 + 4095), Place::Page(0, 4095));
        assert_eq!(plan.place(128 + 4096), Place::Page(1, 0));
        check(&packet, &plan, 0)?;
        // All of it in the head.
        let plan = Plan::new(&packet, u32::MAX);
        assert_eq!(plan.head(), 8296);
        check(&packet, &plan, 320)
    }

    #[test]
    fn copies_end_where_pages_do() -> Checked {
        let packet = packet(&[4096])?;
        let plan = Plan::new(&packet, 4000);
        let copies = |head_start| {
            let mut copies = plan.copies(head_start).map(|copy| copy.length);
            [copies.next(), copies.next(), copies.next(), copies.next()]
        };
        assert_eq!(copies(0), [Some(4000), Some(96), None, None]);
        assert_eq!(copies(4095), [Some(1), Some(3999), Some(96), None]);
        assert_eq!(copies(u32::MAX), [Some(1), Some(3999), Some(96), None]);
        Ok(())
    }

    #[test]
    fn every_byte_is_moved_once() -> Checked {
        let mut state = 0x1234_5678u32;
        let mut random = |limit: u32| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % limit
        };
        for _ in 0..2000 {
            let mut sizes = [0; 19];
            let count = 1 + random(19) as usize;
            let most = [2, 100, 1000, 3449][random(4) as usize];
            for size in &mut sizes[..count] {
                *size = if random(5) == 0 { 0 } else { random(most) };
            }
            sizes[random(count as u32) as usize] += 14;
            let packet = packet(&sizes[..count])?;
            for head in [0, random(70_000)] {
                let plan = Plan::new(&packet, head);
                assert_eq!(plan.head(), head.max(LEAST_HEAD).min(packet.length()));
                check(&packet, &plan, random(4096))?;
            }
        }
        Ok(())
    }
}
