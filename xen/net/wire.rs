// SPDX-License-Identifier: GPL-2.0

//! What is said of a packet: by the protocol, and as the kernel has it.

use super::{
    Checksum,
    Features,
    Gso,
    Hash,
    Received, //
};
use crate::io::netif::{
    self,
    control::{
        HashAlgorithm,
        HashKind, //
    },
    GsoKind, //
};

impl From<netif::Checksum> for Checksum {
    #[inline]
    fn from(checksum: netif::Checksum) -> Self {
        match checksum {
            netif::Checksum::Unknown => Self::Unknown,
            netif::Checksum::Blank => Self::Blank,
            netif::Checksum::Validated => Self::Good,
        }
    }
}

impl From<Checksum> for netif::Checksum {
    #[inline]
    fn from(checksum: Checksum) -> Self {
        match checksum {
            Checksum::Unknown => Self::Unknown,
            Checksum::Blank => Self::Blank,
            Checksum::Good => Self::Validated,
        }
    }
}

impl From<netif::Gso> for Gso {
    #[inline]
    fn from(gso: netif::Gso) -> Self {
        match gso.kind {
            GsoKind::TcpV4 => Self::TcpV4(gso.size),
            GsoKind::TcpV6 => Self::TcpV6(gso.size),
        }
    }
}

impl From<Gso> for netif::Gso {
    #[inline]
    fn from(gso: Gso) -> Self {
        Self {
            size: gso.size(),
            kind: match gso {
                Gso::TcpV4(_) => GsoKind::TcpV4,
                Gso::TcpV6(_) => GsoKind::TcpV6,
            },
        }
    }
}

impl From<netif::Offloads> for Features {
    /// What an interface can do by itself if the other end takes these kinds of packets.
    fn from(offloads: netif::Offloads) -> Self {
        Self::NONE
            .and_if(offloads.sg, Self::SCATTER_GATHER)
            .and_if(offloads.csum_v4, Self::CHECKSUM_V4)
            .and_if(offloads.csum_v6, Self::CHECKSUM_V6)
            .and_if(offloads.gso_v4, Self::SEGMENTATION_V4)
            .and_if(offloads.gso_v6, Self::SEGMENTATION_V6)
    }
}

impl Received {
    /// What the other end says of a packet that came by `queue`. A hash that was made in a way that nobody
    /// knows is none.
    #[inline]
    pub fn from_wire(
        queue: u32,
        checksum: netif::Checksum,
        gso: Option<netif::Gso>,
        hash: Option<netif::Hash>,
    ) -> Self {
        Self {
            // CAST: An interface has at most 65535 queues.
            queue: queue as u16,
            checksum: checksum.into(),
            gso: gso.map(Gso::from),
            hash: hash.and_then(|hash| {
                let kind = HashKind::from_wire(hash.kind)?;
                // CAST: The discriminant is the value on the wire.
                (hash.algorithm == HashAlgorithm::Toeplitz as u8).then_some(Hash {
                    value: hash.value,
                    has_ports: kind.has_ports(),
                })
            }),
        }
    }
}
