// SPDX-License-Identifier: GPL-2.0

//! What is said of a packet besides its data.
//!
//! An extra info is eight bytes and follows the first slot of its packet. It has no id, so that its slot
//! is answered with [`Status::Null`](super::Status::Null) by a backend.
//!
//! | info             | type | bytes 2 to 7                                                        |
//! |------------------|------|---------------------------------------------------------------------|
//! | GSO              | 1    | size of a segment (2 bytes), kind, 0, features (2 bytes, none so far) |
//! | multicast add    | 2    | address                                                             |
//! | multicast delete | 3    | address                                                             |
//! | hash             | 4    | kind, algorithm, value (4 bytes)                                    |
//! | XDP              | 5    | headroom (2 bytes)                                                  |
//!
//! Byte 0 is the type, and bit 0 of byte 1 says that another extra info follows.

use core::fmt;

const GSO: u8 = 1;
const MULTICAST_ADD: u8 = 2;
const MULTICAST_DELETE: u8 = 3;
const HASH: u8 = 4;
const XDP: u8 = 5;

const FLAG_MORE: u8 = 1;

/// What a packet is that is to be cut into several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GsoKind {
    /// TCP over IPv4.
    TcpV4 = 1,
    /// TCP over IPv6.
    TcpV6 = 2,
}

/// How a packet is to be cut into several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gso {
    /// Most bytes of data of each, headers not counted; never 0.
    pub size: u16,
    /// What it is.
    pub kind: GsoKind,
}

/// The hash of a packet's flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hash {
    /// What it is of, a [`control::HashKind`](super::control::HashKind) if the other side is honest.
    pub kind: u8,
    /// How it was made, a [`control::HashAlgorithm`](super::control::HashAlgorithm) if the other side is
    /// honest.
    pub algorithm: u8,
    /// The hash itself.
    pub value: u32,
}

/// What is said of a packet besides its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// It is to be cut into several.
    Gso(Gso),
    /// There is no packet: the frontend wants those that are sent to this address.
    MulticastAdd([u8; 6]),
    /// There is no packet: the frontend no longer wants them.
    MulticastDelete([u8; 6]),
    /// The hash of its flow.
    Hash(Hash),
    /// There is free space before it.
    Xdp {
        /// How much, in bytes.
        headroom: u16,
    },
}

/// What is wrong with an extra info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraError {
    /// There is no such type.
    Type(u8),
    /// A packet is to be cut into pieces without data.
    GsoSize,
    /// Nobody knows how to cut such packets.
    GsoKind(u8),
}

impl fmt::Display for ExtraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(number) => write!(f, "Invalid extra type: {number}"),
            Self::GsoSize => f.write_str("GSO size must not be zero"),
            Self::GsoKind(number) => write!(f, "Bad GSO type {number}"),
        }
    }
}

impl Extra {
    /// Size of an extra info, in bytes.
    pub const SIZE: usize = 8;

    /// What these bytes say, and whether another extra info follows.
    ///
    /// # Errors
    ///
    /// What is wrong with them. [`has_more`](Self::has_more) still says whether another one follows.
    pub const fn parse(bytes: [u8; Self::SIZE]) -> Result<(Self, bool), ExtraError> {
        let [number, _, b2, b3, b4, b5, b6, b7] = bytes;
        let extra = match number {
            GSO => {
                let size = u16::from_le_bytes([b2, b3]);
                if size == 0 {
                    return Err(ExtraError::GsoSize);
                }
                let kind = match b4 {
                    1 => GsoKind::TcpV4,
                    2 => GsoKind::TcpV6,
                    _ => return Err(ExtraError::GsoKind(b4)),
                };
                Self::Gso(Gso { size, kind })
            }
            MULTICAST_ADD => Self::MulticastAdd([b2, b3, b4, b5, b6, b7]),
            MULTICAST_DELETE => Self::MulticastDelete([b2, b3, b4, b5, b6, b7]),
            HASH => Self::Hash(Hash {
                kind: b2,
                algorithm: b3,
                value: u32::from_le_bytes([b4, b5, b6, b7]),
            }),
            XDP => Self::Xdp {
                headroom: u16::from_le_bytes([b2, b3]),
            },
            _ => return Err(ExtraError::Type(number)),
        };
        Ok((extra, Self::has_more(bytes)))
    }

    /// Whether another extra info follows the one that these bytes are, even if nobody knows its type.
    pub const fn has_more(bytes: [u8; Self::SIZE]) -> bool {
        let [_, flags, ..] = bytes;
        flags & FLAG_MORE != 0
    }

