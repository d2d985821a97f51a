// SPDX-License-Identifier: GPL-2.0

//! Packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use super::{
    Poll,
    Polling,
    PoolPage, //
};
use crate::{
    bindings,
    grant::{
        BouncePage,
        Frame, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

// CAST: Single bits of a word.
const TCP_V4: u32 = bindings::SKB_GSO_TCPV4 as u32;
const TCP_V6: u32 = bindings::SKB_GSO_TCPV6 as u32;

/// What is known of the checksum of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is there, and nobody has looked at it.
    Unknown,
    /// It is good, whatever is written in its place.
    Good,
    /// It is to be made: the sum of the pseudo-header is in its place.
    Blank,
}

/// How a packet is to be cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gso {
    /// TCP over IPv4, with so many bytes of data in each.
    TcpV4(u16),
    /// TCP over IPv6.
    TcpV6(u16),
}

impl Gso {
    /// Bytes of data in each packet.
    pub const fn size(self) -> u16 {
        match self {
            Self::TcpV4(size) | Self::TcpV6(size) => size,
        }
    }
}

/// What a driver has to know of a packet that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its bytes.
    pub length: u32,
    /// As many of them are in the head.
    pub head_length: u32,
    /// The others are in so many fragments.
    pub fragments: u32,
    /// Its checksum.
    pub checksum: Checksum,
    /// How it is to be cut up.
    pub gso: Option<Gso>,
    /// So many packets it will have become.
    pub segments: u32,
    /// The kernel should not have handed it over as it is: it is a chain, or to be cut up in another way.
    pub is_strange: bool,
    /// It is to be cut up in another way.
    pub has_other_gso: bool,
}

/// A packet that is to be sent. Dropped, it counts as lost.
///
/// # Invariants
///
/// `raw` is a packet that belongs to this value.
pub struct TxPacket {
    raw: NonNull<bindings::sk_buff>,
}

// SAFETY: Packets can be freed by any thread.
unsafe impl Send for TxPacket {}
// SAFETY: `&self` allows nothing but reading.
unsafe impl Sync for TxPacket {}

/// Part of a packet that lies within one frame of 4 KiB.
pub struct Piece<'a> {
    pfn: usize,
    /// Where in the frame it starts, in bytes.
    pub offset: u32,
    /// How long it is, in bytes.
    pub length: u32,
    /// The bytes of the same fragment that come after it.
    pub rest: u32,
    _packet: PhantomData<&'a TxPacket>,
}

/// The frame of a [`Piece`], which may be granted for reading: others may have the same memory in their packets.
pub struct PieceFrame<'a>(usize, PhantomData<&'a TxPacket>);

impl<'a> Piece<'a> {
    /// The frame, unless it is of memory that a reference does not keep from being used for something
    /// else.
    #[inline]
    pub fn frame(&self) -> Option<PieceFrame<'a>> {
        // SAFETY: The packet keeps the frame's page.
        unsafe { bindings::xen_frame_can_be_held(self.pfn) }
            .then_some(PieceFrame(self.pfn, PhantomData))
    }
}

// SAFETY: It is only made if a reference to its page keeps it.
unsafe impl Frame for PieceFrame<'_> {
    #[inline]
    fn frame(&self) -> usize {
        self.0
    }
}

/// From where to where a packet goes, in the order of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// By IPv4: source and destination.
    V4([u8; 4], [u8; 4]),
    /// By IPv6: source and destination.
    V6([u8; 16], [u8; 16]),
}

/// What packets belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// From where to where.
    pub addresses: Addresses,
    /// Source and destination port, of a packet with a TCP header only: not of a fragment.
    pub ports: Option<(u16, u16)>,
}

/// Where somebody is who goes through a packet.
pub struct Cursor<'a> {
    raw: bindings::xen_skb_cursor,
    _packet: PhantomData<&'a TxPacket>,
}

impl Cursor<'_> {
    /// The next bytes that lie within one frame, `most` of them at most: the number of the frame, where in
    /// it they start, and how many they are. [`None`] at the end, or if what follows is not in memory.
    #[inline]
    pub(super) fn next(&mut self, most: u32) -> Option<(usize, u32, u32)> {
        let mut piece = bindings::xen_skb_piece::default();
        // SAFETY: The cursor is in a packet that is valid, since it is borrowed.
        unsafe { bindings::xen_skb_next(&mut self.raw, most, &mut piece) }.then_some((
            piece.pfn,
            piece.offset,
            piece.length,
        ))
    }
}

