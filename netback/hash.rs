// SPDX-License-Identifier: GPL-2.0

//! Which of a frontend's queues a packet goes to, when the frontend wants a say in that.
//!
//! The frontend sets a key, chooses what is hashed, and fills a table of queues by its control ring. A
//! packet's flow is hashed with the key, and the hash finds the entry of the table.
//!
//! Pure logic, tested on the host and by KUnit.
//!
//! Reference: "RSS Hashing Functions" and "Verifying the RSS Hash Calculation", Microsoft's documentation
//! of network drivers.

use crate::netif::{
    control::{
        HashAlgorithm,
        HashKind,
        Status, //
    },
    Hash, //
};

/// Most bytes of a key: what the longest input, two IPv6 addresses and two ports, takes.
pub(crate) const MOST_KEY: usize = 40;

/// Most entries of the table.
pub(crate) const MOST_ENTRIES: usize = 128;

/// All kinds of hashes, each as its bit.
pub(crate) const ALL_FLAGS: u32 = HashKind::Ipv4.flag()
    | HashKind::Ipv4Tcp.flag()
    | HashKind::Ipv6.flag()
    | HashKind::Ipv6Tcp.flag();

/// From where to where packets go, in network order as they are in the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// By IPv4: source and destination.
    V4([u8; 4], [u8; 4]),
    /// By IPv6: source and destination.
    V6([u8; 16], [u8; 16]),
}

/// What packets belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    /// From where to where.
    pub(crate) addresses: Addresses,
    /// Source and destination port, of a packet with a TCP header only: not of a fragment.
    pub(crate) ports: Option<(u16, u16)>,
}

/// What is hashed: the fields one behind the other.
struct Input {
    bytes: [u8; MOST_KEY - 4],
    length: usize,
}

impl Input {
    fn new() -> Self {
        Self {
            bytes: [0; MOST_KEY - 4],
            length: 0,
        }
    }

    fn push(&mut self, field: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.length).zip(field) {
            *place = *byte;
        }
        // There is room for the longest input.
        self.length += field.len();
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&self.bytes)
    }
}

/// The hash of Toeplitz: for each bit of the input that is set, the 32 bits of the key from that bit on,
/// all added without carry. Behind its end the key is zeros.
fn toeplitz(key: &[u8; MOST_KEY], input: &[u8]) -> u32 {
    let [k0, k1, k2, k3, k4, k5, k6, k7, rest @ ..] = key;
    let mut rest = rest.iter();
    // The 64 bits of the key from the current byte of the input on.
    let mut window = u64::from_be_bytes([*k0, *k1, *k2, *k3, *k4, *k5, *k6, *k7]);
    let mut hash = 0;
    for byte in input {
        for bit in (0..8).rev() {
            // No branches: the bits of an address cannot be predicted.
            let chosen = 0u64.wrapping_sub(u64::from((byte >> bit) & 1));
            hash ^= window & chosen;
            window <<= 1;
        }
        window |= rest.next().copied().map_or(0, u64::from);
    }
    // CAST: What is left of the shift has 32 bits.
    (hash >> 32) as u32
}

/// What a frontend has set.
#[derive(Clone, Debug)]
pub(crate) struct Hashing {
    algorithm: HashAlgorithm,
    flags: u32,
    key: [u8; MOST_KEY],
    /// One is in use, and a new one is made in the other, so that it is complete or not used at all.
    tables: [[u32; MOST_ENTRIES]; 2],
    /// The second table is the one in use.
    second: bool,
    /// Entries of the table in use; at most [`MOST_ENTRIES`].
    size: usize,
}

impl Hashing {
    /// Nothing has been set.
    pub(crate) const fn new() -> Self {
        Self {
            algorithm: HashAlgorithm::None,
            flags: 0,
            key: [0; MOST_KEY],
            tables: [[0; MOST_ENTRIES]; 2],
            second: false,
            size: 0,
        }
    }

    /// The algorithm.
    pub(crate) fn algorithm(&self) -> HashAlgorithm {
        self.algorithm
    }

    /// What is hashed, see [`HashKind::flag`].
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// The key; what was not set of it is zeros.
    pub(crate) fn key(&self) -> &[u8; MOST_KEY] {
        &self.key
    }

    /// The table; empty if the hash itself says which queue.
    pub(crate) fn mapping(&self) -> &[u32] {
        let [first, second] = &self.tables;
        let table = if self.second { second } else { first };
        table.get(..self.size).unwrap_or(table)
    }

    /// What can be hashed, which only somebody who wants hashes may ask.
    pub(crate) fn supported_flags(&self) -> Result<u32, Status> {
        match self.algorithm {
            HashAlgorithm::None => Err(Status::NotSupported),
            HashAlgorithm::Toeplitz => Ok(ALL_FLAGS),
        }
    }