    /// The bytes that say this. `more`: another extra info follows.
    pub const fn to_bytes(self, more: bool) -> [u8; Self::SIZE] {
        let flags = if more { FLAG_MORE } else { 0 };
        match self {
            Self::Gso(Gso { size, kind }) => {
                let [low, high] = size.to_le_bytes();
                // CAST: The discriminant is the value on the wire.
                [GSO, flags, low, high, kind as u8, 0, 0, 0]
            }
            Self::MulticastAdd([a, b, c, d, e, f]) => [MULTICAST_ADD, flags, a, b, c, d, e, f],
            Self::MulticastDelete([a, b, c, d, e, f]) => {
                [MULTICAST_DELETE, flags, a, b, c, d, e, f]
            }
            Self::Hash(hash) => {
                let [a, b, c, d] = hash.value.to_le_bytes();
                [HASH, flags, hash.kind, hash.algorithm, a, b, c, d]
            }
            Self::Xdp { headroom } => {
                let [low, high] = headroom.to_le_bytes();
                [XDP, flags, low, high, 0, 0, 0, 0]
            }
        }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netif_extra))]
mod tests {
    use super::*;

    const ADDRESS: [u8; 6] = [0x33, 0x33, 0, 0, 0, 0xfb];

    /// Each kind, and how it is on the wire when nothing follows.
    const EXAMPLES: [(Extra, [u8; 8]); 6] = [
        (
            Extra::Gso(Gso {
                size: 1448,
                kind: GsoKind::TcpV4,
            }),
            [1, 0, 0xa8, 0x05, 1, 0, 0, 0],
        ),
        (
            Extra::Gso(Gso {
                size: 0xffff,
                kind: GsoKind::TcpV6,
            }),
            [1, 0, 0xff, 0xff, 2, 0, 0, 0],
        ),
        (
            Extra::MulticastAdd(ADDRESS),
            [2, 0, 0x33, 0x33, 0, 0, 0, 0xfb],
        ),
        (
            Extra::MulticastDelete(ADDRESS),
            [3, 0, 0x33, 0x33, 0, 0, 0, 0xfb],
        ),
        (
            Extra::Hash(Hash {
                kind: 3,
                algorithm: 1,
                value: 0x1122_3344,
            }),
            [4, 0, 3, 1, 0x44, 0x33, 0x22, 0x11],
        ),
        (Extra::Xdp { headroom: 256 }, [5, 0, 0, 1, 0, 0, 0, 0]),
    ];

    #[test]
    fn extra_infos_on_the_wire() {
        for (extra, wire) in EXAMPLES {
            for more in [false, true] {
                let mut bytes = wire;
                bytes[1] = more.into();
                assert_eq!(extra.to_bytes(more), bytes);
                assert_eq!(Extra::parse(bytes), Ok((extra, more)));
                assert_eq!(Extra::has_more(bytes), more);
                // Flags that nobody has given a meaning do not count.
                bytes[1] |= 0xfe;
                assert_eq!(Extra::parse(bytes), Ok((extra, more)));
            }
        }
    }

    #[test]
    fn every_type() {
        for number in 0..=u8::MAX {
            for flags in 0..=u8::MAX {
                let bytes = [number, flags, 1, 0, 1, 0, 0, 0];
                let more = flags & 1 != 0;
                assert_eq!(Extra::has_more(bytes), more);
                match Extra::parse(bytes) {
                    Ok((extra, found)) => {
                        assert!((1..=5).contains(&number));
                        assert_eq!(found, more);
                        assert_eq!(extra.to_bytes(more)[0], number);
                    }
                    Err(error) => {
                        assert!(number == 0 || number > 5);
                        assert_eq!(error, ExtraError::Type(number));
                    }
                }
            }
        }
    }

    #[test]
    fn every_kind_of_gso() {
        for kind in 0..=u8::MAX {
            for size in [0u16, 1, 1448, 0xffff] {
                let [low, high] = size.to_le_bytes();
                // What is in the place of the features does not count.
                let result = Extra::parse([1, 0, low, high, kind, 0xff, 0xff, 0xff]);
                let expected = match (size, kind) {
                    (0, _) => Err(ExtraError::GsoSize),
                    (_, 1) => Ok(GsoKind::TcpV4),
                    (_, 2) => Ok(GsoKind::TcpV6),
                    _ => Err(ExtraError::GsoKind(kind)),
                };
                let expected = expected.map(|kind| (Extra::Gso(Gso { size, kind }), false));
                assert_eq!(result, expected);
            }
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
            (ExtraError::Type(6), "Invalid extra type: 6"),
            (ExtraError::GsoSize, "GSO size must not be zero"),
            (ExtraError::GsoKind(3), "Bad GSO type 3"),
        ] {
            let mut rest = Rest(text);
            assert!(write!(rest, "{error}").is_ok());
            assert_eq!(rest.0, "");
        }
    }
}
