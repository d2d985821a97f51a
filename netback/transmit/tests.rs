// SPDX-License-Identifier: GPL-2.0

//! Tests of taking apart what a guest transmits.

#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_transmit))]
mod cases {
    use super::super::*;
    use crate::netif::{
        GsoKind,
        TxFlags, //
    };

    const LIMITS: Limits = Limits { fatal_slots: 20 };

    const GSO: Gso = Gso {
        size: 1448,
        kind: GsoKind::TcpV4,
    };

    const HASH: Hash = Hash {
        kind: 1,
        algorithm: 1,
        value: 0x1234_5678,
    };

    /// Slots that a frontend has published, and how many of them have been taken.
    struct Ring {
        slots: [TxSlot; 48],
        count: usize,
        taken: usize,
    }

    impl Ring {
        fn new() -> Self {
            Self {
                slots: [TxSlot::from_extra([0; 8]); 48],
                count: 0,
                taken: 0,
            }
        }

        fn push(&mut self, slot: TxSlot) {
            self.slots[self.count] = slot;
            self.count += 1;
        }

        /// A request whose id is the number of its slot.
        fn data(&mut self, offset: u16, size: u16, flags: TxFlags) {
            let request = TxRequest {
                gref: 1000 + self.count as u32,
                offset,
                flags,
                id: self.count as u16,
                size,
            };
            self.push(request.into());
        }

        fn extra(&mut self, extra: Extra, more: bool) {
            self.push(TxSlot::from_extra(extra.to_bytes(more)));
        }

        /// A packet of which each further slot has `size` bytes at the start of its frame.
        fn packet(first: u16, further: usize, size: u16) -> Self {
            let mut ring = Self::new();
            let total = u32::from(first) + further as u32 * u32::from(size);
            // A length that is too large for its field is cut off, as some frontends do.
            ring.data(
                0,
                total as u16,
                TxFlags::default().with_more_data(further > 0),
            );
            for left in (0..further).rev() {
                ring.data(0, size, TxFlags::default().with_more_data(left > 0));
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
            collect(slots[0].request(), next, LIMITS)
        }

        /// Whether each slot that was taken has one answer of these, with `extras` behind the first one.
        fn is_answered(
            &self,
            responses: impl Iterator<Item = TxResponse>,
            extras: usize,
            status: Status,
        ) -> bool {
            let mut count = 0;
            for response in responses {
                let expected = if (1..=extras).contains(&count) {
                    TxResponse::null()
                } else {
                    TxResponse::new(self.slots[count].request().id, status)
                };
                if count >= self.taken || response != expected {
                    return false;
                }
                count += 1;
            }
            count == self.taken
        }
    }

    /// Collects what must be a packet.
    fn packet(ring: &mut Ring) -> Result<Packet, &'static str> {
        match ring.collect() {
            Outcome::Packet(packet) => Ok(packet),
            _ => Err("not a packet"),
        }
    }

    /// Why a packet is dropped, if all of its slots are answered.
    fn reason(ring: &mut Ring) -> Option<Reason> {
        match ring.collect() {
            Outcome::Drop(dropped)
                if ring.is_answered(dropped.responses(), dropped.extras, Status::Error) =>
            {
                Some(dropped.reason)
            }
            _ => None,
        }
    }

    fn fault(ring: &mut Ring) -> Option<Fault> {
        match ring.collect() {
            Outcome::Fatal(fault) => Some(fault),
            _ => None,
        }
    }

