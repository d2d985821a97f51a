// SPDX-License-Identifier: GPL-2.0

//! Tests of decoding.

#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkif_back))]
mod cases {
    use super::super::*;

    /// Writes requests of both layouts, field by field.
    #[derive(Clone, Copy)]
    struct Slot {
        bytes: [u8; MAX_SLOT_SIZE],
        narrow: bool,
    }

    impl Slot {
        fn new(narrow: bool, operation: u8, second: u8) -> Self {
            let mut slot = Self {
                bytes: [0x5a; MAX_SLOT_SIZE],
                narrow,
            };
            slot.put(0, &[operation, second]);
            slot.put(if narrow { 4 } else { 8 }, &ID.to_le_bytes());
            slot.put(if narrow { 12 } else { 16 }, &SECTOR.to_le_bytes());
            slot
        }

        fn put(&mut self, offset: usize, bytes: &[u8]) {
            for (to, from) in self.bytes.iter_mut().skip(offset).zip(bytes) {
                *to = *from;
            }
        }

        fn put_segment(&mut self, index: usize, gref: u32, first: u8, last: u8) {
            let offset = if self.narrow { 20 } else { 24 } + index * 8;
            self.put(offset, &gref.to_le_bytes());
            self.put(offset + 4, &[first, last]);
        }

        fn decode(&self) -> Result<Request, (Answer, Malformed)> {
            if self.narrow {
                let mut words = [0u32; 27];
                for (word, bytes) in words.iter_mut().zip(self.bytes.chunks_exact(4)) {
                    *word = u32::from_ne_bytes(field(bytes, 0));
                }
                decode::<Narrow>(&words)
            } else {
                let mut words = [0u64; 14];
                for (word, bytes) in words.iter_mut().zip(self.bytes.chunks_exact(8)) {
                    *word = u64::from_ne_bytes(field(bytes, 0));
                }
                decode::<Wide>(&words)
            }
        }
    }

    const ID: u64 = 0x1122_3344_5566_7788;
    const SECTOR: u64 = 0x99aa_bbcc_ddee_ff00;

    fn refused(operation: u8, malformed: Malformed) -> (Answer, Malformed) {
        let answer = Answer {
            id: ID,
            operation,
            status: malformed.status(),
        };
        (answer, malformed)
    }

    #[test]
    fn every_operation_and_count() {
        for narrow in [false, true] {
            for operation in 0..=u8::MAX {
                for count in 0..=u8::MAX {
                    let result = Slot::new(narrow, operation, count).decode();
                    let malformed = match (operation, count) {
                        (0..=1, 1..=11) | (2..=3, 0..=11) | (5, _) => None,
                        (0..=3, _) => Some(Malformed::SegmentCount(count.into())),
                        // What follows is filled with 0x5a, too many segments.
                        (6, 0..=1) => Some(Malformed::SegmentCount(0x5a5a)),
                        (6, _) => Some(Malformed::IndirectOperation(count)),
                        _ => Some(Malformed::Operation(operation)),
                    };
                    match (malformed, result) {
                        (None, Ok(request)) => {
                            assert_eq!(request.id, ID);
                            assert_eq!(request.operation, operation);
                            assert_eq!(request.sector, SECTOR);
                        }
                        (Some(malformed), Err(refusal)) => {
                            let named = if operation == 6 { count } else { operation };
                            assert_eq!(refusal, refused(named, malformed));
                        }
                        _ => assert!(false),
                    }
                }
            }
        }
    }

    #[test]
    fn segments_of_a_request() {
        for narrow in [false, true] {
            let mut slot = Slot::new(narrow, 1, 11);
            for index in 0..11u8 {
                slot.put_segment(index.into(), 0xdead_0000 + u32::from(index), index, 200);
            }
            let Ok(Request {
                wish: Wish::Direct(Transfer::Write, segments),
                ..
            }) = slot.decode()
            else {
                assert!(false);
                continue;
            };
            assert_eq!(segments.as_slice().len(), 11);
            for (index, segment) in segments.as_slice().iter().enumerate() {
                assert_eq!(segment.gref, 0xdead_0000 + index as u32);
                assert_eq!(segment.sectors(), (index as u8, 200));
            }
        }
    }

    #[test]
    fn only_as_many_segments_as_it_says() {
        for narrow in [false, true] {
            for count in 1..=11 {
                let slot = Slot::new(narrow, 0, count);
                assert!(matches!(
                    slot.decode(),
                    Ok(Request { wish: Wish::Direct(Transfer::Read, segments), .. })
                        if segments.as_slice().len() == usize::from(count)
                ));
            }
        }
    }

