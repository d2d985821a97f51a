// SPDX-License-Identifier: GPL-2.0

//! What the two ends agree on, and what the toolstack asks for.
//!
//! Pure logic: what was read from xenstore goes in, checked values come out. Tested on the host and by
//! KUnit.

use crate::netif::{
    is_on,
    parse_address,
    OffloadKeys,
    Offloads,
    MAX_PACKET, //
};
use core::fmt;

/// Most queues that an interface can have, whatever the backend offers.
pub(crate) const MAX_QUEUES: u32 = 256;

/// Bytes of a packet with the largest header, that of a VLAN, which do not count for the MTU.
const VLAN_HEADER_SIZE: u32 = 18;

/// The MTU of an interface that has not been told another one, and the largest one without packets of
/// several slots.
pub(crate) const ORDINARY_MTU: u32 = 1500;

/// The least MTU, by which IPv4 still works.
pub(crate) const LEAST_MTU: u32 = 68;

/// The largest MTU: packets of that, with their headers, can be expressed on the wire.
pub(crate) const MOST_MTU: u32 = MAX_PACKET - VLAN_HEADER_SIZE;

/// Why what was found in xenstore cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeatureError {
    /// The backend wants pages to change hands, which nobody does any more.
    RxCopy,
    /// There is no `mac`.
    NoAddress,
    /// `mac` is not an address.
    Address,
    /// `mtu` is out of range.
    Mtu(u32),
}

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Operators know this one.
            Self::RxCopy => f.write_str("backend does not support copying receive path"),
            Self::NoAddress => f.write_str("mac is missing"),
            Self::Address => f.write_str("mac is not an Ethernet address"),
            Self::Mtu(mtu) => write!(f, "mtu is {mtu}, not from {LEAST_MTU} to {MOST_MTU}"),
        }
    }
}

/// What a backend says that it can do, each under the name of its key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackendKeys {
    /// It serves so many queues.
    pub(crate) multi_queue_max_queues: Option<u32>,
    /// A queue may have an event channel for each ring.
    pub(crate) feature_split_event_channels: Option<u32>,
    /// It copies what is received to pages that it is offered.
    pub(crate) feature_rx_copy: Option<u32>,
    /// What kinds of packets it takes.
    pub(crate) offloads: OffloadKeys,
    /// It leaves bytes free before what is received.
    pub(crate) feature_xdp_headroom: Option<u32>,
    /// It sends only those multicast packets that were asked for, if that is wanted.
    pub(crate) feature_multicast_control: Option<u32>,
    /// ... and that may begin and end while the device is connected.
    pub(crate) feature_dynamic_multicast_control: Option<u32>,
    /// It has a control ring.
    pub(crate) feature_ctrl_ring: Option<u32>,
}

/// The queues of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queues {
    /// How many; at least one.
    pub(crate) count: u32,
    /// Their number is to be written to `multi-queue-num-queues`: the backend knows that key.
    pub(crate) announce: bool,
    /// The keys of each are in a directory of its own, `queue-0` and so on.
    pub(crate) own_directories: bool,
}

/// What a backend can do, as far as this side makes use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// The queues.
    pub(crate) queues: Queues,
    /// A queue may have an event channel for each ring.
    pub(crate) split_channels: bool,
    /// What kinds of packets the backend takes.
    pub(crate) offloads: Offloads,
    /// Bytes can be left free before what is received.
    pub(crate) xdp_headroom: bool,
    /// Whether multicast packets can be chosen, and how.
    pub(crate) multicast_control: MulticastControl,
    /// There may be a control ring.
    pub(crate) control_ring: bool,
}

/// Whether a backend sends only those multicast packets that were asked for, if that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MulticastControl {
    /// It always sends all.
    None,
    /// It must be wanted when the device is connected.
    Static,
    /// It may be wanted at any time.
    Dynamic,
}