    /// Chooses the algorithm, by its number on the wire.
    pub(crate) fn set_algorithm(&mut self, number: u32) -> Status {
        match HashAlgorithm::from_wire(number) {
            Some(algorithm) => {
                self.algorithm = algorithm;
                Status::Success
            }
            None => Status::InvalidParameter,
        }
    }

    /// Chooses what is hashed.
    pub(crate) fn set_flags(&mut self, flags: u32) -> Status {
        if flags & !ALL_FLAGS != 0 || self.algorithm == HashAlgorithm::None {
            return Status::InvalidParameter;
        }
        self.flags = flags;
        Status::Success
    }

    /// Sets the key.
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Status {
        if key.len() > MOST_KEY {
            return Status::InvalidParameter;
        }
        self.key = [0; MOST_KEY];
        for (place, byte) in self.key.iter_mut().zip(key) {
            *place = *byte;
        }
        Status::Success
    }

    /// The table in use and the other one.
    fn both_tables(&mut self) -> (&[u32; MOST_ENTRIES], &mut [u32; MOST_ENTRIES]) {
        let [first, second] = &mut self.tables;
        if self.second {
            (second, first)
        } else {
            (first, second)
        }
    }

    /// Makes a new table that sends everything to the first queue. Without entries it is the hash itself
    /// that says which queue.
    pub(crate) fn set_mapping_size(&mut self, size: u32) -> Status {
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        let size = size as usize;
        if size > MOST_ENTRIES {
            return Status::InvalidParameter;
        }
        let (_, other) = self.both_tables();
        *other = [0; MOST_ENTRIES];
        self.second = !self.second;
        self.size = size;
        Status::Success
    }

    /// Fills the part of the table that begins with entry `offset`, of a device with so many queues. All
    /// of it is filled or nothing.
    pub(crate) fn set_mapping(
        &mut self,
        offset: u32,
        entries: impl ExactSizeIterator<Item = u32>,
        queues: u32,
    ) -> Status {
        let size = self.size;
        // CAST: As in `set_mapping_size`.
        let start = offset as usize;
        match start.checked_add(entries.len()) {
            Some(end) if end <= size => {}
            _ => return Status::InvalidParameter,
        }
        let (used, other) = self.both_tables();
        *other = *used;
        for (place, entry) in other.iter_mut().skip(start).zip(entries) {
            if entry >= queues {
                return Status::InvalidParameter;
            }
            *place = entry;
        }
        self.second = !self.second;
        Status::Success
    }

    /// The hash of a flow, by the most specific kind that was chosen; [`None`] if there is none for it.
    pub(crate) fn hash(&self, flow: &Flow) -> Option<Hash> {
        if self.algorithm == HashAlgorithm::None {
            return None;
        }
        let mut input = Input::new();
        let (with_ports, without) = match &flow.addresses {
            Addresses::V4(source, destination) => {
                input.push(source);
                input.push(destination);
                (HashKind::Ipv4Tcp, HashKind::Ipv4)
            }
            Addresses::V6(source, destination) => {
                input.push(source);
                input.push(destination);
                (HashKind::Ipv6Tcp, HashKind::Ipv6)
            }
        };
        let is_chosen = |kind: HashKind| self.flags & kind.flag() != 0;
        let kind = match flow.ports {
            Some((source, destination)) if is_chosen(with_ports) => {
                input.push(&source.to_be_bytes());
                input.push(&destination.to_be_bytes());
                with_ports
            }
            _ if is_chosen(without) => without,
            _ => return None,
        };
        Some(Hash {
            // CAST: The discriminants are the values on the wire.
            kind: kind as u8,
            algorithm: self.algorithm as u8,
            value: toeplitz(&self.key, input.as_slice()),
        })
    }

    /// The queue of packets with this hash, of a device that has so many: always less than that, or 0 if
    /// there is none. What has no hash is treated as if it were 0.
    pub(crate) fn queue(&self, hash: Option<Hash>, queues: u32) -> u32 {
        let value = hash.map_or(0, |hash| hash.value);
        // CAST: At most 128 entries.
        let place = value.checked_rem(self.mapping().len() as u32);
        let queue = match place.and_then(|place| self.mapping().get(place as usize)) {
            Some(queue) => *queue,
            None => value,
        };
        // There may be fewer queues than when the table was filled.
        queue.checked_rem(queues).unwrap_or(0)
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_hash))]
mod tests {
    use super::*;

