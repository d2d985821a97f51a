// SPDX-License-Identifier: GPL-2.0

//! What the two ends agree on.
//!
//! Pure logic: what was read from xenstore goes in, checked values come out. Tested on the host and by
//! KUnit.

use crate::netif::{
    is_on,
    OffloadKeys,
    Offloads,
    FRAME_SIZE,
    HEADER_SIZE, //
};
use core::fmt;

/// Why what a frontend has written cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeatureError {
    /// So many queues were asked for, of so many.
    Queues(u32, u32),
    /// This key is missing.
    Missing(&'static str),
    /// Two rings have the same page, that of this reference.
    SharedRing(u32),
    /// The frontend wants pages to change hands, which nobody does any more.
    RxCopy,
}

impl fmt::Display for FeatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queues(queues, most) => write!(
                f,
                "guest requested {queues} queues, but valid range is 1 - {most}."
            ),
            Self::Missing(key) => write!(f, "{key} is missing"),
            Self::SharedRing(gref) => write!(f, "two rings have the reference {gref}"),
            Self::RxCopy => f.write_str("request-rx-copy is not set"),
        }
    }
}

/// How many queues a frontend has chosen, and how many it was offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueChoice {
    /// `multi-queue-num-queues`, if it is there.
    pub(crate) queues: Option<u32>,
    /// `multi-queue-max-queues`.
    pub(crate) max_queues: u32,
}

/// The queues of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLayout {
    /// How many; at least one.
    pub(crate) queues: u32,
    /// Whether the keys of each are in a directory of its own, `queue-0` and so on.
    pub(crate) own_directories: bool,
}

impl QueueChoice {
    /// The queues that the frontend has chosen.
    pub(crate) fn check(self) -> Result<QueueLayout, FeatureError> {
        let queues = self.queues.unwrap_or(1);
        let most = self.max_queues.max(1);
        if queues == 0 || queues > most {
            return Err(FeatureError::Queues(queues, most));
        }
        Ok(QueueLayout {
            queues,
            own_directories: queues > 1,
        })
    }
}

/// The event channels of a queue, as the frontend has written them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChannelKeys {
    /// `event-channel-tx`.
    pub(crate) tx: Option<u32>,
    /// `event-channel-rx`.
    pub(crate) rx: Option<u32>,
    /// `event-channel`.
    pub(crate) shared: Option<u32>,
}

/// The event channels of a queue, by the frontend's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// One for each ring.
    Split {
        /// That of the ring on which the guest transmits.
        tx: u32,
        /// That of the ring on which the guest receives.
        rx: u32,
    },
    /// One for both rings.
    Shared(u32),
}

impl ChannelKeys {
    /// The channels that a queue has: one for each ring, if there are both.
    pub(crate) fn check(self) -> Result<Channels, FeatureError> {
        match (self.tx, self.rx, self.shared) {
            (Some(tx), Some(rx), _) => Ok(Channels::Split { tx, rx }),
            (_, _, Some(port)) => Ok(Channels::Shared(port)),
            (Some(_), None, None) => Err(FeatureError::Missing("event-channel-rx")),
            (None, Some(_), None) => Err(FeatureError::Missing("event-channel-tx")),
            (None, None, None) => Err(FeatureError::Missing("event-channel")),
        }
    }
}

/// The control ring, as the frontend has written it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlKeys {
    /// `ctrl-ring-ref`.
    pub(crate) gref: Option<u32>,
    /// `event-channel-ctrl`.
    pub(crate) port: Option<u32>,
}

/// A control ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ControlRing {
    /// Grant reference of its page.
    pub(crate) gref: u32,
    /// The frontend's port of its channel.
    pub(crate) port: u32,
}

impl ControlKeys {
    /// The control ring, if there is one.
    pub(crate) fn check(self) -> Result<Option<ControlRing>, FeatureError> {
        match (self.gref, self.port) {
            (None, _) => Ok(None),
            (Some(gref), Some(port)) => Ok(Some(ControlRing { gref, port })),
            (Some(_), None) => Err(FeatureError::Missing("event-channel-ctrl")),
        }
    }
}

