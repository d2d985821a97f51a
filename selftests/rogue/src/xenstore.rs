// SPDX-License-Identifier: GPL-2.0

//! A client of the xenstore daemon.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::sys;

mod wire;

use wire::{Header, Kind};

/// Where the daemon of this domain listens, or else the kernel's door to it.
const SOCKETS: [&str; 2] = ["/run/xen/xenstored/socket", "/var/run/xenstored/socket"];
const DEVICE: &str = "/dev/xen/xenbus";

/// How long a reply may take.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a transaction that collides with others is tried.
const TRANSACTION_TRIES: usize = 100;

/// The transaction a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tx(u32);

impl Tx {
    /// No transaction: each request stands for itself.
    pub const NONE: Self = Self(0);
}

/// Who may do what with a node, beside its owner and dom0.
#[derive(Clone, Copy, Debug)]
pub struct Perms {
    /// The domain that owns the node and may do everything.
    pub owner: u16,
    /// A domain that may read it.
    pub reader: u16,
}

/// A connection to the daemon.
pub struct Client {
    file: File,
    last_request: u32,
    events: VecDeque<String>,
}

impl Client {
    /// Connects to the daemon's socket, or through the kernel if there is none.
    pub fn connect() -> io::Result<Self> {
        let file = match SOCKETS
            .iter()
            .find_map(|path| UnixStream::connect(path).ok())
        {
            Some(socket) => OwnedFd::from(socket).into(),
            None => OpenOptions::new().read(true).write(true).open(DEVICE)?,
        };
        Ok(Self {
            file,
            last_request: 0,
            events: VecDeque::new(),
        })
    }

    fn read_packet(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut bytes = [0; wire::HEADER];
        self.file.read_exact(&mut bytes)?;
        let header = Header::decode(&bytes);
        let len = header.len as usize;
        if len > wire::PAYLOAD_MAX {
            return Err(io::Error::other("xenstore packet too long"));
        }
        let mut payload = vec![0; len];
        self.file.read_exact(&mut payload)?;
        Ok((header, payload))
    }

    /// Keeps the path of a watch event for [`Self::next_event`].
    fn note_event(&mut self, payload: &[u8]) {
        self.events
            .extend(wire::strings(payload).into_iter().next());
    }