    #[test]
    fn a_slot_is_a_packet() -> Result<(), &'static str> {
        let mut ring = Ring::new();
        let flags = TxFlags::default().with_checksum(Checksum::Blank);
        ring.data(2582, 1514, flags);
        // It belongs to another packet.
        ring.data(0, 60, TxFlags::default());
        let packet = packet(&mut ring)?;
        assert_eq!(ring.taken, 1);
        assert_eq!(packet.length(), 1514);
        assert_eq!(packet.checksum, Checksum::Blank);
        assert_eq!(packet.gso, None);
        assert_eq!(packet.hash, None);
        let slot = Slot {
            id: 0,
            gref: 1000,
            offset: 2582,
            size: 1514,
        };
        assert_eq!(packet.slots(), &[slot]);
        assert!(ring.is_answered(packet.responses(Status::Okay), 0, Status::Okay));
        Ok(())
    }

    #[test]
    fn extra_infos_are_behind_the_first_slot() -> Result<(), &'static str> {
        let mut ring = Ring::new();
        let flags = TxFlags::default().with_checksum(Checksum::Validated);
        let flags = flags.with_more_data(true).with_extra_info(true);
        ring.data(96, 8000, flags);
        // The last one of a kind counts.
        let other = Gso { size: 1, ..GSO };
        ring.extra(Extra::Gso(other), true);
        ring.extra(Extra::Hash(HASH), true);
        ring.extra(Extra::Xdp { headroom: 256 }, true);
        ring.extra(Extra::Gso(GSO), false);
        ring.data(0, 4000, TxFlags::default());
        ring.data(0, 60, TxFlags::default());
        let packet = packet(&mut ring)?;
        assert_eq!(ring.taken, 6);
        assert_eq!(packet.extras(), 4);
        assert_eq!(packet.checksum, Checksum::Validated);
        assert_eq!(packet.gso, Some(GSO));
        assert_eq!(packet.hash, Some(HASH));
        assert_eq!(packet.slots().len(), 2);
        assert_eq!(packet.slots()[1].id, 5);
        assert!(ring.is_answered(packet.responses(Status::Dropped), 4, Status::Dropped));
        Ok(())
    }

    #[test]
    fn the_first_slot_has_what_the_others_leave() -> Result<(), &'static str> {
        for (first, further, size) in [(14, 1, 100), (1, 2, 7), (4096, 14, 4096), (0, 1, 14)] {
            let mut ring = Ring::packet(first, further, size);
            let packet = packet(&mut ring)?;
            assert_eq!(packet.slots()[0].size, first.into());
            let sum = packet.slots().iter().map(|slot| slot.size).sum::<u32>();
            assert_eq!(sum, packet.length());
        }
        Ok(())
    }

    #[test]
    fn empty_slots_are_slots() -> Result<(), &'static str> {
        let mut ring = Ring::packet(60, 18, 0);
        let packet = packet(&mut ring)?;
        assert_eq!(packet.length(), 60);
        assert_eq!(packet.slots().len(), 19);
        assert!(ring.is_answered(packet.responses(Status::Okay), 0, Status::Okay));
        Ok(())
    }

    #[test]
    fn as_many_slots_as_allowed() -> Result<(), &'static str> {
        for further in 0..=30 {
            let mut ring = Ring::packet(60, further, 100);
            match ring.collect() {
                Outcome::Packet(packet) => {
                    assert!(further <= 18);
                    assert_eq!(packet.slots().len(), further + 1);
                }
                Outcome::Drop(dropped) => {
                    assert!((19..=20).contains(&further));
                    assert_eq!(dropped.reason, Reason::SlotCount);
                    assert!(ring.is_answered(dropped.responses(), 0, Status::Error));
                }
                Outcome::Fatal(fault) => {
                    assert!(further > 20);
                    assert_eq!(fault, Fault::TooManySlots(20));
                }
                Outcome::Multicast(_) => return Err("no extra info says so"),
            }
        }
        Ok(())
    }

    #[test]
    fn limits_are_those_of_packets_and_rings() {
        for (wanted, limit) in [
            (0, 18),
            (17, 18),
            (18, 18),
            (20, 20),
            (255, 255),
            (256, 255),
            (u32::MAX, 255),
        ] {
            assert_eq!(Limits::new(wanted), Limits { fatal_slots: limit });
        }
        // An endless chain ends.
        let request = TxRequest {
            gref: 0,
            offset: 0,
            flags: TxFlags::default().with_more_data(true),
            id: 7,
            size: 14,
        };
        let outcome = collect(request, || Some(request.into()), Limits::new(u32::MAX));
        assert_eq!(outcome, Outcome::Fatal(Fault::TooManySlots(255)));
        let request = TxRequest {
            flags: request.flags.with_extra_info(true),
            ..request
        };
        let extra = Extra::Gso(GSO).to_bytes(true);
        let outcome = collect(request, || Some(TxSlot::from_extra(extra)), LIMITS);
        assert_eq!(outcome, Outcome::Fatal(Fault::MissingExtra));
    }

    #[test]
    fn lengths_that_cannot_be() {
        // 64 KiB and more, whose length is cut off.
        for first in [0, 1, 14, 4095, 4096] {
            for further in 16..=18 {
                let mut ring = Ring::packet(first, further, 4096);
                assert_eq!(reason(&mut ring), Some(Reason::SlotSize));
            }
        }
        for (first, further) in [(0, 0), (13, 0), (0, 13), (12, 1)] {
            let mut ring = Ring::packet(first, further, 1);
            assert_eq!(reason(&mut ring), Some(Reason::NoHeader));
        }
        // What was wrong first counts.
        let mut ring = Ring::packet(4096, 20, 4096);
        assert_eq!(reason(&mut ring), Some(Reason::SlotSize));
    }

    #[test]
    fn pieces_stay_in_their_frames() {
        for (offset, size, good) in [
            (0, 4096, true),
            (4095, 1, true),
            (4096, 0, true),
            (1, 4096, false),
            (4096, 1, false),
            (4097, 0, false),
            (u16::MAX, u16::MAX, false),
        ] {
            let expected = (!good).then_some(Fault::CrossesPage(offset.into(), size.into()));
            // In each place, the first one included, and among those that are too many.
            for place in [1, 2, 18, 19, 20] {
                let mut ring = Ring::new();
                let more = TxFlags::default().with_more_data(true);
                ring.data(0, u16::MAX, more);
                for _ in 1..place {
                    ring.data(0, 0, more);
                }
                ring.data(offset, size, TxFlags::default());
                // What is left for the first slot does not fit into its frame.
                let first = u32::from(u16::MAX - size);
                let first = (first > 4096 && place <= 18).then_some(Fault::CrossesPage(0, first));
                assert_eq!(fault(&mut ring), expected.or(first));
            }
            if size >= 14 {
                let mut ring = Ring::new();
                ring.data(offset, size, TxFlags::default());
                assert_eq!(fault(&mut ring), expected);
            }
        }
    }

    #[test]
    fn what_is_announced_must_follow() {
        let mut whole = Ring::packet(60, 20, 100);
        for count in 1..=20 {
            whole.count = count;
            assert_eq!(fault(&mut whole), Some(Fault::MissingSlot(count - 1)));
        }
        let mut ring = Ring::new();
        ring.data(0, 60, TxFlags::default().with_extra_info(true));
        assert_eq!(fault(&mut ring), Some(Fault::MissingExtra));
        ring.extra(Extra::Gso(GSO), true);
        assert_eq!(fault(&mut ring), Some(Fault::MissingExtra));
    }

    #[test]
    fn extra_infos_must_make_sense() {
        for (bytes, error) in [
            ([0; 8], ExtraError::Type(0)),
            ([6, 0, 0, 0, 0, 0, 0, 0], ExtraError::Type(6)),
            ([1, 0, 0, 0, 1, 0, 0, 0], ExtraError::GsoSize),
            ([1, 0, 1, 0, 0, 0, 0, 0], ExtraError::GsoKind(0)),
        ] {
            let mut ring = Ring::new();
            ring.data(0, 60, TxFlags::default().with_extra_info(true));
            ring.extra(Extra::Hash(HASH), true);
            ring.push(TxSlot::from_extra(bytes));
            assert_eq!(fault(&mut ring), Some(Fault::Extra(error)));
        }
    }

    #[test]
    fn multicast_is_no_packet() -> Result<(), &'static str> {
        let (one, other) = ([0x33, 0x33, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 0xfb]);
        let (add, delete) = (Extra::MulticastAdd(one), Extra::MulticastDelete(other));
        for (extras, change) in [
            (&[add][..], Change::Add(one)),
            (&[delete], Change::Delete(other)),
            (&[delete, add, Extra::Hash(HASH)], Change::Add(one)),
            (&[delete, Extra::MulticastDelete(one)], Change::Delete(one)),
        ] {
            let mut ring = Ring::new();
            // The size of what is no packet does not matter.
            ring.data(4096, 0, TxFlags::default().with_extra_info(true));
            for (place, extra) in (1..).zip(extras) {
                ring.extra(*extra, place < extras.len());
            }
            ring.data(0, 60, TxFlags::default());
            match ring.collect() {
                Outcome::Multicast(multicast) => {
                    assert_eq!(multicast.change, change);
                    let responses = multicast.responses(Status::Okay);
                    assert!(ring.is_answered(responses, extras.len(), Status::Okay));
                    assert_eq!(ring.taken, extras.len() + 1);
                }
                _ => return Err("not a request for no packet"),
            }
        }
        Ok(())
    }

    /// Numbers that look random.
    struct Random(u32);

    impl Random {
        fn below(&mut self, limit: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 17;
            self.0 ^= self.0 << 5;
            self.0 % limit
        }
    }

    /// A slot as a liar may write it, though not so often wrong that no packet ever is right.
    fn lie(random: &mut Random, ring: &mut Ring) {
        let flags = match random.below(8) {
            0 => random.below(0x1_0000) as u16,
            _ => random.below(16) as u16 & !(random.below(2) as u16 * 8),
        };
        let size = match random.below(8) {
            0 => random.below(0x1_0000),
            1 => 0,
            2 => random.below(20),
            _ => random.below(4096),
        } as u16;
        let offset = match random.below(16) {
            0 => random.below(0x1_0000) as u16,
            _ => 4096u16.saturating_sub(size),
        };
        match random.below(4) {
            0 => ring.push(TxSlot::from_extra([
                random.below(7) as u8,
                random.below(2) as u8,
                random.below(3) as u8,
                0,
                random.below(4) as u8,
                0,
                0,
                0,
            ])),
            _ => ring.data(offset, size, TxFlags::new(flags)),
        }
    }

    #[test]
    fn whatever_comes_is_answered_once() {
        let mut random = Random(0x1234_5678);
        let mut seen = [0; 4];
        for _ in 0..5000 {
            let mut ring = Ring::new();
            for _ in 0..=random.below(40) {
                lie(&mut random, &mut ring);
            }
            match ring.collect() {
                Outcome::Packet(packet) => {
                    seen[0] += 1;
                    let status = Status::Okay;
                    assert!(ring.is_answered(packet.responses(status), packet.extras(), status));
                    assert!((1..=19).contains(&packet.slots().len()));
                    assert!((14..=0xffff).contains(&packet.length()));
                    let mut sum = 0;
                    for slot in packet.slots() {
                        assert!(slot.offset + slot.size <= 4096);
                        sum += slot.size;
                    }
                    assert_eq!(sum, packet.length());
                }
                Outcome::Multicast(multicast) => {
                    seen[1] += 1;
                    let responses = multicast.responses(Status::Error);
                    assert!(ring.is_answered(responses, ring.taken - 1, Status::Error));
                }
                Outcome::Drop(dropped) => {
                    seen[2] += 1;
                    let responses = dropped.responses();
                    assert!(ring.is_answered(responses, dropped.extras, Status::Error));
                }
                Outcome::Fatal(_) => seen[3] += 1,
            }
        }
        // All of that has been tried.
        for count in seen {
            assert!(count > 20);
        }
    }
}
