// SPDX-License-Identifier: GPL-2.0

//! The system calls the standard library does not offer.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::raw::{c_int, c_long, c_short, c_ulong, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Size of a page of dom0, and of a Xen frame.
pub const PAGE_SIZE: usize = 4096;

const PROT_READ: c_int = 1;
const PROT_WRITE: c_int = 2;
const MAP_SHARED: c_int = 1;
const POLLIN: c_short = 1;
const SIGINT: c_int = 2;
const SIGKILL: c_int = 9;
const SIGTERM: c_int = 15;

/// C: `struct pollfd`.
#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    fn mmap(
        addr: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut c_void;
    fn munmap(addr: *mut c_void, len: usize) -> c_int;
    fn poll(fds: *mut PollFd, nfds: c_ulong, timeout: c_int) -> c_int;
    fn signal(signum: c_int, handler: extern "C" fn(c_int)) -> usize;
    fn kill(pid: c_int, signum: c_int) -> c_int;
}

/// Number of an ioctl made by `_IOC(_IOC_NONE, …)`.
pub const fn ioc_none(group: u8, nr: u8, size: usize) -> c_ulong {
    ((size as c_ulong) << 16) | ((group as c_ulong) << 8) | nr as c_ulong
}

/// Calls `ioctl` with a pointer argument.
///
/// # Safety
///
/// `arg` must point to what the kernel expects for `request`, valid for reads and writes.
pub unsafe fn ioctl_ptr<T>(file: &File, request: c_ulong, arg: *mut T) -> io::Result<c_int> {
    // SAFETY: The descriptor is open as `file` is borrowed; the caller vouches for `arg`.
    let ret = unsafe { ioctl(file.as_raw_fd(), request, arg) };
    if ret < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(ret)
}

/// Whether a mapping may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// Maps `pages` pages of `file` from `offset`, shared, at an address chosen by the kernel.
///
/// The mapping stays until it is given to [`unmap_pages`].
pub fn map_pages(
    file: &File,
    offset: u64,
    pages: usize,
    access: Access,
) -> io::Result<NonNull<u8>> {
    let prot = match access {
        Access::ReadOnly => PROT_READ,
        Access::ReadWrite => PROT_READ | PROT_WRITE,
    };
    let offset = c_long::try_from(offset).map_err(io::Error::other)?;

    // SAFETY: With a null hint and without `MAP_FIXED` the kernel chooses an address that is free,
    // so no memory in use is replaced.
    let addr = unsafe {
        mmap(
            ptr::null_mut(),
            pages * PAGE_SIZE,
            prot,
            MAP_SHARED,
            file.as_raw_fd(),
            offset,
        )
    };
    if addr as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(addr.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))
}

/// Undoes [`map_pages`].
///
/// # Safety
///
/// `addr` and `pages` must be those of one call of [`map_pages`], not yet unmapped, and nothing may
/// refer to the memory any more.
pub unsafe fn unmap_pages(addr: NonNull<u8>, pages: usize) {
    // SAFETY: By the contract of this function the range is a mapping of ours that nobody uses.
    // The call fails only for ranges that are malformed, so there is nothing to do about errors.
    unsafe { munmap(addr.as_ptr().cast(), pages * PAGE_SIZE) };
}

/// Waits until `fd` can be read, an error is pending on it, or `timeout` has passed.
///
/// A signal counts as a time-out, so that callers look at [`stop_requested`] soon.
pub fn wait_readable(fd: RawFd, timeout: Duration) -> io::Result<bool> {
    let mut pollfd = PollFd {
        fd,
        events: POLLIN,
        revents: 0,
    };
    let millis = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);

    // SAFETY: `pollfd` is one valid entry that lives across the call.
    let ret = unsafe { poll(&mut pollfd, 1, millis) };
    if ret < 0 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            return Ok(false);
        }
        return Err(error);
    }
    Ok(ret > 0)
}

/// Kills all processes of a group; one that has ended is fine.
pub fn kill_group(leader: u32) -> io::Result<()> {
    const ESRCH: c_int = 3;

    let group = c_int::try_from(leader).map_err(io::Error::other)?;
    if group <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `kill` touches no memory, and the number names a group of another program.
    if unsafe { kill(-group, SIGKILL) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(ESRCH) => Ok(()),
        error => Err(error),
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signum: c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// Makes SIGINT and SIGTERM set the flag that [`stop_requested`] reads.
pub fn catch_stop_signals() {
    for signum in [SIGINT, SIGTERM] {
        // SAFETY: The handler has the right signature, lives forever, and does nothing but a store
        // to an atomic, which is safe in a signal handler.
        unsafe { signal(signum, on_signal) };
    }
}

/// Whether a signal asked the program to finish.
pub fn stop_requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_numbers() {
        // `IOCTL_GNTDEV_MAP_GRANT_REF` and `IOCTL_EVTCHN_NOTIFY` as the C headers compute them.
        assert_eq!(ioc_none(b'G', 0, 24), 0x0018_4700);
        assert_eq!(ioc_none(b'E', 4, 4), 0x0004_4504);
    }
}