    /// The key of the published examples.
    const KEY: [u8; MOST_KEY] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    /// The published examples: flow, hash of the addresses, hash of addresses and ports.
    const EXAMPLES: [(Addresses, (u16, u16), u32, u32); 8] = [
        (
            Addresses::V4([66, 9, 149, 187], [161, 142, 100, 80]),
            (2794, 1766),
            0x323e_8fc2,
            0x51cc_c178,
        ),
        (
            Addresses::V4([199, 92, 111, 2], [65, 69, 140, 83]),
            (14230, 4739),
            0xd718_262a,
            0xc626_b0ea,
        ),
        (
            Addresses::V4([24, 19, 198, 95], [12, 22, 207, 184]),
            (12898, 38024),
            0xd2d0_a5de,
            0x5c2b_394a,
        ),
        (
            Addresses::V4([38, 27, 205, 30], [209, 142, 163, 6]),
            (48228, 2217),
            0x8298_9176,
            0xafc7_327f,
        ),
        (
            Addresses::V4([153, 39, 163, 191], [202, 188, 127, 2]),
            (44251, 1303),
            0x5d18_09c5,
            0x10e8_28a2,
        ),
        (
            Addresses::V6(
                address([0x3ffe, 0x2501, 0x0200, 0x1fff, 0, 0, 0, 7]),
                address([0x3ffe, 0x2501, 0x0200, 0x0003, 0, 0, 0, 1]),
            ),
            (2794, 1766),
            0x2cc1_8cd5,
            0x4020_7d3d,
        ),
        (
            Addresses::V6(
                address([0x3ffe, 0x0501, 0x0008, 0, 0x0260, 0x97ff, 0xfe40, 0xefab]),
                address([0xff02, 0, 0, 0, 0, 0, 0, 1]),
            ),
            (14230, 4739),
            0x0f0c_461c,
            0xdde5_1bbf,
        ),
        (
            Addresses::V6(
                address([
                    0x3ffe, 0x1900, 0x4545, 0x0003, 0x0200, 0xf8ff, 0xfe21, 0x67cf,
                ]),
                address([0xfe80, 0, 0, 0, 0x0200, 0xf8ff, 0xfe21, 0x67cf]),
            ),
            (44251, 38024),
            0x4b61_e985,
            0x02d1_feef,
        ),
    ];

