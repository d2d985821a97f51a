// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` shows and sets.

use crate::bindings;

/// Rings of a queue: how many packets' slots each direction has.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Slots for receiving, at most.
    pub most_received: u32,
    /// ... and in use.
    pub received: u32,
    /// Slots for sending, at most.
    pub most_sent: u32,
    /// ... and in use.
    pub sent: u32,
}

/// Queues, each of which has both directions.
#[derive(Clone, Copy, Debug)]
pub struct Channels {
    /// At most.
    pub most: u32,
    /// In use.
    pub count: u32,
}

/// Kinds of packets that are told apart when their headers are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// IPv4 without a TCP header.
    Ipv4,
    /// IPv4 with one.
    Ipv4Tcp,
    /// IPv6 without a TCP header.
    Ipv6,
    /// IPv6 with one.
    Ipv6Tcp,
}

/// What of their headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowFields {
    /// Nothing.
    Nothing,
    /// Source and destination.
    Addresses,
    /// ... and both ports.
    Ports,
}

impl FlowKind {
    /// [`None`] if such packets are not told apart.
    pub(super) fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            bindings::TCP_V4_FLOW => Self::Ipv4Tcp,
            bindings::TCP_V6_FLOW => Self::Ipv6Tcp,
            bindings::IPV4_FLOW | bindings::UDP_V4_FLOW => Self::Ipv4,
            bindings::IPV6_FLOW | bindings::UDP_V6_FLOW => Self::Ipv6,
            _ => return None,
        })
    }
}

const ADDRESSES: u32 = bindings::RXH_IP_SRC | bindings::RXH_IP_DST;
const PORTS: u32 = bindings::RXH_L4_B_0_1 | bindings::RXH_L4_B_2_3;
const BOTH: u32 = ADDRESSES | PORTS;

impl FlowFields {
    /// [`None`] if nobody can choose just these.
    pub(super) fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0 => Self::Nothing,
            ADDRESSES => Self::Addresses,
            BOTH => Self::Ports,
            _ => return None,
        })
    }

    pub(super) fn into_raw(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Addresses => ADDRESSES,
            Self::Ports => BOTH,
        }
    }
}

/// How large what hashes are made with is; zeros if users have no say in that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashSizes {
    /// Bytes of the key.
    pub key: u32,
    /// Entries of the table of queues.
    pub table: u32,
}

/// Fills a key with random bytes, the same for all interfaces since the machine was started.
pub fn fill_hash_key(key: &mut [u8]) {
    // SAFETY: The key has as many bytes.
    unsafe { bindings::netdev_rss_key_fill(key.as_mut_ptr().cast(), key.len()) };
}