impl TxPacket {
    /// # Safety
    ///
    /// `raw` must be valid, and belong to the caller.
    #[inline]
    pub(super) unsafe fn from_raw(raw: *mut bindings::sk_buff) -> Option<Self> {
        // INVARIANT: By this function's requirements.
        Some(Self {
            raw: NonNull::new(raw)?,
        })
    }

    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        core::mem::ManuallyDrop::new(self).raw.as_ptr()
    }

    /// What it is.
    #[inline]
    pub fn view(&self) -> View {
        let mut raw = bindings::xen_skb_view::default();
        // SAFETY: The packet is valid.
        unsafe { bindings::xen_skb_view(self.raw.as_ptr(), &mut raw) };
        // Beside the kind there are marks, such as whether the headers were checked.
        let is_v4 = raw.gso_type & TCP_V4 != 0;
        let is_v6 = raw.gso_type & TCP_V6 != 0;
        let gso = match u16::try_from(raw.gso_size) {
            Ok(0) | Err(_) => None,
            Ok(size) if is_v4 => Some(Gso::TcpV4(size)),
            Ok(size) if is_v6 => Some(Gso::TcpV6(size)),
            Ok(_) => None,
        };
        View {
            length: raw.len,
            head_length: raw.head_len,
            fragments: raw.frags,
            checksum: match u32::from(raw.checksum) {
                bindings::CHECKSUM_PARTIAL => Checksum::Blank,
                bindings::CHECKSUM_UNNECESSARY => Checksum::Good,
                _ => Checksum::Unknown,
            },
            gso,
            segments: raw.gso_segments.max(1),
            is_strange: raw.has_frag_list || (raw.gso_size != 0 && gso.is_none()),
            has_other_gso: raw.gso_size != 0 && gso.is_none(),
        }
    }

    /// Part of a fragment, from a position in it up to the end of a frame.
    #[inline]
    pub fn piece(&self, fragment: u32, position: u32) -> Option<Piece<'_>> {
        let mut raw = bindings::xen_skb_piece::default();
        // SAFETY: The packet is valid.
        unsafe { bindings::xen_skb_piece(self.raw.as_ptr(), fragment, position, &mut raw) }
            .then_some(Piece {
                pfn: raw.pfn,
                offset: raw.offset,
                length: raw.length,
                rest: raw.rest,
                _packet: PhantomData,
            })
    }

    /// Where it begins, for whoever goes through all of it, the packets included that it is a chain of.
    #[inline]
    pub fn start(&self) -> Cursor<'_> {
        let mut raw = bindings::xen_skb_cursor::default();
        // SAFETY: The packet is valid.
        unsafe { bindings::xen_skb_start(self.raw.as_ptr(), &mut raw) };
        Cursor {
            raw,
            _packet: PhantomData,
        }
    }

    /// The address that it is sent to; [`None`] if it has no Ethernet header.
    #[inline]
    pub fn destination(&self) -> Option<[u8; 6]> {
        let mut address = [0; 6];
        // SAFETY: The packet is valid, and there is room for an address.
        unsafe { bindings::xen_skb_destination(self.raw.as_ptr(), address.as_mut_ptr()) }
            .then_some(address)
    }

    /// From where to where it goes by IP, if it does; in a tunnel, from one end of it to the other.
    pub fn flow(&self) -> Option<Flow> {
        let mut raw = bindings::xen_skb_flow::default();
        // SAFETY: The packet is valid.
        if !unsafe { bindings::xen_skb_flow(self.raw.as_ptr(), &mut raw) } {
            return None;
        }
        let short = |address: [u8; 16]| {
            let [a, b, c, d, ..] = address;
            [a, b, c, d]
        };
        Some(Flow {
            addresses: if raw.is_v6 {
                Addresses::V6(raw.source, raw.destination)
            } else {
                Addresses::V4(short(raw.source), short(raw.destination))
            },
            ports: raw
                .is_tcp
                .then_some((raw.source_port, raw.destination_port)),
        })
    }

    /// Copies bytes from a position on to an offset of a page; [`false`] if the packet has not as many,
    /// or the page no room there.
    #[inline]
    #[must_use]
    pub fn copy_to(&self, position: u32, length: u32, page: &mut BouncePage, offset: u32) -> bool {
        let end = offset.checked_add(length);
        // CAST: A page is small.
        if end.is_none_or(|end| end > bindings::XEN_PAGE_SIZE as u32) {
            return false;
        }
        let (packet, frame) = (self.raw.as_ptr(), page.frame());
        // SAFETY: The packet and the page are valid, and the page has room.
        unsafe { bindings::xen_skb_copy_to_frame(packet, position, frame, offset, length) }
    }

    /// Takes the time of sending, if somebody wants to know. To be called just before the other end can
    /// see the packet.
    #[inline]
    pub fn take_time(&self) {
        // SAFETY: The packet is valid.
        unsafe { bindings::xen_skb_tx_timestamp(self.raw.as_ptr()) };
    }

    /// It was sent. `budget` is that of [`Poll::poll`], or 0 elsewhere.
    #[inline]
    pub fn sent(self, budget: u32) {
        // CAST: The kernel's budget is small.
        // SAFETY: The packet is valid, and this value gives it up.
        unsafe { bindings::xen_skb_consume(self.into_raw(), budget as c_int) };
    }
}

