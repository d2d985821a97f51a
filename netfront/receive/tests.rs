// SPDX-License-Identifier: GPL-2.0

//! Tests of putting together what was received.

#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_receive))]
mod cases {
    use super::super::*;
    use crate::netif::{
        GsoKind,
        RxFlags, //
    };

    const GSO: Gso = Gso {
        size: 1448,
        kind: GsoKind::TcpV6,
    };

    const HASH: Hash = Hash {
        kind: 3,
        algorithm: 1,
        value: 0x1234_5678,
    };

    const NONE: RxFlags = RxFlags::new(0);

    /// Slots that a backend has published, and how many of them have been taken.
    struct Ring {
        slots: [RxSlot; 48],
        count: usize,
        taken: usize,
    }

    impl Ring {
        fn new() -> Self {
            Self {
                slots: [RxSlot::from_extra([0; 8]); 48],
                count: 0,
                taken: 0,
            }
        }

        fn push(&mut self, slot: RxSlot) {
            self.slots[self.count] = slot;
            self.count += 1;
        }

        fn data(&mut self, offset: u16, status: i16, flags: RxFlags) {
            let response = RxResponse {
                // It does not matter.
                id: 0xffff,
                offset,
                flags,
                status,
            };
            self.push(response.into());
        }

        fn extra(&mut self, extra: Extra, more: bool) {
            self.push(RxSlot::from_extra(extra.to_bytes(more)));
        }

        /// A packet of slots with data, the first one with so many bytes.
        fn packet(first: i16, count: usize) -> Self {
            let mut ring = Self::new();
            for index in 0..count {
                let status = if index == 0 { first } else { 100 };
                ring.data(0, status, NONE.with_more_data(index + 1 < count));
            }
            ring
        }

        fn collect(&mut self) -> Outcome {
            self.taken = 1;
            let (slots, taken) = (&self.slots[..self.count], &mut self.taken);
            let next = || {
                let slot = slots.get(*taken).copied();
                *taken += usize::from(slot.is_some());
                slot
            };
            collect(slots[0].response(), next)
        }
    }

