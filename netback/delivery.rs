// SPDX-License-Identifier: GPL-2.0

//! How a packet is laid out in the frames that a guest has offered.
//!
//! Each slot is the answer to one request: the first with data, then the extra infos, whose frames are left
//! alone, then the others with data. In each frame the guest may want some bytes to be left free before
//! the data. The length that a slot tells counts them, as Linux' C driver has it.
//!
//! Pure logic, tested on the host and by KUnit.

use crate::netif::{
    Checksum,
    Extra,
    Gso,
    Hash,
    RxFlags,
    RxResponse,
    RxSlot,
    FRAME_SIZE, //
};

/// Most extra infos of a packet.
pub(crate) const MOST_EXTRAS: u32 = 3;

/// What is said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// Its length in bytes.
    pub(crate) length: u32,
    /// What is known of its checksum.
    pub(crate) checksum: Checksum,
    /// How it is to be cut into several.
    pub(crate) gso: Option<Gso>,
    /// The hash of its flow, if the guest wants to know.
    pub(crate) hash: Option<Hash>,
}

/// A packet on its way to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    what: Description,
    /// Bytes before the data of each frame; less than a frame.
    headroom: u32,
}

impl Delivery {
    /// `headroom` bytes are left free in each frame; that must be less than a frame has, or is as if nothing
    /// were to be left free.
    pub(crate) fn new(what: Description, headroom: u32) -> Self {
        Self {
            what,
            headroom: if headroom < FRAME_SIZE { headroom } else { 0 },
        }
    }

    /// Where in each frame the data starts, in bytes.
    #[inline]
    pub(crate) fn headroom(&self) -> u32 {
        self.headroom
    }

    /// How many bytes of data each frame has room for; at least one.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        FRAME_SIZE - self.headroom
    }

    /// How many slots with data it takes.
    #[inline]
    fn data_slots(&self) -> u32 {
        self.what.length.div_ceil(self.room()).max(1)
    }

    fn extra_infos(&self) -> [Option<Extra>; MOST_EXTRAS as usize] {
        // CAST: Less than a frame.
        let headroom = self.headroom as u16;
        [
            self.what.gso.map(Extra::Gso),
            self.what.hash.map(Extra::Hash),
            (headroom > 0).then_some(Extra::Xdp { headroom }),
        ]
    }

    fn extra_slots(&self) -> u32 {
        // CAST: At most three.
        self.extra_infos().into_iter().flatten().count() as u32
    }

    /// How many requests it takes.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.data_slots().saturating_add(self.extra_slots())
    }

    /// The slots of the extra infos, in order.
    pub(crate) fn extras(&self) -> impl Iterator<Item = RxSlot> {
        let mut left = self.extra_slots();
        self.extra_infos().into_iter().flatten().map(move |extra| {
            left = left.saturating_sub(1);
            RxSlot::from_extra(extra.to_bytes(left > 0))
        })
    }

    /// The answer to the request `id`, to whose frame `filled` bytes are copied. `before` bytes of the
    /// packet have gone to others before.
    pub(crate) fn response(&self, id: u16, before: u32, filled: u32) -> RxSlot {
        let rest = self
            .what
            .length
            .saturating_sub(before)
            .saturating_sub(filled);
        let flags = RxFlags::new(0).with_more_data(rest > 0);
        let flags = if before == 0 {
            flags
                .with_checksum(self.what.checksum)
                .with_extra_info(self.extra_slots() > 0)
        } else {
            flags
        };
        RxResponse {
            id,
            offset: 0,
            flags,
            // CAST: At most a frame.
            status: self.headroom.saturating_add(filled).min(FRAME_SIZE) as i16,
        }
        .into()
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_delivery))]
mod tests {
    use super::*;
    use crate::netif::GsoKind;

    const PLAIN: Description = Description {
        length: 1514,
        checksum: Checksum::Unknown,
        gso: None,
        hash: None,
    };

    const GSO: Gso = Gso {
        size: 1448,
        kind: GsoKind::TcpV4,
    };

    const HASH: Hash = Hash {
        kind: 1,
        algorithm: 1,
        value: 0x1234_5678,
    };

    #[test]
    fn as_many_slots_as_are_needed() {
        for (length, headroom, slots) in [
            (14, 0, 1),
            (4096, 0, 1),
            (4097, 0, 2),
            (65_550, 0, 17),
            // The room before the data takes an extra info.
            (3840, 256, 2),
            (3841, 256, 3),
            (65_550, 256, 19),
            (65_550, 4082, 4684),
            // That cannot be.
            (4096, 4096, 1),
            (4096, u32::MAX, 1),
        ] {
            let what = Description { length, ..PLAIN };
            assert_eq!(Delivery::new(what, headroom).slots(), slots);
        }
        let what = Description {
            gso: Some(GSO),
            hash: Some(HASH),
            ..PLAIN
        };
        assert_eq!(Delivery::new(what, 0).slots(), 3);
        assert_eq!(Delivery::new(what, 256).slots(), 4);
    }

    #[test]
    fn a_plain_packet() {
        let delivery = Delivery::new(PLAIN, 0);
        assert_eq!(delivery.extras().count(), 0);
        let response = delivery.response(7, 0, 1514).response();
        assert_eq!(response.id, 7);
        assert_eq!(response.offset, 0);
        assert_eq!(response.flags, RxFlags::new(0));
        assert_eq!(response.status, 1514);
    }

    #[test]
    fn a_packet_with_everything() {
        let what = Description {
            length: 8000,
            checksum: Checksum::Blank,
            gso: Some(GSO),
            hash: Some(HASH),
        };
        let delivery = Delivery::new(what, 256);
        let first = delivery.response(1, 0, 3840).response();
        let flags = RxFlags::new(0)
            .with_checksum(Checksum::Blank)
            .with_more_data(true)
            .with_extra_info(true);
        assert_eq!(first.flags, flags);
        assert_eq!(first.status, 4096);

        let expected = [
            Extra::Gso(GSO).to_bytes(true),
            Extra::Hash(HASH).to_bytes(true),
            Extra::Xdp { headroom: 256 }.to_bytes(false),
        ];
        let mut expected = expected.into_iter();
        for slot in delivery.extras() {
            assert_eq!(Some(slot.extra()), expected.next());
        }
        assert_eq!(expected.next(), None);

        let second = delivery.response(2, 3840, 3840).response();
        assert_eq!(second.flags, RxFlags::new(0).with_more_data(true));
        let third = delivery.response(3, 7680, 320).response();
        assert_eq!(third.flags, RxFlags::new(0));
        assert_eq!(third.status, 576);
    }
}