impl Drop for TxPacket {
    fn drop(&mut self) {
        // SAFETY: The packet is valid, and this value's.
        unsafe { bindings::xen_skb_drop(self.raw.as_ptr()) };
    }
}

/// A hash over a packet's addresses, made by the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// It.
    pub value: u32,
    /// Ports are in it, too.
    pub has_ports: bool,
}

/// What the other end says of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// The queue that it came by.
    pub queue: u16,
    /// Its checksum.
    pub checksum: Checksum,
    /// How it is to be cut up if it is passed on.
    pub gso: Option<Gso>,
    /// Its hash.
    pub hash: Option<Hash>,
}

impl Received {
    pub(super) fn as_raw(&self) -> bindings::xen_skb_received {
        let (gso_size, gso_type) = match self.gso {
            Some(Gso::TcpV4(size)) => (size, TCP_V4),
            Some(Gso::TcpV6(size)) => (size, TCP_V6),
            None => (0, 0),
        };
        let (hash, hash_type) = match self.hash {
            Some(hash) if hash.has_ports => (hash.value, bindings::pkt_hash_types_PKT_HASH_TYPE_L4),
            Some(hash) => (hash.value, bindings::pkt_hash_types_PKT_HASH_TYPE_L3),
            None => (0, 0),
        };
        bindings::xen_skb_received {
            queue: self.queue,
            checksum_blank: self.checksum == Checksum::Blank,
            checksum_good: self.checksum == Checksum::Good,
            gso_size,
            gso_type,
            hash,
            // CAST: One of a few.
            hash_type: hash_type as u8,
            ..Default::default()
        }
    }
}

/// A packet was dropped: its headers are not what the other end says that they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected(pub Error);

/// A packet that is being received. Dropped, it counts as lost.
///
/// # Invariants
///
/// `raw` is a packet that belongs to this value.
pub struct RxPacket {
    raw: NonNull<bindings::sk_buff>,
}

// SAFETY: Packets can be freed by any thread.
unsafe impl Send for RxPacket {}

