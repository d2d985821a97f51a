// SPDX-License-Identifier: GPL-2.0

//! Packets of one interface, by a packet socket.
//!
//! C header: `include/uapi/linux/if_packet.h`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::raw::{c_char, c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use crate::sys;

/// Type of all packets here: for local experiments. Nothing else on an interface has it.
pub const ETHERTYPE: u16 = 0x88b5;

const AF_PACKET: c_int = 17;
const SOCK_RAW: c_int = 3;
/// Bytes of the largest packet, and some more.
const MOST: usize = 70_000;

/// C: `struct sockaddr_ll`.
#[repr(C)]
struct Address {
    family: u16,
    /// In network order.
    protocol: u16,
    ifindex: c_int,
    hatype: u16,
    pkttype: u8,
    halen: u8,
    addr: [u8; 8],
}

extern "C" {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, address: *const Address, length: c_uint) -> c_int;
    fn recv(fd: c_int, to: *mut c_void, length: usize, flags: c_int) -> isize;
    fn send(fd: c_int, from: *const c_void, length: usize, flags: c_int) -> isize;
    fn if_nametoindex(name: *const c_char) -> c_uint;
}

/// What is received on an interface of [`ETHERTYPE`], and can be sent by it.
pub struct Tap {
    fd: OwnedFd,
}

impl Tap {
    /// Listens on an interface.
    pub fn new(interface: &str) -> io::Result<Self> {
        let name = CString::new(interface).map_err(io::Error::other)?;
        // SAFETY: The name is a valid string.
        let index = unsafe { if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: The function has no requirement.
        let fd = unsafe { socket(AF_PACKET, SOCK_RAW, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: It was just opened and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let address = Address {
            // CAST: 17.
            family: AF_PACKET as u16,
            protocol: ETHERTYPE.to_be(),
            // CAST: Indices of interfaces are small.
            ifindex: index as c_int,
            hatype: 0,
            pkttype: 0,
            halen: 0,
            addr: [0; 8],
        };
        // SAFETY: The address is valid, and as long as is said.
        let bound = unsafe {
            bind(
                fd.as_raw_fd(),
                &address,
                // CAST: 20.
                size_of::<Address>() as c_uint,
            )
        };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { fd })
    }

    /// The next packet that is received within a time.
    pub fn receive(&self, timeout: Duration) -> io::Result<Option<Vec<u8>>> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if sys::wait_readable(self.fd.as_raw_fd(), left)? {
                break;
            }
        }
        let mut packet = vec![0; MOST];
        // SAFETY: There is room for as many bytes.
        let length = unsafe { recv(self.fd.as_raw_fd(), packet.as_mut_ptr().cast(), MOST, 0) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        packet.truncate(length);
        Ok(Some(packet))
    }

    /// Sends a packet, with its header, to the other end of the interface.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        // SAFETY: The bytes are valid.
        let sent = unsafe { send(self.fd.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