impl BackendKeys {
    /// What the backend can do, and how many queues there are if this side allows so many.
    pub(crate) fn check(self, max_queues: u32) -> Result<Features, FeatureError> {
        if !is_on(self.feature_rx_copy) {
            return Err(FeatureError::RxCopy);
        }
        let theirs = self.multi_queue_max_queues.unwrap_or(1);
        let count = theirs.min(max_queues).clamp(1, MAX_QUEUES);
        let multicast = is_on(self.feature_multicast_control);
        let dynamic = is_on(self.feature_dynamic_multicast_control);
        Ok(Features {
            queues: Queues {
                count,
                announce: self.multi_queue_max_queues.is_some(),
                own_directories: count > 1,
            },
            split_channels: is_on(self.feature_split_event_channels),
            offloads: self.offloads.check(),
            xdp_headroom: is_on(self.feature_xdp_headroom),
            multicast_control: match (multicast, dynamic) {
                (_, true) => MulticastControl::Dynamic,
                (true, false) => MulticastControl::Static,
                (false, false) => MulticastControl::None,
            },
            control_ring: is_on(self.feature_ctrl_ring),
        })
    }
}

/// The interface's address, if this is the text of its `mac` key.
pub(crate) fn address(text: Option<&[u8]>) -> Result<[u8; 6], FeatureError> {
    parse_address(text.ok_or(FeatureError::NoAddress)?).ok_or(FeatureError::Address)
}

/// The interface's MTU at first, if its `mtu` key is this and packets may have several slots, or may not.
pub(crate) fn mtu(key: Option<u32>, sg: bool) -> Result<u32, FeatureError> {
    match key.unwrap_or(ORDINARY_MTU) {
        mtu @ LEAST_MTU..=MOST_MTU => Ok(mtu.min(most_mtu(sg))),
        mtu => Err(FeatureError::Mtu(mtu)),
    }
}

/// The largest MTU that the interface can have.
pub(crate) fn most_mtu(sg: bool) -> u32 {
    if sg {
        MOST_MTU
    } else {
        ORDINARY_MTU
    }
}

/// The largest MTU with a program that sees packets in one piece only, of no more than `room` bytes.
pub(crate) fn most_program_mtu(room: u32) -> u32 {
    room.saturating_sub(VLAN_HEADER_SIZE)
}

/// Whether the backend may see what else is in the pages that data is in: both the toolstack, by the key
/// `trusted`, and the user, by a parameter, have to trust it.
pub(crate) fn is_trusted(key: Option<u32>, parameter: bool) -> bool {
    parameter && key != Some(0)
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_features))]
mod tests {
    use super::*;

    const OFFLOADS: OffloadKeys = OffloadKeys {
        feature_sg: None,
        feature_gso_tcpv4: None,
        feature_gso_tcpv6: None,
        feature_no_csum_offload: None,
        feature_ipv6_csum_offload: None,
    };

    const COPY: BackendKeys = BackendKeys {
        multi_queue_max_queues: None,
        feature_split_event_channels: None,
        feature_rx_copy: Some(1),
        offloads: OFFLOADS,
        feature_xdp_headroom: None,
        feature_multicast_control: None,
        feature_dynamic_multicast_control: None,
        feature_ctrl_ring: None,
    };

    #[test]
    fn backends_that_say_little() {
        let least = Features {
            queues: Queues {
                count: 1,
                announce: false,
                own_directories: false,
            },
            split_channels: false,
            offloads: OFFLOADS.check(),
            xdp_headroom: false,
            multicast_control: MulticastControl::None,
            control_ring: false,
        };
        assert_eq!(COPY.check(8), Ok(least));
        for feature_rx_copy in [None, Some(0)] {
            let keys = BackendKeys {
                feature_rx_copy,
                ..COPY
            };
            assert_eq!(keys.check(8), Err(FeatureError::RxCopy));
        }
    }

    #[test]
    fn queues_are_what_both_allow() {
        for (theirs, ours, count) in [
            (1, 8, 1),
            (4, 8, 4),
            (8, 4, 4),
            (8, 8, 8),
            (0, 8, 1),
            (8, 0, 1),
            (u32::MAX, 8, 8),
            (u32::MAX, u32::MAX, MAX_QUEUES),
        ] {
            let keys = BackendKeys {
                multi_queue_max_queues: Some(theirs),
                ..COPY
            };
            let queues = Queues {
                count,
                announce: true,
                own_directories: count > 1,
            };
            assert_eq!(keys.check(ours).map(|features| features.queues), Ok(queues));
        }
    }

