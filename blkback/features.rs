// SPDX-License-Identifier: GPL-2.0

//! What the two ends agree on, and what the toolstack asks for.
//!
//! Pure logic: what was read from xenstore goes in, checked values come out. Tested on the host and by
//! KUnit.

use core::fmt;

/// What a frontend has chosen of what it was offered, and what it was offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingChoice {
    /// `multi-queue-num-queues`, if it is there.
    pub(crate) queues: Option<u32>,
    /// `multi-queue-max-queues`.
    pub(crate) max_queues: u32,
    /// `ring-page-order`, if it is there.
    pub(crate) order: Option<u32>,
    /// `max-ring-page-order`.
    pub(crate) max_order: u32,
}

/// The rings of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingLayout {
    /// How many rings, with a channel each.
    pub(crate) rings: u32,
    /// Pages of each.
    pub(crate) pages: u32,
    /// Whether the keys of each ring are in a directory of its own, `queue-0` and so on.
    pub(crate) own_directories: bool,
    /// Whether the keys of a ring's references have numbers: `ring-ref0` and so on.
    pub(crate) numbered: bool,
}

/// Why a frontend's choice cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceError {
    /// So many queues were asked for, of so many.
    Queues(u32, u32),
    /// Such an order was asked for, where this is the largest.
    Order(u32, u32),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queues(0, _) => f.write_str("guest requested 0 queues"),
            Self::Queues(queues, most) => write!(
                f,
                "guest requested {queues} queues, exceeding the maximum of {most}."
            ),
            Self::Order(order, most) => {
                write!(f, "requested ring page order {order} exceed max:{most}")
            }
        }
    }
}

impl RingChoice {
    /// The rings that the frontend has chosen.
    pub(crate) fn check(self) -> Result<RingLayout, ChoiceError> {
        let rings = self.queues.unwrap_or(1);
        if rings == 0 || rings > self.max_queues.max(1) {
            return Err(ChoiceError::Queues(rings, self.max_queues));
        }
        let order = self.order.unwrap_or(0);
        if order > self.max_order || order >= u32::BITS {
            return Err(ChoiceError::Order(order, self.max_order));
        }
        Ok(RingLayout {
            rings,
            pages: 1 << order,
            own_directories: rings > 1,
            numbered: self.order.is_some(),
        })
    }
}

/// Major and minor number that the hotplug script has written to `physical-device`.
pub(crate) fn parse_device(text: &[u8]) -> Option<(u32, u32)> {
    let text = text.trim_ascii();
    let colon = text.iter().position(|&byte| byte == b':')?;
    let (major, minor) = (text.get(..colon)?, text.get(colon + 1..)?);
    let (major, minor) = (parse_hex(major)?, parse_hex(minor)?);
    // What a device number has room for.
    (major < 1 << 12 && minor < 1 << 20).then_some((major, minor))
}

fn parse_hex(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 8 {
        return None;
    }
    let mut value = 0u32;
    for &byte in text {
        let digit = char::from(byte).to_digit(16)?;
        value = value.checked_mul(16)?.checked_add(digit)?;
    }
    Some(value)
}

/// Whether a disk with this `mode` may be written.
pub(crate) fn is_writable(mode: &[u8]) -> bool {
    mode.contains(&b'w')
}

/// Bits of the `info` key.
pub(crate) fn disk_info(cdrom: bool, removable: bool, read_only: bool) -> u32 {
    u32::from(cdrom) | u32::from(removable) << 1 | u32::from(read_only) << 2
}

/// Limits of the resources of a ring, from module parameters, of which a user can make anything.
pub(crate) fn limit(parameter: i32) -> usize {
    usize::try_from(parameter).unwrap_or(0)
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkback_features))]
mod tests {
    use super::*;

    const OFFER: RingChoice = RingChoice {
        queues: None,
        max_queues: 4,
        order: None,
        max_order: 4,
    };

    #[test]
    fn old_frontends_have_one_ring() {
        assert_eq!(
            OFFER.check(),
            Ok(RingLayout {
                rings: 1,
                pages: 1,
                own_directories: false,
                numbered: false,
            })
        );
    }

    #[test]
    fn one_queue_has_no_directory() {
        let choice = RingChoice {
            queues: Some(1),
            order: Some(0),
            ..OFFER
        };
        assert_eq!(
            choice.check(),
            Ok(RingLayout {
                rings: 1,
                pages: 1,
                own_directories: false,
                numbered: true,
            })
        );
    }

    #[test]
    fn as_many_queues_as_offered() {
        for queues in [0, 1, 2, 3, 4, 5, 6, u32::MAX] {
            let choice = RingChoice {
                queues: Some(queues),
                ..OFFER
            };
            match choice.check() {
                Ok(layout) => {
                    assert!((1..=4).contains(&queues));
                    assert_eq!(layout.rings, queues);
                    assert_eq!(layout.own_directories, queues > 1);
                }
                Err(error) => {
                    assert!(queues == 0 || queues > 4);
                    assert_eq!(error, ChoiceError::Queues(queues, 4));
                }
            }
        }
    }

    #[test]
    fn as_many_pages_as_offered() {
        for order in 0..=40 {
            for max_order in [0, 1, 4, 40] {
                let choice = RingChoice {
                    order: Some(order),
                    max_order,
                    ..OFFER
                };
                let expected = if order <= max_order && order < 32 {
                    Ok(1 << order)
                } else {
                    Err(ChoiceError::Order(order, max_order))
                };
                assert_eq!(choice.check().map(|layout| layout.pages), expected);
            }
        }
    }

    #[test]
    fn device_numbers() {
        for (text, number) in [
            (&b"fd:0"[..], Some((0xfd, 0))),
            (b"7:3\n", Some((7, 3))),
            (b"103:fFfFf", Some((0x103, 0xf_ffff))),
            (b"fff:fffff", Some((0xfff, 0xf_ffff))),
            (b"1000:0", None),
            (b"0:100000", None),
            (b"", None),
            (b":", None),
            (b"7", None),
            (b"7:", None),
            (b":7", None),
            (b"7:3:1", None),
            (b"-7:3", None),
            (b"7: 3", None),
            (b"0x7:3", None),
            (b"g:0", None),
            (b"123456789:0", None),
            (b"7:\xff", None),
        ] {
            assert_eq!(parse_device(text), number);
        }
    }

    #[test]
    fn modes() {
        assert!(is_writable(b"w"));
        assert!(is_writable(b"rw"));
        assert!(is_writable(b"w!"));
        assert!(!is_writable(b"r"));
        assert!(!is_writable(b""));
        assert!(!is_writable(b"R"));
    }

    #[test]
    fn bits_of_the_disk() {
        assert_eq!(disk_info(false, false, false), 0);
        assert_eq!(disk_info(true, false, false), 1);
        assert_eq!(disk_info(false, true, false), 2);
        assert_eq!(disk_info(false, false, true), 4);
        assert_eq!(disk_info(true, true, true), 7);
    }

    #[test]
    fn limits_are_never_negative() {
        assert_eq!(limit(1024), 1024);
        assert_eq!(limit(0), 0);
        assert_eq!(limit(-1), 0);
        assert_eq!(limit(i32::MIN), 0);
        assert_eq!(limit(i32::MAX), 0x7fff_ffff);
    }
}