    #[test]
    fn discards() {
        for narrow in [false, true] {
            for flags in 0..=u8::MAX {
                let mut slot = Slot::new(narrow, 5, flags);
                slot.put(if narrow { 20 } else { 24 }, &u64::MAX.to_le_bytes());
                assert!(matches!(
                    slot.decode(),
                    Ok(Request {
                        operation: 5,
                        wish: Wish::Discard { sectors: u64::MAX, secure },
                        ..
                    }) if secure == (flags & 1 != 0)
                ));
            }
        }
    }

    #[test]
    fn indirect_requests() {
        for narrow in [false, true] {
            for inner in 0..=1 {
                for count in 0..=u16::MAX {
                    let mut slot = Slot::new(narrow, 6, inner);
                    slot.put(2, &count.to_le_bytes());
                    for index in 0..8u32 {
                        let offset = if narrow { 24 } else { 28 } + index as usize * 4;
                        slot.put(offset, &(index + 1000).to_le_bytes());
                    }
                    let result = slot.decode();
                    if count == 0 || count > 4096 {
                        let malformed = Malformed::SegmentCount(count.into());
                        assert_eq!(result.err(), Some(refused(inner, malformed)));
                        continue;
                    }
                    // The answer names what it is for.
                    let Ok(Request {
                        operation,
                        wish:
                            Wish::Indirect {
                                transfer,
                                count: segments,
                                grefs,
                            },
                        ..
                    }) = result
                    else {
                        assert!(false);
                        continue;
                    };
                    assert_eq!(operation, inner);
                    assert_eq!(transfer.writes(), inner == 1);
                    assert_eq!(segments, usize::from(count));
                    assert_eq!(grefs, [1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007]);
                }
            }
        }
    }

    #[test]
    fn descriptors_in_a_frame() {
        let mut bytes = [0u8; 8 * 3 + 5];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8;
        }
        let mut found = segments(&bytes);
        assert_eq!(
            found.next().map(|s| (s.gref, s.sectors())),
            Some((0x0302_0100, (4, 5)))
        );
        assert_eq!(
            found.next().map(|s| (s.gref, s.sectors())),
            Some((0x0b0a_0908, (12, 13)))
        );
        assert_eq!(
            found.next().map(|s| (s.gref, s.sectors())),
            Some((0x1312_1110, (20, 21)))
        );
        assert!(found.next().is_none());
    }

    #[test]
    fn spans_of_segments() {
        for first in 0..=u8::MAX {
            for last in 0..=u8::MAX {
                let found = segment([1, 0, 0, 0, first, last, 0xff, 0xff]);
                let expected = (first <= last && last < 8).then(|| {
                    (
                        u32::from(first) * 512,
                        (u32::from(last) - u32::from(first) + 1) * 512,
                    )
                });
                assert_eq!(found.span(), expected);
            }
        }
    }

    #[test]
    fn answers() {
        let answer = |status| Answer {
            id: ID,
            operation: 3,
            status,
        };
        for (status, value) in [
            (Status::Okay, 0),
            (Status::Error, -1),
            (Status::NotSupported, -2),
        ] {
            let wide = Wide::response(answer(status));
            assert_eq!((wide.id, wide.operation, wide.status), (ID, 3, value));
            let narrow = Narrow::response(answer(status));
            assert_eq!(narrow.id, [0x5566_7788, 0x1122_3344]);
            assert_eq!((narrow.operation, narrow.status), (3, value));
            assert_eq!(narrow.padding, 0);
        }
    }

    #[test]
    fn names_of_layouts() {
        assert_eq!(Abi::parse(Some(b"x86_32-abi")), Some(Abi::X86_32));
        assert_eq!(
            Abi::parse(Some(super::super::super::PROTOCOL.as_bytes())),
            Some(Abi::Native)
        );
        for junk in [
            &b""[..],
            b"x86",
            b"x86_32-abi-",
            b"x86_16-abi",
            b"\xff",
            b"native",
        ] {
            assert_eq!(Abi::parse(Some(junk)), None);
        }
        if cfg!(target_arch = "x86_64") {
            assert_eq!(Abi::parse(None), Some(Abi::X86_32));
            assert_eq!(Abi::parse(Some(b"arm-abi")), None);
        }
    }
}