/// Whether each ring has a page of its own, by the grant references of all of a device's.
pub(crate) fn check_rings(
    mut grefs: impl Iterator<Item = u32> + Clone,
) -> Result<(), FeatureError> {
    while let Some(gref) = grefs.next() {
        if grefs.clone().any(|other| other == gref) {
            return Err(FeatureError::SharedRing(gref));
        }
    }
    Ok(())
}

/// Most bytes that are left free before what a guest receives: an Ethernet header still fits in behind.
///
/// Linux' C driver allows 32767, with which there is no room in a frame. A frontend is told of what is
/// left in fact, with each packet.
const MOST_HEADROOM: u32 = FRAME_SIZE - HEADER_SIZE;

/// How many bytes to leave free before what a guest receives, if its `xdp-headroom` is this: always so
/// few that a frame has room for more than them.
pub(crate) fn headroom(key: Option<u32>) -> u16 {
    // CAST: Less than a frame.
    key.unwrap_or(0).min(MOST_HEADROOM) as u16
}

/// What a frontend says that it can do, each under the name of its key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrontendKeys {
    /// It receives by having packets copied to pages that it offers.
    pub(crate) request_rx_copy: Option<u32>,
    /// It sends events when it offers pages.
    pub(crate) feature_rx_notify: Option<u32>,
    /// What kinds of packets it takes.
    pub(crate) offloads: OffloadKeys,
    /// It wants multicast packets only that it has asked for.
    pub(crate) request_multicast_control: Option<u32>,
    /// It wants so many bytes to be left free before packets.
    pub(crate) xdp_headroom: Option<u32>,
}

/// What a guest can receive, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Features {
    /// It sends events when it offers pages, so that they need not be looked for.
    pub(crate) rx_notify: bool,
    /// What kinds of packets the frontend takes.
    pub(crate) offloads: Offloads,
    /// Only multicast packets that were asked for are sent.
    pub(crate) multicast_control: bool,
    /// See [`headroom`].
    pub(crate) xdp_headroom: u16,
}

impl FrontendKeys {
    /// What the frontend can receive, and how.
    pub(crate) fn check(self) -> Result<Features, FeatureError> {
        if !is_on(self.request_rx_copy) {
            return Err(FeatureError::RxCopy);
        }
        Ok(Features {
            rx_notify: is_on(self.feature_rx_notify),
            offloads: self.offloads.check(),
            multicast_control: is_on(self.request_multicast_control),
            xdp_headroom: headroom(self.xdp_headroom),
        })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_features))]
mod tests {
    use super::*;

    #[test]
    fn as_many_queues_as_offered() {
        for (max_queues, most) in [(0, 1), (1, 1), (4, 4), (u32::MAX, u32::MAX)] {
            for queues in [0, 1, 2, 3, 4, 5, u32::MAX] {
                let choice = QueueChoice {
                    queues: Some(queues),
                    max_queues,
                };
                let expected = if (1..=most).contains(&queues) {
                    Ok(QueueLayout {
                        queues,
                        own_directories: queues > 1,
                    })
                } else {
                    Err(FeatureError::Queues(queues, most))
                };
                assert_eq!(choice.check(), expected);
            }
            // Old frontends have one.
            let choice = QueueChoice {
                queues: None,
                max_queues,
            };
            assert_eq!(choice.check().map(|layout| layout.queues), Ok(1));
        }
    }

    #[test]
    fn channels_of_a_queue() {
        for (tx, rx, shared, expected) in [
            (Some(1), Some(2), None, Ok(Channels::Split { tx: 1, rx: 2 })),
            (
                Some(1),
                Some(2),
                Some(3),
                Ok(Channels::Split { tx: 1, rx: 2 }),
            ),
            (None, None, Some(3), Ok(Channels::Shared(3))),
            (Some(1), None, Some(3), Ok(Channels::Shared(3))),
            (None, Some(2), Some(3), Ok(Channels::Shared(3))),
            (
                Some(1),
                None,
                None,
                Err(FeatureError::Missing("event-channel-rx")),
            ),
            (
                None,
                Some(2),
                None,
                Err(FeatureError::Missing("event-channel-tx")),
            ),
            (
                None,
                None,
                None,
                Err(FeatureError::Missing("event-channel")),
            ),
        ] {
            assert_eq!(ChannelKeys { tx, rx, shared }.check(), expected);
        }
    }

