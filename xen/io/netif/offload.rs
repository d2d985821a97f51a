// SPDX-License-Identifier: GPL-2.0

//! What kinds of packets an end takes. Each end says that of itself, under the same keys.
//!
//! Pure logic, tested on the host and by KUnit.

use core::ffi::CStr;

/// What an end says of the packets that it takes, each under the name of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadKeys {
    /// It takes packets of several slots.
    pub feature_sg: Option<u32>,
    /// It takes packets that are to be cut into several of TCP over IPv4.
    pub feature_gso_tcpv4: Option<u32>,
    /// It takes packets that are to be cut into several of TCP over IPv6.
    pub feature_gso_tcpv6: Option<u32>,
    /// It does not take packets over IPv4 whose checksum is blank.
    pub feature_no_csum_offload: Option<u32>,
    /// It takes packets over IPv6 whose checksum is blank.
    pub feature_ipv6_csum_offload: Option<u32>,
}

/// What kinds of packets an end takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Packets may have several slots.
    pub sg: bool,
    /// Packets may have to be cut into several of TCP over IPv4.
    pub gso_v4: bool,
    /// Packets may have to be cut into several of TCP over IPv6.
    pub gso_v6: bool,
    /// The checksum of packets over IPv4 may be blank.
    pub csum_v4: bool,
    /// The checksum of packets over IPv6 may be blank.
    pub csum_v6: bool,
}

/// A switch that is off if it is not there.
#[inline]
pub fn is_on(key: Option<u32>) -> bool {
    key.unwrap_or(0) != 0
}

impl OffloadKeys {
    /// Reads them, each by `number`.
    ///
    /// # Errors
    ///
    /// What `number` says.
    pub fn read<E>(number: impl Fn(&'static CStr) -> Result<Option<u32>, E>) -> Result<Self, E> {
        Ok(Self {
            feature_sg: number(c"feature-sg")?,
            feature_gso_tcpv4: number(c"feature-gso-tcpv4")?,
            feature_gso_tcpv6: number(c"feature-gso-tcpv6")?,
            feature_no_csum_offload: number(c"feature-no-csum-offload")?,
            feature_ipv6_csum_offload: number(c"feature-ipv6-csum-offload")?,
        })
    }

    /// What they come to. Whoever takes packets that are to be cut takes them in several slots and with a
    /// blank checksum, or not at all.
    pub fn check(self) -> Offloads {
        let sg = is_on(self.feature_sg);
        let csum_v4 = !is_on(self.feature_no_csum_offload);
        let csum_v6 = is_on(self.feature_ipv6_csum_offload);
        Offloads {
            sg,
            gso_v4: is_on(self.feature_gso_tcpv4) && sg && csum_v4,
            gso_v6: is_on(self.feature_gso_tcpv6) && sg && csum_v6,
            csum_v4,
            csum_v6,
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif_offload))]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_says_nothing() {
        let least = Offloads {
            csum_v4: true,
            ..Offloads::default()
        };
        assert_eq!(OffloadKeys::default().check(), least);
    }

    #[test]
    fn every_choice() {
        const NAMES: [&CStr; 5] = [
            c"feature-sg",
            c"feature-gso-tcpv4",
            c"feature-gso-tcpv6",
            c"feature-no-csum-offload",
            c"feature-ipv6-csum-offload",
        ];
        for bits in 0..1u32 << NAMES.len() {
            // Every number but 0 is on, and what is not there is off.
            for (on, off) in [(Some(1), None), (Some(u32::MAX), Some(0))] {
                let is_set = |bit: u32| (bits >> bit) & 1 != 0;
                let keys = OffloadKeys::read(|name| {
                    let bit = (0..).zip(NAMES).find(|(_, known)| *known == name);
                    let (bit, _) = bit.ok_or("another key")?;
                    Ok::<_, &str>(if is_set(bit) { on } else { off })
                });
                let expected = Offloads {
                    sg: is_set(0),
                    gso_v4: is_set(0) && is_set(1) && !is_set(3),
                    gso_v6: is_set(0) && is_set(2) && is_set(4),
                    csum_v4: !is_set(3),
                    csum_v6: is_set(4),
                };
                assert_eq!(keys.map(OffloadKeys::check), Ok(expected));
            }
        }
    }

    #[test]
    fn an_unreadable_key_is_an_error() {
        assert_eq!(OffloadKeys::read(Err::<Option<u32>, _>), Err(c"feature-sg"));
    }
}
