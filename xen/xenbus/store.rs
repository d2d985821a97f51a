// SPDX-License-Identifier: GPL-2.0

//! Reading and writing xenstore.
//!
//! All functions here sleep. A read tells a missing node from one that is there but makes no sense:
//! the first may have a default, the second never has.
//!
//! C header: [`include/xen/xenbus.h`](srctree/include/xen/xenbus.h)

use super::value::{
    Excerpt,
    Value, //
};
use crate::bindings;
use core::{
    ffi::CStr,
    fmt,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    str::CString, //
};

/// What a node holds.
pub struct Text {
    bytes: NonNull<u8>,
    length: usize,
}

// SAFETY: The text is owned and does not change.
unsafe impl Send for Text {}
// SAFETY: As above.
unsafe impl Sync for Text {}

impl Text {
    /// The content, without the NUL that C puts behind it.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: `xenbus_read` returned an allocation of `length` bytes and a NUL.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr(), self.length) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        // SAFETY: `xenbus_read` returned memory from `kmalloc` for its caller to free.
        unsafe { bindings::kfree(self.bytes.as_ptr().cast()) };
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Excerpt(self.as_bytes()).fmt(f)
    }
}

crate::printable!(Text, KeyError);

/// Why a key could not be read.
pub struct KeyError {
    key: &'static CStr,
    fault: Fault,
}

enum Fault {
    Missing,
    Malformed { text: Text, expected: &'static str },
    Unreadable(Error),
}

impl KeyError {
    /// The errno that says the same.
    pub fn errno(&self) -> Error {
        match &self.fault {
            Fault::Missing => ENOENT,
            Fault::Malformed { .. } => EINVAL,
            Fault::Unreadable(error) => *error,
        }
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = Printable(self.key);
        match &self.fault {
            Fault::Missing => write!(f, "{key} is missing"),
            Fault::Malformed { text, expected } => {
                write!(f, "{key} is \"{text}\", not {expected}")
            }
            Fault::Unreadable(error) => {
                write!(f, "{key} cannot be read, error {}", error.to_errno())
            }
        }
    }
}

struct Printable(&'static CStr);

impl fmt::Display for Printable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or("?"))
    }
}

/// No transaction.
const NIL: bindings::xenbus_transaction = bindings::xenbus_transaction { id: 0 };

fn read_raw(within: bindings::xenbus_transaction, dir: &CStr, key: &CStr) -> Result<Text> {
    let mut length = 0;
    // SAFETY: The strings are NUL-terminated, and `length` outlives the call.
    let text = from_err_ptr(unsafe {
        bindings::xenbus_read(within, dir.as_char_ptr(), key.as_char_ptr(), &mut length)
    });
    Ok(Text {
        bytes: NonNull::new(text?.cast()).ok_or(EIO)?,
        // CAST: The length of a node is at most that of a xenstore message, 4096 bytes.
        length: length as usize,
    })
}