    #[test]
    fn control_rings() {
        for (gref, port, expected) in [
            (None, None, Ok(None)),
            (None, Some(2), Ok(None)),
            (Some(1), Some(2), Ok(Some(ControlRing { gref: 1, port: 2 }))),
            (
                Some(1),
                None,
                Err(FeatureError::Missing("event-channel-ctrl")),
            ),
        ] {
            assert_eq!(ControlKeys { gref, port }.check(), expected);
        }
    }

    #[test]
    fn each_ring_has_its_page() {
        for (grefs, expected) in [
            (&[][..], Ok(())),
            (&[8, 9], Ok(())),
            (&[8, 9, 10, 11, 0], Ok(())),
            (&[8, 8], Err(FeatureError::SharedRing(8))),
            (&[8, 9, 10, 9], Err(FeatureError::SharedRing(9))),
            (&[7, 8, 9, 10, 7], Err(FeatureError::SharedRing(7))),
        ] {
            assert_eq!(check_rings(grefs.iter().copied()), expected);
        }
    }

    #[test]
    fn room_before_packets() {
        for (key, expected) in [
            (None, 0),
            (Some(0), 0),
            (Some(256), 256),
            (Some(4082), 4082),
            (Some(4083), 4082),
            (Some(0x7fff), 4082),
            (Some(0x1_0000), 4082),
            (Some(u32::MAX), 4082),
        ] {
            assert_eq!(headroom(key), expected);
        }
    }

    const OFFLOADS: OffloadKeys = OffloadKeys {
        feature_sg: None,
        feature_gso_tcpv4: None,
        feature_gso_tcpv6: None,
        feature_no_csum_offload: None,
        feature_ipv6_csum_offload: None,
    };

    const COPY: FrontendKeys = FrontendKeys {
        request_rx_copy: Some(1),
        feature_rx_notify: None,
        offloads: OFFLOADS,
        request_multicast_control: None,
        xdp_headroom: None,
    };

    #[test]
    fn frontends_that_say_little() {
        let least = Features {
            rx_notify: false,
            offloads: OFFLOADS.check(),
            multicast_control: false,
            xdp_headroom: 0,
        };
        assert_eq!(COPY.check(), Ok(least));
        for request_rx_copy in [None, Some(0)] {
            let keys = FrontendKeys {
                request_rx_copy,
                ..COPY
            };
            assert_eq!(keys.check(), Err(FeatureError::RxCopy));
        }
    }

    #[test]
    fn every_choice() -> Result<(), FeatureError> {
        for bits in 0..1 << 3 {
            // Every number but 0 is on, and what is not there is off.
            for (on, off) in [(Some(1), None), (Some(u32::MAX), Some(0))] {
                let is_set = |bit: u32| (bits >> bit) & 1 != 0;
                let key = |bit| if is_set(bit) { on } else { off };
                let offloads = OffloadKeys {
                    feature_sg: key(1),
                    ..OFFLOADS
                };
                let keys = FrontendKeys {
                    request_rx_copy: on,
                    feature_rx_notify: key(0),
                    offloads,
                    request_multicast_control: key(2),
                    xdp_headroom: Some(bits),
                };
                let features = keys.check()?;
                let expected = Features {
                    rx_notify: is_set(0),
                    offloads: offloads.check(),
                    multicast_control: is_set(2),
                    xdp_headroom: bits as u16,
                };
                assert_eq!(features, expected);
            }
        }
        Ok(())
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
                FeatureError::Queues(9, 8),
                "guest requested 9 queues, but valid range is 1 - 8.",
            ),
            (
                FeatureError::Missing("event-channel"),
                "event-channel is missing",
            ),
            (
                FeatureError::SharedRing(8),
                "two rings have the reference 8",
            ),
            (FeatureError::RxCopy, "request-rx-copy is not set"),
        ] {
            let mut rest = Rest(text);
            assert!(write!(rest, "{error}").is_ok());
            assert_eq!(rest.0, "");
        }
    }
}
