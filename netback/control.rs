// SPDX-License-Identifier: GPL-2.0

//! What a frontend asks for by its control ring.
//!
//! A request is decoded without regard to what is set. If it names granted memory, that is copied then,
//! which may take time; only when it is there the request is carried out, which takes none.
//!
//! Pure logic, tested on the host and by KUnit.

use super::hash::{
    Hashing,
    MOST_ENTRIES,
    MOST_KEY, //
};
use crate::netif::control::{
    Operation,
    Request,
    Response,
    Status, //
};

/// Bytes of an entry of the table.
const ENTRY_SIZE: usize = 4;

/// Most bytes of granted memory that a request can need.
pub(crate) const MOST_GRANTED: usize = MOST_ENTRIES * ENTRY_SIZE;

/// Memory of the guest, from the start of a frame on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Grant reference of the frame.
    pub(crate) gref: u32,
    /// How many bytes are needed of it; at most [`MOST_GRANTED`].
    pub(crate) bytes: usize,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Say what can be hashed.
    GetFlags,
    /// Hash this.
    SetFlags(u32),
    /// Take the key from there.
    SetKey(Granted),
    /// Say how large the table can be.
    GetMappingSize,
    /// Make a table of so many entries.
    SetMappingSize(u32),
    /// Take entries from there, for the part of the table that begins with this one.
    SetMapping(Granted, u32),
    /// Hash by the algorithm of this number.
    SetAlgorithm(u32),
}

impl Command {
    /// What a request wants to be done.
    ///
    /// # Errors
    ///
    /// How it is to be answered, if it can be told without more that it cannot be done.
    pub(crate) fn decode(request: &Request) -> Result<Self, Status> {
        let operation = Operation::from_wire(request.operation).ok_or(Status::NotSupported)?;
        let [first, second, third] = request.words;
        let granted = |most: usize, size: usize| match usize::try_from(second) {
            Ok(count) if count <= most => Ok(Granted {
                gref: first,
                bytes: count * size,
            }),
            _ => Err(Status::InvalidParameter),
        };
        Ok(match operation {
            Operation::GetHashFlags => Self::GetFlags,
            Operation::SetHashFlags => Self::SetFlags(first),
            Operation::SetHashKey => Self::SetKey(granted(MOST_KEY, 1)?),
            Operation::GetHashMappingSize => Self::GetMappingSize,
            Operation::SetHashMappingSize => Self::SetMappingSize(first),
            Operation::SetHashMapping => {
                Self::SetMapping(granted(MOST_ENTRIES, ENTRY_SIZE)?, third)
            }
            Operation::SetHashAlgorithm => Self::SetAlgorithm(first),
            Operation::GetGrefMappingSize
            | Operation::AddGrefMapping
            | Operation::DeleteGrefMapping => return Err(Status::NotSupported),
        })
    }

    /// The memory that must be copied before this can be done. If that cannot be, the answer is
    /// [`Status::InvalidParameter`].
    pub(crate) fn granted(&self) -> Option<Granted> {
        match self {
            Self::SetKey(granted) | Self::SetMapping(granted, _) if granted.bytes > 0 => {
                Some(*granted)
            }
            _ => None,
        }
    }

    /// Does it, for a device with so many queues. `bytes` is a copy of the memory that is
    /// [`granted`](Self::granted).
    pub(crate) fn execute(self, hashing: &mut Hashing, bytes: &[u8], queues: u32) -> Reply {
        let enough = |granted: Granted| bytes.get(..granted.bytes);
        match self {
            Self::GetFlags => match hashing.supported_flags() {
                Ok(flags) => Reply {
                    status: Status::Success,
                    word: flags,
                },
                Err(status) => status.into(),
            },
            Self::SetFlags(flags) => hashing.set_flags(flags).into(),
            Self::SetKey(granted) => match enough(granted) {
                Some(key) => hashing.set_key(key).into(),
                None => Status::InvalidParameter.into(),
            },
            Self::GetMappingSize => Reply {
                status: Status::Success,
                // CAST: 128.
                word: MOST_ENTRIES as u32,
            },
            Self::SetMappingSize(size) => hashing.set_mapping_size(size).into(),
            Self::SetMapping(granted, offset) => match enough(granted) {
                Some(bytes) => {
                    let entries = bytes.chunks_exact(ENTRY_SIZE).map(entry);
                    hashing.set_mapping(offset, entries, queues).into()
                }
                None => Status::InvalidParameter.into(),
            },
            Self::SetAlgorithm(number) => hashing.set_algorithm(number).into(),
        }
    }
}

/// An entry of the table as it is in the guest's memory.
fn entry(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        // The bytes are taken four at a time.
        _ => u32::MAX,
    }
}

/// How a request was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Whether it was.
    pub(crate) status: Status,
    /// What was asked for, if that is a number.
    pub(crate) word: u32,
}

impl Reply {
    /// The response to `request`.
    pub(crate) fn to(self, request: &Request) -> Response {
        Response::new(request, self.status, self.word)
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self { status, word: 0 }
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_control))]
mod tests {
    use super::*;
    use crate::netif::control::HashAlgorithm;

    fn request(operation: u16, words: [u32; 3]) -> Request {
        Request {
            id: 7,
            operation,
            words,
        }
    }

    fn decode(operation: u16, words: [u32; 3]) -> Result<Command, Status> {
        Command::decode(&request(operation, words))
    }

