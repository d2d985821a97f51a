// SPDX-License-Identifier: GPL-2.0

//! Which packet is to come by which queue, if users want a say in that.
//!
//! The backend hashes what a packet's header says, with a key, and finds the queue in a table.
//!
//! Pure logic, tested on the host and by KUnit.

use crate::netif::control::{
    HashAlgorithm,
    HashKind,
    Operation, //
};

/// Bytes of the key: as many as the longest header makes use of.
pub(crate) const KEY_SIZE: usize = 40;

/// Entries of the table: as many as Linux' backends have.
pub(crate) const ENTRIES: usize = 128;

/// Bytes of an entry on its way to the backend.
const ENTRY_SIZE: usize = 4;

/// Bytes of the table on its way to the backend.
pub(crate) const TABLE_SIZE: usize = ENTRIES * ENTRY_SIZE;

/// What is hashed of a kind of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fields {
    /// Nothing: all of them are treated as if the hash were 0.
    Nothing,
    /// The addresses.
    Addresses,
    /// The addresses and the ports.
    Ports,
}

/// It cannot be chosen like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Impossible;

/// What users have chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hashing {
    key: [u8; KEY_SIZE],
    table: [u32; ENTRIES],
    /// Bits of [`HashKind::flag`].
    flags: u32,
}

/// A request to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// One that has all there is to say.
    Plain(Operation, u32),
    /// Take the key.
    Key,
    /// Take the table.
    Table,
}

/// The kind of hash of packets without, or with a TCP header, of the same version of IP.
fn kinds(kind: HashKind) -> (HashKind, HashKind) {
    match kind {
        HashKind::Ipv4 | HashKind::Ipv4Tcp => (HashKind::Ipv4, HashKind::Ipv4Tcp),
        HashKind::Ipv6 | HashKind::Ipv6Tcp => (HashKind::Ipv6, HashKind::Ipv6Tcp),
    }
}

impl Hashing {
    /// With this key everything is hashed, and spread over so many queues.
    pub(crate) fn new(key: [u8; KEY_SIZE], queues: u32) -> Self {
        let mut table = [0; ENTRIES];
        for (index, entry) in (0u32..).zip(&mut table) {
            *entry = index.checked_rem(queues).unwrap_or(0);
        }
        Self {
            key,
            table,
            flags: HashKind::ALL
                .into_iter()
                .fold(0, |flags, kind| flags | kind.flag()),
        }
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8; KEY_SIZE] {
        &self.key
    }

    /// The table: the number of a queue in each entry.
    pub(crate) fn table(&self) -> &[u32; ENTRIES] {
        &self.table
    }

    /// Chooses another key.
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result<(), Impossible> {
        self.key = key.try_into().map_err(|_| Impossible)?;
        Ok(())
    }

    /// Chooses another table.
    pub(crate) fn set_table(&mut self, table: &[u32]) -> Result<(), Impossible> {
        self.table = table.try_into().map_err(|_| Impossible)?;
        Ok(())
    }

    fn has(&self, kind: HashKind) -> bool {
        self.flags & kind.flag() != 0
    }

    fn set(&mut self, kind: HashKind, on: bool) {
        if on {
            self.flags |= kind.flag();
        } else {
            self.flags &= !kind.flag();
        }
    }

    /// What is hashed of packets of this kind.
    pub(crate) fn fields(&self, kind: HashKind) -> Fields {
        let (plain, _) = kinds(kind);
        if kind.has_ports() && self.has(kind) {
            Fields::Ports
        } else if self.has(plain) {
            Fields::Addresses
        } else {
            Fields::Nothing
        }
    }

    /// Chooses what is hashed of packets of this kind. Of those with a TCP header it is what is hashed of the
    /// others as well, or more.
    pub(crate) fn set_fields(&mut self, kind: HashKind, fields: Fields) -> Result<(), Impossible> {
        let (plain, with_ports) = kinds(kind);
        if kind == plain {
            match fields {
                Fields::Nothing => self.set(plain, false),
                Fields::Addresses => self.set(plain, true),
                Fields::Ports => return Err(Impossible),
            }
        } else {
            match (fields, self.has(plain)) {
                (Fields::Ports, _) => self.set(with_ports, true),
                (Fields::Addresses, true) | (Fields::Nothing, false) => self.set(with_ports, false),
                (Fields::Addresses, false) | (Fields::Nothing, true) => return Err(Impossible),
            }
        }
        Ok(())
    }

    /// What has to be said to a backend, in order: one that has no table yet, or one that has another one.
    pub(crate) fn requests(&self, has_table: bool) -> impl Iterator<Item = Request> {
        let is_on = self.flags != 0;
        let algorithm = if is_on {
            HashAlgorithm::Toeplitz
        } else {
            HashAlgorithm::None
        };
        // CAST: The discriminant is the value on the wire.
        let first = Request::Plain(Operation::SetHashAlgorithm, algorithm as u32);
        let rest = [
            Some(Request::Key),
            // CAST: 128.
            (!has_table).then_some(Request::Plain(
                Operation::SetHashMappingSize,
                ENTRIES as u32,
            )),
            Some(Request::Table),
            Some(Request::Plain(Operation::SetHashFlags, self.flags)),
        ];
        let rest = rest.into_iter().flatten().filter(move |_| is_on);
        core::iter::once(first).chain(rest)
    }