    /// The bytes of an IPv6 address.
    const fn address(groups: [u16; 8]) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut group = 0;
        while group < 8 {
            let [high, low] = groups[group].to_be_bytes();
            bytes[2 * group] = high;
            bytes[2 * group + 1] = low;
            group += 1;
        }
        bytes
    }

    fn hashing(flags: u32) -> Hashing {
        Hashing {
            algorithm: HashAlgorithm::Toeplitz,
            flags,
            key: KEY,
            ..Hashing::new()
        }
    }

    const fn of_value(value: u32) -> Option<Hash> {
        Some(Hash {
            kind: 0,
            algorithm: 1,
            value,
        })
    }

    #[test]
    fn published_hashes() {
        for flags in 0..=ALL_FLAGS {
            let hashing = hashing(flags);
            for (addresses, ports, of_addresses, of_ports) in EXAMPLES {
                let first = match addresses {
                    Addresses::V4(..) => 0,
                    Addresses::V6(..) => 2,
                };
                let plain = ((flags >> first) & 1 != 0).then_some((first, of_addresses));
                let tcp = ((flags >> first) & 2 != 0).then_some((first + 1, of_ports));
                for (ports, expected) in [(None, plain), (Some(ports), tcp.or(plain))] {
                    let expected = expected.map(|(kind, value)| Hash {
                        kind,
                        algorithm: 1,
                        value,
                    });
                    assert_eq!(hashing.hash(&Flow { addresses, ports }), expected);
                }
            }
        }
    }

    #[test]
    fn the_key_ends_with_zeros() {
        let mut hashing = hashing(ALL_FLAGS);
        assert_eq!(hashing.set_key(&KEY[..3]), Status::Success);
        assert_eq!(hashing.key()[..4], [0x6d, 0x5a, 0x56, 0]);
        assert_eq!(hashing.key()[4..], [0; 36]);
        // Only the first 24 bits of the input are met by bits of the key.
        let flow = |source| Flow {
            addresses: Addresses::V4(source, [255; 4]),
            ports: None,
        };
        let hash = |source| hashing.hash(&flow(source)).map(|hash| hash.value);
        assert_eq!(hash([0x80, 0, 0, 0]), Some(0x6d5a_5600));
        assert_eq!(hash([0, 0, 0, 0xff]), Some(0));
        // No key at all is one, too.
        assert_eq!(hashing.set_key(&[]), Status::Success);
        assert_eq!(hashing.hash(&flow([1; 4])).map(|hash| hash.value), Some(0));
        assert_eq!(hashing.set_key(&[1; 41]), Status::InvalidParameter);
        assert_eq!(hashing.key(), &[0; 40]);
    }

    #[test]
    fn nothing_is_hashed_unless_wanted() {
        let mut hashing = Hashing::new();
        let (addresses, ports, ..) = EXAMPLES[0];
        let flow = Flow {
            addresses,
            ports: Some(ports),
        };
        assert_eq!(hashing.hash(&flow), None);
        assert_eq!(hashing.supported_flags(), Err(Status::NotSupported));
        assert_eq!(hashing.set_flags(1), Status::InvalidParameter);
        for junk in [2, 257, u32::MAX] {
            assert_eq!(hashing.set_algorithm(junk), Status::InvalidParameter);
        }
        assert_eq!(hashing.set_algorithm(1), Status::Success);
        assert_eq!(hashing.hash(&flow), None);
        assert_eq!(hashing.supported_flags(), Ok(0xf));
        for junk in [0x10, 0x1f, u32::MAX] {
            assert_eq!(hashing.set_flags(junk), Status::InvalidParameter);
        }
        assert_eq!(hashing.flags(), 0);
        assert_eq!(hashing.set_flags(0xf), Status::Success);
        assert!(hashing.hash(&flow).is_some());
        assert_eq!(hashing.set_algorithm(0), Status::Success);
        assert_eq!(hashing.hash(&flow), None);
    }

    #[test]
    fn without_a_table_the_hash_is_the_queue() {
        let hashing = hashing(ALL_FLAGS);
        for queues in 1..=9 {
            for value in [0, 1, 8, 0x1234_5678, u32::MAX] {
                assert_eq!(hashing.queue(of_value(value), queues), value % queues);
            }
            assert_eq!(hashing.queue(None, queues), 0);
        }
        assert_eq!(hashing.queue(of_value(7), 0), 0);
    }

    #[test]
    fn the_table_says_which_queue() {
        let mut hashing = hashing(ALL_FLAGS);
        assert_eq!(hashing.set_mapping_size(5), Status::Success);
        assert_eq!(hashing.mapping(), &[0; 5]);
        let set = hashing.set_mapping(0, [3, 1, 0, 2, 1].into_iter(), 4);
        assert_eq!(set, Status::Success);
        assert_eq!(hashing.set_mapping(3, [0].into_iter(), 4), Status::Success);
        assert_eq!(hashing.mapping(), &[3, 1, 0, 0, 1]);
        for value in 0..20 {
            let expected = [3, 1, 0, 0, 1][value as usize % 5];
            assert_eq!(hashing.queue(of_value(value), 4), expected);
        }
        assert_eq!(hashing.queue(None, 4), 3);
        // Queues that there are no more are not chosen.
        assert_eq!(hashing.queue(None, 2), 1);
        assert_eq!(hashing.queue(None, 0), 0);
        // A new table begins with zeros, and nothing of an old one comes back.
        for size in [128, 3, 128] {
            assert_eq!(hashing.set_mapping_size(size), Status::Success);
            assert!(hashing.mapping().iter().all(|&queue| queue == 0));
            assert_eq!(hashing.mapping().len(), size as usize);
            let set = hashing.set_mapping(0, [1; 3].into_iter(), 4);
            assert_eq!(set, Status::Success);
        }
    }

    #[test]
    fn tables_are_set_as_a_whole_or_not_at_all() {
        let mut hashing = hashing(ALL_FLAGS);
        for size in [129, 1 << 16, u32::MAX] {
            assert_eq!(hashing.set_mapping_size(size), Status::InvalidParameter);
        }
        assert_eq!(hashing.set_mapping_size(4), Status::Success);
        let set = hashing.set_mapping(0, [1, 2, 3, 0].into_iter(), 4);
        assert_eq!(set, Status::Success);
        for (offset, count) in [
            (0, 5),
            (4, 1),
            (3, 2),
            (5, 0),
            (u32::MAX, 1),
            (u32::MAX, 0),
            (u32::MAX - 3, 5),
        ] {
            let entries = [0; 5].into_iter().take(count);
            let set = hashing.set_mapping(offset, entries, 4);
            assert_eq!(set, Status::InvalidParameter);
            assert_eq!(hashing.mapping(), &[1, 2, 3, 0]);
        }
        // One queue that is not there spoils all.
        for bad in [4, 5, u32::MAX] {
            let set = hashing.set_mapping(0, [0, 0, 0, bad].into_iter(), 4);
            assert_eq!(set, Status::InvalidParameter);
            assert_eq!(hashing.mapping(), &[1, 2, 3, 0]);
        }
        assert_eq!(hashing.set_mapping(4, [].into_iter(), 4), Status::Success);
        assert_eq!(hashing.mapping(), &[1, 2, 3, 0]);
    }
}
