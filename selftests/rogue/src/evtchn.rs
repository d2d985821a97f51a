// SPDX-License-Identifier: GPL-2.0

//! Event channels through `/dev/xen/evtchn`.
//!
//! C header: `include/uapi/xen/evtchn.h`.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::raw::c_ulong;
use std::time::Duration;

use crate::sys;

const DEVICE: &str = "/dev/xen/evtchn";

/// C: `IOCTL_EVTCHN_BIND_INTERDOMAIN`.
const BIND_INTERDOMAIN: c_ulong = sys::ioc_none(b'E', 1, size_of::<BindInterdomain>());
/// C: `IOCTL_EVTCHN_BIND_UNBOUND_PORT`.
const BIND_UNBOUND_PORT: c_ulong = sys::ioc_none(b'E', 2, size_of::<Port>());
/// C: `IOCTL_EVTCHN_UNBIND`.
const UNBIND: c_ulong = sys::ioc_none(b'E', 3, size_of::<Port>());
/// C: `IOCTL_EVTCHN_NOTIFY`.
const NOTIFY: c_ulong = sys::ioc_none(b'E', 4, size_of::<Port>());

/// C: `struct ioctl_evtchn_bind_interdomain`.
#[repr(C)]
struct BindInterdomain {
    remote_domain: u32,
    remote_port: u32,
}

/// C: `struct ioctl_evtchn_notify`, `struct ioctl_evtchn_unbind` and, where the number is that of a
/// domain, `struct ioctl_evtchn_bind_unbound_port`.
#[repr(C)]
struct Port {
    port: u32,
}

/// One end of an event channel.
///
/// Each channel has a file of its own, so that waiting for one is waiting for its file, and dropping
/// it closes the port.
pub struct Channel {
    file: File,
    port: u32,
}

impl Channel {
    /// Binds to the port `remote_port` that domain `domid` has opened to us.
    pub fn bind_interdomain(domid: u16, remote_port: u32) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        let mut arg = BindInterdomain {
            remote_domain: domid.into(),
            remote_port,
        };

        // SAFETY: `arg` is what this ioctl takes, and it lives across the call.
        let port = unsafe { sys::ioctl_ptr(&file, BIND_INTERDOMAIN, &mut arg) }?;
        Ok(Self {
            file,
            // CAST: The kernel returns a port, which is never negative.
            port: port as u32,
        })
    }

    /// Opens a port for domain `domid` to bind to.
    pub fn bind_unbound(domid: u16) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        let mut arg = Port { port: domid.into() };

        // SAFETY: `arg` is what this ioctl takes, and it lives across the call.
        let port = unsafe { sys::ioctl_ptr(&file, BIND_UNBOUND_PORT, &mut arg) }?;
        Ok(Self {
            file,
            // CAST: The kernel returns a port, which is never negative.
            port: port as u32,
        })
    }

    /// The port's number.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Sends an event to the other side.
    pub fn notify(&self) -> io::Result<()> {
        let mut arg = Port { port: self.port };

        // SAFETY: `arg` is what this ioctl takes, and it lives across the call.
        unsafe { sys::ioctl_ptr(&self.file, NOTIFY, &mut arg) }?;
        Ok(())
    }

    /// Closes the port before its time; nothing can be sent or received any more.
    pub fn close(&self) -> io::Result<()> {
        let mut arg = Port { port: self.port };

        // SAFETY: `arg` is what this ioctl takes, and it lives across the call.
        unsafe { sys::ioctl_ptr(&self.file, UNBIND, &mut arg) }?;
        Ok(())
    }

    /// Waits for an event for at most `timeout`; returns whether one came.
    ///
    /// The channel is unmasked again before this returns, so an event sent while the caller looks at
    /// its ring is not lost but found by the next call.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        if !sys::wait_readable(self.file.as_raw_fd(), timeout)? {
            return Ok(false);
        }
        let mut port = [0; 4];
        (&self.file).read_exact(&mut port)?;
        (&self.file).write_all(&port)?;
        Ok(true)
    }
}