impl RxPacket {
    /// Makes one without any byte, with room for `length` bytes in its head.
    #[inline]
    pub fn new<P: Poll>(napi: &Polling<'_, P>, length: u32) -> Option<Self> {
        // SAFETY: `napi` was added to its interface.
        let raw = unsafe { bindings::xen_skb_alloc(napi.as_raw(), length) };
        // INVARIANT: It was just made.
        Some(Self {
            raw: NonNull::new(raw)?,
        })
    }

    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        core::mem::ManuallyDrop::new(self).raw.as_ptr()
    }

    /// Appends bytes of a frame to the head, if there is room. Nothing may have been added behind it.
    #[inline]
    #[must_use]
    pub fn put(&mut self, frame: &impl Frame, offset: u32, length: u32) -> bool {
        let end = offset.checked_add(length);
        // CAST: A page is small.
        if end.is_none_or(|end| end > bindings::XEN_PAGE_SIZE as u32) {
            return false;
        }
        if length == 0 {
            return true;
        }
        // SAFETY: The packet is valid.
        if unsafe { bindings::xen_skb_tail_room(self.raw.as_ptr()) } < length {
            return false;
        }
        // SAFETY: There is room, and the frame has as many bytes. If the other domain is writing them
        // the copy is whatever it is.
        unsafe {
            bindings::xen_skb_put_frame(self.raw.as_ptr(), frame.frame(), offset, length);
        }
        true
    }

    /// Appends the headers of the packet that a page holds to the head, `most` bytes at most, and says how
    /// many bytes they are; [`None`] if there is no room. Nothing may have been put into it before.
    #[inline]
    pub fn put_headers<P: Poll>(
        &mut self,
        napi: &Polling<'_, P>,
        page: &PoolPage,
        offset: u32,
        length: u32,
        most: u32,
    ) -> Option<u32> {
        let end = offset.checked_add(length)?;
        // CAST: A page is small.
        if end > bindings::XEN_PAGE_SIZE as u32 {
            return None;
        }
        // SAFETY: The packet is valid.
        if unsafe { bindings::xen_skb_tail_room(self.raw.as_ptr()) } < most {
            return None;
        }
        let packet = self.raw.as_ptr();
        // SAFETY: All are valid, there is room, and the page has as many bytes.
        Some(unsafe {
            bindings::xen_skb_put_headers(napi.as_raw(), packet, page.frame(), offset, length, most)
        })
    }

    /// Makes room for bytes at the end of the head, if there is, and says where the first one is: the number
    /// of its frame and the offset there. The frames that follow have the next numbers. The bytes are
    /// whatever they were: they must be written before anybody sees them.
    #[inline]
    pub(super) fn put_room(&mut self, length: u32) -> Option<(usize, u32)> {
        // SAFETY: The packet is valid.
        if unsafe { bindings::xen_skb_tail_room(self.raw.as_ptr()) } < length {
            return None;
        }
        let mut offset = 0;
        // SAFETY: The packet is valid and has room.
        let pfn = unsafe { bindings::xen_skb_put_room(self.raw.as_ptr(), length, &mut offset) };
        Some((pfn, offset))
    }

    /// Adds part of a page behind what there is.
    ///
    /// # Errors
    ///
    /// The page, if the packet can have no more of them or the page has not as many bytes.
    #[inline]
    pub fn add(&mut self, page: PoolPage, offset: u32, length: u32) -> Result<(), PoolPage> {
        let end = offset.checked_add(length);
        // CAST: A page is small.
        if end.is_none_or(|end| end > bindings::XEN_PAGE_SIZE as u32) {
            return Err(page);
        }
        let raw = page.into_raw();
        // SAFETY: The packet is valid, and the part within the page, whose reference is handed over.
        if unsafe { bindings::xen_skb_add_page(self.raw.as_ptr(), raw.as_ptr(), offset, length) } {
            return Ok(());
        }
        // SAFETY: The page was not taken after all.
        Err(unsafe { PoolPage::from_raw(raw) })
    }

    /// Hands it to the network stack. Says whether its checksum had to be marked as blank, because it is
    /// to be cut up.
    ///
    /// # Errors
    ///
    /// It has no Ethernet header in its head, or the headers do not fit what is said of the packet.
    #[inline]
    pub fn receive<P: Poll>(
        self,
        napi: &Polling<'_, P>,
        received: &Received,
    ) -> Result<bool, Rejected> {
        let raw = received.as_raw();
        let mut verdict = bindings::xen_skb_verdict::default();
        let packet = self.into_raw();
        // SAFETY: `napi` is being polled, by this function's documentation, and the packet is valid and
        // given up.
        unsafe { bindings::xen_skb_receive(napi.as_raw(), packet, &raw, &mut verdict) };
        to_result(verdict.error).map_err(Rejected)?;
        Ok(verdict.fixed_up)
    }
}

impl Drop for RxPacket {
    fn drop(&mut self) {
        // SAFETY: The packet is valid, and this value's.
        unsafe { bindings::xen_skb_drop(self.raw.as_ptr()) };
    }
}