    /// Sends one request and waits for its reply.
    fn call(&mut self, kind: Kind, tx: Tx, parts: &[&[u8]]) -> io::Result<Vec<u8>> {
        self.last_request = self.last_request.wrapping_add(1);
        let packet = wire::encode(kind, self.last_request, tx.0, parts)?;
        self.file.write_all(&packet)?;

        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !sys::wait_readable(self.file.as_raw_fd(), left)? {
                continue;
            }
            let (header, payload) = self.read_packet()?;
            if header.kind == Kind::WatchEvent as u32 {
                self.note_event(&payload);
            } else if header.request != self.last_request {
                // A reply to a request that timed out.
                continue;
            } else if header.kind == Kind::Error as u32 {
                return Err(wire::error(&payload));
            } else {
                return Ok(payload);
            }
        }
    }

    /// Reads a node.
    pub fn read(&mut self, tx: Tx, path: &str) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(tx, path)?).into_owned())
    }

    /// Reads a node that holds any bytes.
    pub fn read_bytes(&mut self, tx: Tx, path: &str) -> io::Result<Vec<u8>> {
        self.call(Kind::Read, tx, &[path.as_bytes(), b"\0"])
    }

    /// Reads a node that need not exist.
    pub fn read_opt(&mut self, tx: Tx, path: &str) -> io::Result<Option<String>> {
        match self.read(tx, path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a node; it and its parents come into being if need be.
    pub fn write(&mut self, tx: Tx, path: &str, value: &str) -> io::Result<()> {
        self.write_bytes(tx, path, value.as_bytes())
    }

    /// Writes a node as [`write`](Self::write) does, with any bytes.
    pub fn write_bytes(&mut self, tx: Tx, path: &str, value: &[u8]) -> io::Result<()> {
        self.call(Kind::Write, tx, &[path.as_bytes(), b"\0", value])?;
        Ok(())
    }

    /// Makes a node, if it does not exist.
    pub fn mkdir(&mut self, tx: Tx, path: &str) -> io::Result<()> {
        self.call(Kind::Mkdir, tx, &[path.as_bytes(), b"\0"])?;
        Ok(())
    }

    /// Removes a node and everything below; one that does not exist is fine.
    pub fn rm(&mut self, tx: Tx, path: &str) -> io::Result<()> {
        match self.call(Kind::Rm, tx, &[path.as_bytes(), b"\0"]) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Lists the children of a node.
    pub fn directory(&mut self, tx: Tx, path: &str) -> io::Result<Vec<String>> {
        let names = self.call(Kind::Directory, tx, &[path.as_bytes(), b"\0"])?;
        Ok(wire::strings(&names))
    }

    /// Sets who may use a node; nodes made below it later inherit that.
    pub fn set_perms(&mut self, tx: Tx, path: &str, perms: Perms) -> io::Result<()> {
        let owner = format!("n{}\0", perms.owner);
        let reader = format!("r{}\0", perms.reader);
        self.call(
            Kind::SetPerms,
            tx,
            &[path.as_bytes(), b"\0", owner.as_bytes(), reader.as_bytes()],
        )?;
        Ok(())
    }

    /// Watches a node and all below; the watch fires once at once.
    pub fn watch(&mut self, path: &str) -> io::Result<()> {
        self.call(Kind::Watch, Tx::NONE, &[path.as_bytes(), b"\0watch\0"])?;
        Ok(())
    }

    /// Waits for at most `timeout` for a watch to fire; returns the path that changed.
    pub fn next_event(&mut self, timeout: Duration) -> io::Result<Option<String>> {
        if self.events.is_empty() && sys::wait_readable(self.file.as_raw_fd(), timeout)? {
            let (header, payload) = self.read_packet()?;
            if header.kind == Kind::WatchEvent as u32 {
                self.note_event(&payload);
            }
        }
        Ok(self.events.pop_front())
    }

    /// Runs `body` in a transaction, again as long as it collides with others.
    pub fn transaction<T>(
        &mut self,
        mut body: impl FnMut(&mut Self, Tx) -> io::Result<T>,
    ) -> io::Result<T> {
        for _ in 0..TRANSACTION_TRIES {
            let id = self.call(Kind::TransactionStart, Tx::NONE, &[b"\0"])?;
            let tx = wire::strings(&id)
                .first()
                .and_then(|id| id.parse().ok())
                .map(Tx)
                .ok_or_else(|| io::Error::other("xenstore: bad transaction id"))?;

            let result = body(self, tx);
            let verdict: &[u8] = if result.is_ok() { b"T\0" } else { b"F\0" };
            match self.call(Kind::TransactionEnd, tx, &[verdict]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) if result.is_ok() => return Err(error),
                _ => return result,
            }
        }
        Err(io::Error::other("xenstore: transaction collides for ever"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Reads one packet as the daemon does and answers by `reply`.
    fn answer(socket: &mut UnixStream, reply: impl FnOnce(Header, &[u8]) -> Vec<u8>) {
        let mut bytes = [0; wire::HEADER];
        socket.read_exact(&mut bytes).unwrap();
        let header = Header::decode(&bytes);
        let mut payload = vec![0; header.len as usize];
        socket.read_exact(&mut payload).unwrap();
        let packets = reply(header, &payload);
        socket.write_all(&packets).unwrap();
    }

    fn client() -> (Client, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let client = Client {
            file: OwnedFd::from(near).into(),
            last_request: 0,
            events: VecDeque::new(),
        };
        (client, far)
    }

    #[test]
    fn events_between_request_and_reply_are_kept() {
        let (mut client, mut far) = client();
        let daemon = thread::spawn(move || {
            answer(&mut far, |header, payload| {
                assert_eq!(payload, b"/x\0");
                let mut packets =
                    wire::encode(Kind::WatchEvent, 0, 0, &[b"/x\0", b"watch\0"]).unwrap();
                packets.extend(wire::encode(Kind::Read, header.request, 0, &[b"42"]).unwrap());
                packets
            });
            answer(&mut far, |header, _| {
                wire::encode(Kind::Error, header.request, 0, &[b"ENOENT\0"]).unwrap()
            });
            far
        });
        assert_eq!(client.read(Tx::NONE, "/x").unwrap(), "42");
        assert_eq!(client.read_opt(Tx::NONE, "/y").unwrap(), None);
        let event = client.next_event(Duration::ZERO).unwrap();
        assert_eq!(event.as_deref(), Some("/x"));
        assert_eq!(client.next_event(Duration::ZERO).unwrap(), None);
        daemon.join().unwrap();
    }

    #[test]
    fn transactions_are_repeated_on_collision() {
        let (mut client, mut far) = client();
        let daemon = thread::spawn(move || {
            for ending in [&b"EAGAIN\0"[..], b""] {
                answer(&mut far, |header, _| {
                    wire::encode(Kind::TransactionStart, header.request, 0, &[b"7\0"]).unwrap()
                });
                answer(&mut far, |header, payload| {
                    assert_eq!(header.transaction, 7);
                    assert_eq!(payload, b"T\0");
                    let kind = if ending.is_empty() {
                        Kind::TransactionEnd
                    } else {
                        Kind::Error
                    };
                    wire::encode(kind, header.request, 7, &[ending]).unwrap()
                });
            }
        });
        let mut runs = 0;
        client
            .transaction(|_, tx| {
                assert_eq!(tx, Tx(7));
                runs += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(runs, 2);
        daemon.join().unwrap();
    }
}