    #[test]
    fn every_choice() -> Result<(), FeatureError> {
        for bits in 0..1u32 << 6 {
            // Every number but 0 is on, and what is not there is off.
            for (on, off) in [(Some(1), None), (Some(u32::MAX), Some(0))] {
                let is_set = |bit: u32| (bits >> bit) & 1 != 0;
                let key = |bit| if is_set(bit) { on } else { off };
                let offloads = OffloadKeys {
                    feature_sg: key(1),
                    ..OFFLOADS
                };
                let keys = BackendKeys {
                    multi_queue_max_queues: Some(2),
                    feature_split_event_channels: key(0),
                    feature_rx_copy: on,
                    offloads,
                    feature_xdp_headroom: key(2),
                    feature_multicast_control: key(3),
                    feature_dynamic_multicast_control: key(4),
                    feature_ctrl_ring: key(5),
                };
                let features = keys.check(8)?;
                let multicast_control = match (is_set(3), is_set(4)) {
                    (_, true) => MulticastControl::Dynamic,
                    (true, false) => MulticastControl::Static,
                    (false, false) => MulticastControl::None,
                };
                let expected = Features {
                    queues: Queues {
                        count: 2,
                        announce: true,
                        own_directories: true,
                    },
                    split_channels: is_set(0),
                    offloads: offloads.check(),
                    xdp_headroom: is_set(2),
                    multicast_control,
                    control_ring: is_set(5),
                };
                assert_eq!(features, expected);
            }
        }
        Ok(())
    }

    #[test]
    fn addresses() {
        let expected = Ok([0x00, 0x16, 0x3e, 0x01, 0x02, 0xff]);
        assert_eq!(address(Some(b"00:16:3e:01:02:ff")), expected);
        assert_eq!(address(Some(b"00:16:3e:01:02")), Err(FeatureError::Address));
        assert_eq!(address(None), Err(FeatureError::NoAddress));
    }

    #[test]
    fn mtus() {
        for (key, with_sg, without) in [
            (None, Ok(1500), Ok(1500)),
            (Some(1500), Ok(1500), Ok(1500)),
            (Some(68), Ok(68), Ok(68)),
            (Some(9000), Ok(9000), Ok(1500)),
            (Some(65_517), Ok(65_517), Ok(1500)),
        ] {
            assert_eq!(mtu(key, true), with_sg);
            assert_eq!(mtu(key, false), without);
        }
        for junk in [0, 67, 65_518, 65_535, u32::MAX] {
            assert_eq!(mtu(Some(junk), true), Err(FeatureError::Mtu(junk)));
            assert_eq!(mtu(Some(junk), false), Err(FeatureError::Mtu(junk)));
        }
    }

    #[test]
    fn packets_of_programs_have_room() {
        assert_eq!(most_program_mtu(3520), 3502);
        assert!(most_program_mtu(3520) >= ORDINARY_MTU);
        assert_eq!(most_program_mtu(17), 0);
    }

    #[test]
    fn trust() {
        for parameter in [false, true] {
            assert_eq!(is_trusted(None, parameter), parameter);
            assert_eq!(is_trusted(Some(1), parameter), parameter);
            assert_eq!(is_trusted(Some(u32::MAX), parameter), parameter);
            assert!(!is_trusted(Some(0), parameter));
        }
    }

    #[test]
    fn errors_say_what_is() {
        use fmt::Write;

        struct Rest<'a>(&'a str);

        impl Write for Rest<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
                Ok(())
            }
        }

        for (error, text) in [
            (
                FeatureError::RxCopy,
                "backend does not support copying receive path",
            ),
            (FeatureError::NoAddress, "mac is missing"),
            (FeatureError::Address, "mac is not an Ethernet address"),
            (FeatureError::Mtu(9), "mtu is 9, not from 68 to 65517"),
        ] {
            let mut rest = Rest(text);
            assert!(write!(rest, "{error}").is_ok());
            assert_eq!(rest.0, "");
        }
    }
}