    /// Collects what must be a packet.
    fn packet(ring: &mut Ring) -> Result<Packet, &'static str> {
        match ring.collect() {
            Outcome::Packet(packet) if packet.slots() == ring.taken => Ok(packet),
            Outcome::Packet(_) => Err("not the slots that were taken"),
            _ => Err("not a packet"),
        }
    }

    /// Why a packet is rejected, if all of its slots are accounted for.
    fn reason(ring: &mut Ring) -> Option<Reason> {
        match ring.collect() {
            Outcome::Rejected(rejected) if rejected.slots == ring.taken => Some(rejected.reason),
            _ => None,
        }
    }

    fn incomplete(ring: &mut Ring) -> Option<Reason> {
        match ring.collect() {
            Outcome::Incomplete(rejected) if rejected.slots == ring.taken => Some(rejected.reason),
            _ => None,
        }
    }

    const fn fragment(position: usize, offset: u32, length: u32) -> Fragment {
        Fragment {
            position,
            offset,
            length,
        }
    }

    #[test]
    fn a_slot_is_a_packet() -> Result<(), &'static str> {
        let mut ring = Ring::new();
        ring.data(2, 1514, NONE.with_checksum(Checksum::Blank));
        // It belongs to another packet.
        ring.data(0, 60, NONE);
        let packet = packet(&mut ring)?;
        assert_eq!(ring.taken, 1);
        assert_eq!(packet.fragments(), &[fragment(0, 2, 1514)]);
        assert_eq!(packet.length(), 1514);
        assert_eq!(packet.checksum, Checksum::Blank);
        assert_eq!(packet.gso, None);
        assert_eq!(packet.hash, None);
        assert_eq!(packet.unused().next(), None);
        Ok(())
    }

    #[test]
    fn extra_infos_use_no_buffers() -> Result<(), &'static str> {
        let mut ring = Ring::new();
        let flags = NONE.with_checksum(Checksum::Validated);
        ring.data(0, 4096, flags.with_more_data(true).with_extra_info(true));
        // The last one of a kind counts, and what is for backends does not.
        ring.extra(Extra::Gso(Gso { size: 1, ..GSO }), true);
        ring.extra(Extra::MulticastAdd([1; 6]), true);
        ring.extra(Extra::Hash(HASH), true);
        ring.extra(Extra::Gso(GSO), false);
        ring.data(0, 0, NONE.with_more_data(true));
        ring.data(96, 4000, NONE);
        let packet = packet(&mut ring)?;
        assert_eq!(ring.taken, 7);
        let fragments = [
            fragment(0, 0, 4096),
            fragment(5, 0, 0),
            fragment(6, 96, 4000),
        ];
        assert_eq!(packet.fragments(), &fragments);
        assert_eq!(packet.length(), 8096);
        assert_eq!(packet.checksum, Checksum::Validated);
        assert_eq!(packet.gso, Some(GSO));
        assert_eq!(packet.hash, Some(HASH));
        let mut unused = packet.unused();
        for position in 1..=5 {
            assert_eq!(unused.next(), Some(position));
        }
        assert_eq!(unused.next(), None);
        Ok(())
    }

    /// A packet behind space that was left before it, of two slots.
    fn spaced(headroom: u16, offset: u16, first: i16, second: i16) -> Ring {
        let mut ring = Ring::new();
        let flags = NONE.with_more_data(true).with_extra_info(true);
        ring.data(offset, first, flags);
        ring.extra(Extra::Xdp { headroom }, false);
        ring.data(offset, second, NONE);
        ring
    }

    #[test]
    fn space_before_a_packet_is_no_data() -> Result<(), &'static str> {
        let ring = packet(&mut spaced(256, 0, 4096, 1000))?;
        assert_eq!(
            ring.fragments(),
            &[fragment(0, 256, 3840), fragment(2, 256, 744)]
        );
        // All of it space.
        let ring = packet(&mut spaced(256, 0, 300, 256))?;
        assert_eq!(
            ring.fragments(),
            &[fragment(0, 256, 44), fragment(2, 256, 0)]
        );
        // Who says where the data is means it.
        let ring = packet(&mut spaced(256, 256, 3840, 1000))?;
        assert_eq!(
            ring.fragments(),
            &[fragment(0, 256, 3840), fragment(2, 256, 1000)]
        );
        let ring = packet(&mut spaced(0, 0, 4096, 1000))?;
        assert_eq!(
            ring.fragments(),
            &[fragment(0, 0, 4096), fragment(2, 0, 1000)]
        );
        Ok(())
    }

    #[test]
    fn space_is_a_part_of_what_came() {
        for (headroom, first, second, wrong) in [
            (256, 255, 1000, 255),
            (256, 1000, 0, 0),
            (4097, 4096, 4096, 4096),
            (u16::MAX, 1000, 1000, 1000),
        ] {
            let reason = reason(&mut spaced(headroom, 0, first, second));
            assert_eq!(reason, Some(Reason::Headroom(wrong, headroom)));
        }
    }

    #[test]
    fn as_many_slots_as_allowed() {
        for first in [0, 14, 256, 257, 4096] {
            let most = if first <= 256 { 19 } else { 18 };
            for count in 2..=40 {
                let mut ring = Ring::packet(first, count);
                match ring.collect() {
                    Outcome::Packet(packet) => {
                        assert!(count <= most);
                        assert_eq!(packet.slots(), count);
                        assert_eq!(packet.fragments().len(), count);
                    }
                    outcome => {
                        assert!(count > most);
                        let reason = Reason::SlotCount(count);
                        let slots = count;
                        assert_eq!(outcome, Outcome::Rejected(Rejected { reason, slots }));
                    }
                }
                assert_eq!(ring.taken, count);
            }
        }
    }

    #[test]
    fn pieces_stay_in_their_buffers() {
        for (offset, status, good) in [
            (0, 4096, true),
            (4096, 0, true),
            (4095, 1, true),
            (1, 4096, false),
            (4097, 0, false),
            (u16::MAX, i16::MAX, false),
            (0, -1, false),
            (0, i16::MIN, false),
        ] {
            let expected = (!good).then_some(Reason::Piece(offset, status));
            for place in [0, 1, 17] {
                let mut ring = Ring::packet(200, 18);
                let more = NONE.with_more_data(place < 17);
                ring.count = place;
                ring.data(offset, status, more);
                ring.count = 18;
                assert_eq!(reason(&mut ring), expected);
                assert_eq!(ring.taken, 18);
            }
        }
    }

    #[test]
    fn all_of_what_makes_no_sense_is_taken() {
        // What was wrong first counts, and the chain goes on.
        let mut ring = Ring::new();
        ring.data(0, -1, NONE.with_more_data(true).with_extra_info(true));
        ring.push(RxSlot::from_extra([0, 1, 0, 0, 0, 0, 0, 0]));
        ring.push(RxSlot::from_extra([1, 0, 0, 0, 1, 0, 0, 0]));
        ring.data(4096, 1, NONE);
        ring.data(0, 60, NONE);
        let expected = Reason::Extra(ExtraError::Type(0));
        assert_eq!(reason(&mut ring), Some(expected));
        assert_eq!(ring.taken, 4);
        for (bytes, error) in [
            ([6, 0, 0, 0, 0, 0, 0, 0], ExtraError::Type(6)),
            ([1, 0, 0, 0, 1, 0, 0, 0], ExtraError::GsoSize),
            ([1, 0, 1, 0, 3, 0, 0, 0], ExtraError::GsoKind(3)),
        ] {
            let mut ring = Ring::new();
            ring.data(0, 60, NONE.with_extra_info(true));
            ring.push(RxSlot::from_extra(bytes));
            assert_eq!(reason(&mut ring), Some(Reason::Extra(error)));
        }
    }

    #[test]
    fn what_is_announced_must_follow() {
        let mut whole = Ring::packet(200, 18);
        for count in 1..=17 {
            whole.count = count;
            assert_eq!(incomplete(&mut whole), Some(Reason::MissingSlot));
        }
        let mut ring = Ring::new();
        ring.data(0, 60, NONE.with_extra_info(true));
        assert_eq!(incomplete(&mut ring), Some(Reason::MissingExtra));
        ring.extra(Extra::Gso(GSO), true);
        assert_eq!(incomplete(&mut ring), Some(Reason::MissingExtra));
        // An endless chain ends where a ring does.
        let slot = RxSlot::from_extra(Extra::Gso(GSO).to_bytes(true));
        let first = ring.slots[0].response();
        let expected = |reason| Outcome::Incomplete(Rejected { reason, slots: 256 });
        let outcome = collect(first, || Some(slot));
        assert_eq!(outcome, expected(Reason::MissingExtra));
        let first = RxResponse {
            flags: NONE.with_more_data(true),
            ..first
        };
        let outcome = collect(first, || Some(first.into()));
        assert_eq!(outcome, expected(Reason::MissingSlot));
    }

    #[test]
    fn a_packet_has_a_header() {
        for length in 0..=20 {
            let mut ring = Ring::new();
            ring.data(0, length, NONE);
            let expected = (length < 14).then_some(Reason::NoHeader);
            assert_eq!(reason(&mut ring), expected);
        }
    }

    #[test]
    fn programs_see_packets_where_they_are() -> Result<(), &'static str> {
        let one = Sight {
            room: 3520,
            has_frags: false,
        };
        let several = Sight {
            has_frags: true,
            ..one
        };
        for (length, expected) in [(14, true), (3520, true), (3521, false), (4096, false)] {
            let packet = packet(&mut Ring::packet(length, 1))?;
            assert_eq!(is_seen(&packet, one), expected);
            assert!(is_seen(&packet, several));
        }
        let two = packet(&mut Ring::packet(1000, 2))?;
        assert!(!is_seen(&two, one) && is_seen(&two, several));
        let mut ring = Ring::new();
        ring.data(0, 1514, NONE.with_extra_info(true));
        ring.extra(Extra::Gso(GSO), false);
        let gso = packet(&mut ring)?;
        assert!(!is_seen(&gso, one) && !is_seen(&gso, several));
        Ok(())
    }

    #[test]
    fn whatever_comes_is_accounted_for() {
        let mut state = 0x1234_5678u32;
        let mut random = |limit: u32| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % limit
        };
        let mut seen = [0; 3];
        for _ in 0..5000 {
            let mut ring = Ring::new();
            for _ in 0..=random(40) {
                let (junk, status) = (random(0x1_0000) as u16, random(4097) as i16);
                match random(24) {
                    0 => ring.data(junk, status, NONE),
                    1 => ring.data(0, junk as i16, RxFlags::new(junk)),
                    2..=7 => {
                        let [low, high] = junk.to_le_bytes();
                        let kind = random(7) as u8;
                        let bytes = [kind, low & 1, low | 1, high & 1, 1, 0, 0, 0];
                        ring.push(RxSlot::from_extra(bytes));
                    }
                    _ => {
                        let flags = NONE.with_more_data(random(3) > 0);
                        let flags = flags.with_extra_info(random(3) == 0);
                        ring.data(0, status, flags);
                    }
                }
            }
            match ring.collect() {
                Outcome::Packet(packet) => {
                    seen[0] += 1;
                    assert_eq!(packet.slots(), ring.taken);
                    let mut positions = 1..ring.taken;
                    let mut length = 0;
                    for fragment in packet.fragments() {
                        assert!(fragment.offset + fragment.length <= 4096);
                        length += fragment.length;
                        // Each slot is a fragment or unused, or both if it is empty.
                        if fragment.position != 0 {
                            assert!(positions.next_back().is_some());
                        }
                    }
                    assert_eq!(length, packet.length());
                    assert!(length >= 14);
                    let extras = packet
                        .unused()
                        .take_while(|position| positions.next() == Some(*position));
                    let extras = extras.count();
                    assert_eq!(extras, ring.taken - packet.fragments().len());
                }
                Outcome::Rejected(rejected) => {
                    seen[1] += 1;
                    assert_eq!(rejected.slots, ring.taken);
                }
                Outcome::Incomplete(rejected) => {
                    seen[2] += 1;
                    assert_eq!(rejected.slots, ring.taken);
                    assert_eq!(ring.taken, ring.count);
                }
            }
        }
        // All of that has been tried.
        for count in seen {
            assert!(count > 100);
        }
    }
}
