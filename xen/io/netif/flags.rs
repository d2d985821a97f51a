// SPDX-License-Identifier: GPL-2.0

//! What the first slot of a packet says of it, and each slot of what follows.
//!
//! The two lowest bits mean the same for both directions, but not in the same order:
//!
//! | bit | to the backend ([`TxFlags`]) | to the frontend ([`RxFlags`]) |
//! |-----|------------------------------|-------------------------------|
//! | 0   | `csum_blank`                 | `data_validated`              |
//! | 1   | `data_validated`             | `csum_blank`                  |
//! | 2   | `more_data`                  | `more_data`                   |
//! | 3   | `extra_info`                 | `extra_info`                  |
//!
//! [`Checksum`] is what the two lowest bits say together, whichever the direction. A flag `gso_prefix`,
//! bit 4 to the frontend, is no longer used by anyone.

/// What is known of the checksum of a packet's transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: it is in the packet and may be wrong.
    #[default]
    Unknown,
    /// It is still to be made: in its place there is the sum over the pseudo header only. The data
    /// has not been on any wire yet.
    Blank,
    /// It is in the packet and has been found to be right.
    Validated,
}

macro_rules! flags {
    ($(#[$meta:meta])* $name:ident, csum_blank: $blank:literal, data_validated: $validated:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(u16);

        impl $name {
            const CSUM_BLANK: u16 = 1 << $blank;
            const DATA_VALIDATED: u16 = 1 << $validated;
            const MORE_DATA: u16 = 1 << 2;
            const EXTRA_INFO: u16 = 1 << 3;

            /// The flags that these bits are, those included that nobody knows.
            pub const fn new(bits: u16) -> Self {
                Self(bits)
            }

            /// The bits on the wire.
            pub const fn bits(self) -> u16 {
                self.0
            }

            /// What they say of the checksum. Blank counts for more than validated: Linux sets both
            /// for what has never been on a wire.
            pub const fn checksum(self) -> Checksum {
                if self.0 & Self::CSUM_BLANK != 0 {
                    Checksum::Blank
                } else if self.0 & Self::DATA_VALIDATED != 0 {
                    Checksum::Validated
                } else {
                    Checksum::Unknown
                }
            }

            /// Another slot with data of the packet follows.
            pub const fn has_more_data(self) -> bool {
                self.0 & Self::MORE_DATA != 0
            }

            /// An extra info follows.
            pub const fn has_extra_info(self) -> bool {
                self.0 & Self::EXTRA_INFO != 0
            }

            /// These flags, which say nothing of the checksum yet, with that.
            #[must_use]
            pub const fn with_checksum(self, checksum: Checksum) -> Self {
                match checksum {
                    Checksum::Unknown => self,
                    Checksum::Blank => Self(self.0 | Self::CSUM_BLANK | Self::DATA_VALIDATED),
                    Checksum::Validated => Self(self.0 | Self::DATA_VALIDATED),
                }
            }

            /// These flags, and that more data follows if so.
            #[must_use]
            pub const fn with_more_data(self, more: bool) -> Self {
                if more {
                    Self(self.0 | Self::MORE_DATA)
                } else {
                    self
                }
            }

            /// These flags, and that an extra info follows if so.
            #[must_use]
            pub const fn with_extra_info(self, extra: bool) -> Self {
                if extra {
                    Self(self.0 | Self::EXTRA_INFO)
                } else {
                    self
                }
            }
        }
    };
}

flags! {
    /// Flags of a slot that the frontend transmits.
    TxFlags, csum_blank: 0, data_validated: 1
}

flags! {
    /// Flags of a slot that the frontend receives.
    RxFlags, csum_blank: 1, data_validated: 0
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif_flags))]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_bits_are_swapped() {
        for (bits, to_backend, to_frontend) in [
            (0, Checksum::Unknown, Checksum::Unknown),
            (1, Checksum::Blank, Checksum::Validated),
            (2, Checksum::Validated, Checksum::Blank),
            (3, Checksum::Blank, Checksum::Blank),
        ] {
            // Other bits do not matter for that.
            for junk in [0, 0xfffc] {
                assert_eq!(TxFlags::new(bits | junk).checksum(), to_backend);
                assert_eq!(RxFlags::new(bits | junk).checksum(), to_frontend);
            }
        }
    }

    #[test]
    fn checksums_go_out_as_linux_says_them() {
        for (checksum, to_backend, to_frontend) in [
            (Checksum::Unknown, 0, 0),
            (Checksum::Blank, 3, 3),
            (Checksum::Validated, 2, 1),
        ] {
            let tx = TxFlags::default().with_checksum(checksum);
            assert_eq!(tx.bits(), to_backend);
            assert_eq!(tx.checksum(), checksum);
            let rx = RxFlags::default().with_checksum(checksum);
            assert_eq!(rx.bits(), to_frontend);
            assert_eq!(rx.checksum(), checksum);
        }
    }

    #[test]
    fn what_follows() {
        for bits in 0..=u16::MAX {
            let (tx, rx) = (TxFlags::new(bits), RxFlags::new(bits));
            assert_eq!(tx.bits(), bits);
            assert_eq!(rx.bits(), bits);
            assert_eq!(tx.has_more_data(), bits & 4 != 0);
            assert_eq!(rx.has_more_data(), bits & 4 != 0);
            assert_eq!(tx.has_extra_info(), bits & 8 != 0);
            assert_eq!(rx.has_extra_info(), bits & 8 != 0);
        }
        for (more, extra, bits) in [
            (false, false, 0),
            (true, false, 4),
            (false, true, 8),
            (true, true, 12),
        ] {
            let tx = TxFlags::default()
                .with_more_data(more)
                .with_extra_info(extra);
            assert_eq!(tx.bits(), bits);
            let rx = RxFlags::default()
                .with_more_data(more)
                .with_extra_info(extra);
            assert_eq!(rx.bits(), bits);
        }
    }
}