/// Reads a node outside of any transaction. [`None`] if it does not exist or is empty.
pub fn read_text(dir: &CStr, key: &CStr) -> Result<Option<Text>> {
    match read_raw(NIL, dir, key) {
        Ok(text) => Ok((!text.as_bytes().is_empty()).then_some(text)),
        Err(error) if error == ENOENT => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a value that may be missing.
pub fn read<V: Value>(dir: &CStr, key: &'static CStr) -> Result<Option<V>, KeyError> {
    read_as(dir, key, key)
}

fn read_as<V: Value>(dir: &CStr, key: &CStr, name: &'static CStr) -> Result<Option<V>, KeyError> {
    let fault = match read_text(dir, key) {
        Ok(None) => return Ok(None),
        Ok(Some(text)) => match V::parse(text.as_bytes()) {
            Some(value) => return Ok(Some(value)),
            None => Fault::Malformed {
                text,
                expected: V::EXPECTED,
            },
        },
        Err(error) => Fault::Unreadable(error),
    };
    Err(KeyError { key: name, fault })
}

/// Reads a value that must be there.
pub fn require<V: Value>(dir: &CStr, key: &'static CStr) -> Result<V, KeyError> {
    read(dir, key)?.ok_or(KeyError {
        key,
        fault: Fault::Missing,
    })
}

/// Reads a value that must be there, whose key has a number; errors name it without.
pub fn require_numbered<V: Value>(
    dir: &CStr,
    key: &CStr,
    name: &'static CStr,
) -> Result<V, KeyError> {
    read_as(dir, key, name)?.ok_or(KeyError {
        key: name,
        fault: Fault::Missing,
    })
}

/// Whether a node is known not to exist, or is kept from this domain; not if it merely could not be
/// read just now.
///
/// Of a node that is not there, xenstored says `EACCES` if this domain may not read what is left of the
/// path to it, as a driver domain may not once a guest's device has been removed.
pub fn is_missing(dir: &CStr, key: &CStr) -> bool {
    matches!(read_raw(NIL, dir, key), Err(error) if error == ENOENT || error == EACCES)
}

/// A transaction that has been started.
///
/// Dropped without `commit` it has changed nothing.
pub struct Transaction {
    id: u32,
}

/// How often a transaction is tried that others always get in the way of.
const MAX_TRIES: usize = 1000;

impl Transaction {
    fn start() -> Result<Self> {
        let mut raw = NIL;
        // SAFETY: `raw` outlives the call.
        to_result(unsafe { bindings::xenbus_transaction_start(&mut raw) })?;
        Ok(Self { id: raw.id })
    }

    /// Runs `body` in a transaction, again if somebody else changed what it touched.
    ///
    /// # Errors
    ///
    /// Any error of `body` or of xenstore, and `EAGAIN` if it failed a thousand times over.
    pub fn run<R>(mut body: impl FnMut(&Self) -> Result<R>) -> Result<R> {
        for _ in 0..MAX_TRIES {
            let transaction = Self::start()?;
            let result = body(&transaction)?;
            match transaction.commit() {
                Ok(()) => return Ok(result),
                Err(error) if error == EAGAIN => {}
                Err(error) => return Err(error),
            }
        }
        Err(EAGAIN)
    }

    /// Writes a node, which is made if need be.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what xenstore says.
    pub fn write(&self, dir: &CStr, key: &CStr, value: fmt::Arguments<'_>) -> Result {
        let text = CString::try_from_fmt(value)?;
        // SAFETY: The strings are NUL-terminated.
        to_result(unsafe {
            bindings::xenbus_write(
                self.raw(),
                dir.as_char_ptr(),
                key.as_char_ptr(),
                text.as_char_ptr(),
            )
        })
    }

    /// Finds out whether a node is there.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not, or what xenstore says.
    pub fn require(&self, dir: &CStr, key: &CStr) -> Result {
        read_raw(self.raw(), dir, key).map(|_| ())
    }

    /// Writes what a node holds once more, for those who watch it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is not there, or what xenstore says.
    pub fn write_again(&self, dir: &CStr, key: &CStr) -> Result {
        let text = read_raw(self.raw(), dir, key)?;
        // SAFETY: The strings are NUL-terminated: there is one behind what was read.
        to_result(unsafe {
            bindings::xenbus_write(
                self.raw(),
                dir.as_char_ptr(),
                key.as_char_ptr(),
                text.bytes.as_ptr().cast(),
            )
        })
    }

    /// Removes a node, if it is there.
    ///
    /// # Errors
    ///
    /// What xenstore says.
    pub fn remove(&self, dir: &CStr, key: &CStr) -> Result {
        // SAFETY: The strings are NUL-terminated.
        let result = to_result(unsafe {
            bindings::xenbus_rm(self.raw(), dir.as_char_ptr(), key.as_char_ptr())
        });
        match result {
            Err(error) if error == ENOENT => Ok(()),
            result => result,
        }
    }

    fn raw(&self) -> bindings::xenbus_transaction {
        bindings::xenbus_transaction { id: self.id }
    }

    fn commit(self) -> Result {
        let raw = self.raw();
        core::mem::forget(self);
        // SAFETY: `raw` was started and is ended here once, since `self` is gone.
        to_result(unsafe { bindings::xenbus_transaction_end(raw, false) })
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // An abort has nothing to report: xenstore forgets the transaction either way.
        // SAFETY: It was started and not ended, or `commit` would have forgotten `self`.
        let _ = unsafe { bindings::xenbus_transaction_end(self.raw(), true) };
    }
}