    /// What becomes of a request, if the memory that it names begins with these bytes.
    fn serve(
        hashing: &mut Hashing,
        operation: Operation,
        words: [u32; 3],
        memory: &[u8],
    ) -> (Status, u32) {
        let request = Request::new(7, operation, words);
        let reply = match Command::decode(&request) {
            Ok(command) => {
                let bytes = command.granted().map_or(0, |granted| granted.bytes);
                match memory.get(..bytes) {
                    Some(bytes) => command.execute(hashing, bytes, 4),
                    None => Status::InvalidParameter.into(),
                }
            }
            Err(status) => status.into(),
        };
        (reply.status, reply.word)
    }

    #[test]
    fn every_operation() {
        let words = [5, 6, 7];
        let granted = |bytes| Granted { gref: 5, bytes };
        for operation in 0..=u16::MAX {
            let expected = match operation {
                1 => Ok(Command::GetFlags),
                2 => Ok(Command::SetFlags(5)),
                3 => Ok(Command::SetKey(granted(6))),
                4 => Ok(Command::GetMappingSize),
                5 => Ok(Command::SetMappingSize(5)),
                6 => Ok(Command::SetMapping(granted(24), 7)),
                7 => Ok(Command::SetAlgorithm(5)),
                _ => Err(Status::NotSupported),
            };
            assert_eq!(decode(operation, words), expected);
        }
    }

    #[test]
    fn granted_memory_is_no_more_than_makes_sense() {
        for (operation, most) in [(3, 40), (6, 128)] {
            for count in [0, 1, most, most + 1, 1024, 1 << 30, u32::MAX] {
                match decode(operation, [1, count, 0]) {
                    Ok(command) => {
                        assert!(count <= most);
                        let size = if operation == 3 { 1 } else { 4 };
                        let bytes = (count * size) as usize;
                        assert!(bytes <= MOST_GRANTED);
                        let granted = Granted { gref: 1, bytes };
                        assert_eq!(command.granted(), (count > 0).then_some(granted));
                    }
                    Err(status) => {
                        assert!(count > most);
                        assert_eq!(status, Status::InvalidParameter);
                    }
                }
            }
        }
        assert_eq!(Command::GetFlags.granted(), None);
        assert_eq!(Command::SetMappingSize(3).granted(), None);
    }

    #[test]
    fn a_frontend_that_wants_a_say() {
        const DONE: (Status, u32) = (Status::Success, 0);
        const INVALID: (Status, u32) = (Status::InvalidParameter, 0);
        let mut hashing = Hashing::new();
        let mut serve =
            |operation, words, memory: &[u8]| serve(&mut hashing, operation, words, memory);

        let refused = (Status::NotSupported, 0);
        assert_eq!(serve(Operation::GetHashFlags, [0; 3], &[]), refused);
        assert_eq!(serve(Operation::GetGrefMappingSize, [0; 3], &[]), refused);
        assert_eq!(serve(Operation::SetHashAlgorithm, [1, 0, 0], &[]), DONE);
        let (success, flags) = (Status::Success, 0xf);
        assert_eq!(
            serve(Operation::GetHashFlags, [0; 3], &[]),
            (success, flags)
        );
        assert_eq!(serve(Operation::SetHashFlags, [flags, 0, 0], &[]), DONE);
        assert_eq!(serve(Operation::SetHashKey, [9, 3, 0], &[1, 2, 3, 4]), DONE);
        assert_eq!(serve(Operation::SetHashKey, [9, 5, 0], &[0; 4]), INVALID);
        assert_eq!(
            serve(Operation::GetHashMappingSize, [0; 3], &[]),
            (success, 128)
        );
        assert_eq!(
            serve(Operation::SetHashMappingSize, [129, 0, 0], &[]),
            INVALID
        );
        assert_eq!(serve(Operation::SetHashMappingSize, [4, 0, 0], &[]), DONE);
        let table = [3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0];
        assert_eq!(serve(Operation::SetHashMapping, [9, 3, 1], &table), DONE);
        // The last entry is 256, and there are four queues; then there is no room for three.
        assert_eq!(serve(Operation::SetHashMapping, [9, 4, 0], &table), INVALID);
        assert_eq!(serve(Operation::SetHashMapping, [9, 3, 2], &table), INVALID);
        assert_eq!(
            serve(Operation::SetHashMapping, [9, 0, u32::MAX], &[]),
            INVALID
        );

        assert_eq!(hashing.algorithm(), HashAlgorithm::Toeplitz);
        assert_eq!(hashing.flags(), 0xf);
        assert_eq!(hashing.key()[..5], [1, 2, 3, 0, 0]);
        assert_eq!(hashing.mapping(), &[0, 3, 2, 1]);
    }

    #[test]
    fn replies_are_to_their_requests() {
        let request = request(0xffff, [1, 2, 3]);
        let reply = Reply {
            status: Status::NotSupported,
            word: 9,
        };
        let expected = Response {
            id: 7,
            operation: 0xffff,
            status: 1,
            word: 9,
        };
        assert_eq!(reply.to(&request), expected);
    }

    #[test]
    fn too_few_bytes_change_nothing() {
        let mut hashing = Hashing::new();
        assert_eq!(hashing.set_mapping_size(4), Status::Success);
        for request in [request(3, [1, 4, 0]), request(6, [1, 1, 0])] {
            let reply = Command::decode(&request)
                .map(|command| command.execute(&mut hashing, &[1, 0, 0], 4));
            assert_eq!(reply, Ok(Status::InvalidParameter.into()));
        }
        assert_eq!(hashing.key(), &[0; 40]);
        assert_eq!(hashing.mapping(), &[0; 4]);
    }
}
