// SPDX-License-Identifier: GPL-2.0

//! Packets of the xenstore protocol.
//!
//! C header: `include/xen/interface/io/xs_wire.h`.

use std::io;

/// Bytes of a packet before its payload.
pub const HEADER: usize = 16;

/// The largest payload either side may send.
pub const PAYLOAD_MAX: usize = 4096;

/// What a packet asks for or says; C: `enum xsd_sockmsg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// List the children of a node.
    Directory = 1,
    /// Read a node.
    Read = 2,
    /// Watch a node and all below.
    Watch = 4,
    /// Start a transaction.
    TransactionStart = 6,
    /// End a transaction.
    TransactionEnd = 7,
    /// Write a node, and make it and its parents if need be.
    Write = 11,
    /// Make an empty node.
    Mkdir = 12,
    /// Remove a node and all below.
    Rm = 13,
    /// Set the permissions of a node.
    SetPerms = 14,
    /// A watch fired (never a reply).
    WatchEvent = 15,
    /// A request failed.
    Error = 16,
}

/// The fixed part of a packet; C: `struct xsd_sockmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of a [`Kind`].
    pub kind: u32,
    /// Chosen by the asking side, repeated in the reply.
    pub request: u32,
    /// Number of a transaction, or 0.
    pub transaction: u32,
    /// Bytes of payload that follow.
    pub len: u32,
}

impl Header {
    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER]) -> Self {
        let word =
            |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        Self {
            kind: word(0),
            request: word(4),
            transaction: word(8),
            len: word(12),
        }
    }
}

/// Builds a packet whose payload is `parts`, one after the other.
///
/// # Errors
///
/// Refuses a payload that the daemon would refuse by closing the connection.
pub fn encode(kind: Kind, request: u32, transaction: u32, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    if len > PAYLOAD_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "xenstore payload too long",
        ));
    }
    let mut packet = Vec::with_capacity(HEADER + len);
    // CAST: Not above `PAYLOAD_MAX`.
    for word in [kind as u32, request, transaction, len as u32] {
        packet.extend_from_slice(&word.to_le_bytes());
    }
    for part in parts {
        packet.extend_from_slice(part);
    }
    Ok(packet)
}

/// Splits a payload into the strings that each end in a NUL.
pub fn strings(payload: &[u8]) -> Vec<String> {
    let payload = payload.strip_suffix(b"\0").unwrap_or(payload);
    if payload.is_empty() {
        return Vec::new();
    }
    payload
        .split(|&byte| byte == 0)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect()
}

/// Errors by their name on the wire, with their number on Linux.
const ERRORS: [(&str, i32); 15] = [
    ("ENOENT", 2),
    ("EIO", 5),
    ("E2BIG", 7),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("ENOSYS", 38),
    ("ENOTEMPTY", 39),
    ("EISCONN", 106),
];

/// Translates the payload of an error packet.
pub fn error(payload: &[u8]) -> io::Error {
    let name = strings(payload).into_iter().next().unwrap_or_default();
    match ERRORS.iter().find(|(known, _)| *known == name) {
        Some((_, errno)) => io::Error::from_raw_os_error(*errno),
        None => io::Error::other(format!("xenstore: {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_on_the_wire() {
        let packet = encode(Kind::Write, 5, 0x0102, &[b"a/b\0", b"12"]).unwrap();
        let expected = [
            11, 0, 0, 0, 5, 0, 0, 0, 2, 1, 0, 0, 6, 0, 0, 0, b'a', b'/', b'b', 0, b'1', b'2',
        ];
        assert_eq!(packet, expected);

        let header = Header::decode(packet[..HEADER].try_into().unwrap());
        assert_eq!(header.kind, Kind::Write as u32);
        assert_eq!((header.request, header.transaction), (5, 0x0102));
        assert_eq!(header.len, 6);
    }

    #[test]
    fn payloads_are_bounded() {
        let long = [0; PAYLOAD_MAX + 1];
        assert!(encode(Kind::Write, 0, 0, &[&long]).is_err());
        assert!(encode(Kind::Write, 0, 0, &[&long[1..]]).is_ok());
    }

    #[test]
    fn lists_of_strings() {
        assert_eq!(strings(b""), Vec::<String>::new());
        assert_eq!(strings(b"a\0"), ["a"]);
        assert_eq!(strings(b"path\0token\0"), ["path", "token"]);
        assert_eq!(strings(b"unended"), ["unended"]);
        assert_eq!(strings(b"a\0\0"), ["a", ""]);
    }

    #[test]
    fn errors_have_their_kind() {
        assert_eq!(error(b"ENOENT\0").kind(), io::ErrorKind::NotFound);
        assert_eq!(error(b"EAGAIN\0").kind(), io::ErrorKind::WouldBlock);
        assert_eq!(error(b"ESTRANGE\0").to_string(), "xenstore: ESTRANGE");
    }
}