    /// The table as the backend takes it, of a device that has so many queues; there may have been more when it
    /// was chosen.
    pub(crate) fn table_bytes(&self, queues: u32) -> [u8; TABLE_SIZE] {
        let mut bytes = [0; TABLE_SIZE];
        for (place, entry) in bytes.chunks_exact_mut(ENTRY_SIZE).zip(&self.table) {
            let queue = entry.checked_rem(queues).unwrap_or(0);
            place.copy_from_slice(&queue.to_le_bytes());
        }
        bytes
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_hash))]
mod tests {
    use super::*;
    use HashKind::{
        Ipv4,
        Ipv4Tcp,
        Ipv6,
        Ipv6Tcp, //
    };

    #[test]
    fn everything_is_spread_at_first() {
        for queues in [1, 2, 3, 8, 256] {
            let hashing = Hashing::new([7; KEY_SIZE], queues);
            for (index, entry) in (0u32..).zip(hashing.table()) {
                assert_eq!(*entry, index % queues);
            }
            assert_eq!(hashing.key(), &[7; KEY_SIZE]);
            for kind in HashKind::ALL {
                let expected = if kind.has_ports() {
                    Fields::Ports
                } else {
                    Fields::Addresses
                };
                assert_eq!(hashing.fields(kind), expected);
            }
        }
        assert_eq!(Hashing::new([0; KEY_SIZE], 0).table(), &[0; ENTRIES]);
    }

    #[test]
    fn keys_and_tables_have_one_size() {
        let mut hashing = Hashing::new([0; KEY_SIZE], 2);
        let before = hashing.clone();
        for size in [0, 39, 41] {
            assert_eq!(hashing.set_key(&[1; 64][..size]), Err(Impossible));
        }
        for size in [0, 127, 129] {
            assert_eq!(hashing.set_table(&[1; 256][..size]), Err(Impossible));
        }
        assert_eq!(hashing, before);
        assert_eq!(hashing.set_key(&[1; KEY_SIZE]), Ok(()));
        assert_eq!(hashing.set_table(&[1; ENTRIES]), Ok(()));
        assert_eq!(hashing.key(), &[1; KEY_SIZE]);
        assert_eq!(hashing.table(), &[1; ENTRIES]);
    }

    #[test]
    fn fields_of_each_kind() {
        let mut hashing = Hashing::new([0; KEY_SIZE], 2);
        for (plain, with_ports) in [(Ipv4, Ipv4Tcp), (Ipv6, Ipv6Tcp)] {
            // What is hashed without a TCP header is hashed with one.
            assert_eq!(hashing.set_fields(plain, Fields::Ports), Err(Impossible));
            assert_eq!(
                hashing.set_fields(with_ports, Fields::Nothing),
                Err(Impossible)
            );
            assert_eq!(hashing.set_fields(with_ports, Fields::Addresses), Ok(()));
            assert_eq!(hashing.fields(with_ports), Fields::Addresses);
            assert_eq!(hashing.set_fields(plain, Fields::Nothing), Ok(()));
            assert_eq!(hashing.fields(with_ports), Fields::Nothing);
            assert_eq!(
                hashing.set_fields(with_ports, Fields::Addresses),
                Err(Impossible)
            );
            assert_eq!(hashing.set_fields(with_ports, Fields::Nothing), Ok(()));
            assert_eq!(hashing.set_fields(with_ports, Fields::Ports), Ok(()));
            assert_eq!(hashing.fields(with_ports), Fields::Ports);
            assert_eq!(hashing.fields(plain), Fields::Nothing);
            assert_eq!(hashing.set_fields(with_ports, Fields::Nothing), Ok(()));
        }
        assert_eq!(hashing.flags, 0);
    }

    #[test]
    fn what_backends_are_told() {
        let mut hashing = Hashing::new([0; KEY_SIZE], 2);
        let expect = |hashing: &Hashing, has_table, expected: &[Request]| {
            let mut requests = hashing.requests(has_table);
            for request in expected {
                assert_eq!(requests.next(), Some(*request));
            }
            assert_eq!(requests.next(), None);
        };
        let algorithm = |number| Request::Plain(Operation::SetHashAlgorithm, number);
        let size = Request::Plain(Operation::SetHashMappingSize, 128);
        let flags = Request::Plain(Operation::SetHashFlags, 0xf);
        let (key, table) = (Request::Key, Request::Table);
        expect(&hashing, false, &[algorithm(1), key, size, table, flags]);
        // Nothing goes to the wrong queue because the table is made anew.
        expect(&hashing, true, &[algorithm(1), key, table, flags]);
        hashing.flags = 0;
        expect(&hashing, true, &[algorithm(0)]);
    }

    #[test]
    fn tables_name_queues_that_there_are() {
        let hashing = Hashing::new([0; KEY_SIZE], 300);
        let bytes = hashing.table_bytes(300);
        assert_eq!(bytes[4 * 127..], [127, 0, 0, 0]);
        let bytes = hashing.table_bytes(3);
        for (index, entry) in (0u8..).zip(bytes.chunks_exact(4)) {
            assert_eq!(entry, [index % 3, 0, 0, 0]);
        }
        assert_eq!(hashing.table_bytes(0), [0; TABLE_SIZE]);
    }
}
