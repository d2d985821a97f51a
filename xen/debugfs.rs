// SPDX-License-Identifier: GPL-2.0

//! A module's directory in debugfs.
//!
//! The kernel crate has debugfs files, too, but whoever has one of them open does not keep the module
//! loaded whose code is called when it is closed.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use crate::bindings;
use core::{
    ffi::CStr,
    fmt, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        global_lock,
        Arc, //
    },
};

/// A file or directory. An error in its place does no harm: debugfs is not there for its own sake.
struct Entry(*mut bindings::dentry);

// SAFETY: debugfs has locks of its own.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

impl Drop for Entry {
    fn drop(&mut self) {
        // SAFETY: It is what debugfs returned, and removed once. A directory is removed after all
        // files in it, which have references to it.
        unsafe { bindings::xen_debugfs_remove(self.0) };
    }
}

global_lock! {
    // SAFETY: `ModuleDir::new` initialises it, once, and `STATE` tells that it has.
    unsafe(uninit) static DIR: Mutex<Option<Arc<Entry>>> = None;
}

/// 0: not initialised, 1: being initialised, 2: initialised.
static STATE: Atomic<u32> = Atomic::new(0);

/// Keeps the module's directory in existence.
pub struct ModuleDir(());

impl ModuleDir {
    /// Makes the directory. A module can have one.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it has one already; `ENOMEM`. That debugfs cannot make it is none.
    pub fn new(name: &CStr) -> Result<Self> {
        STATE.cmpxchg(0, 1, Relaxed).map_err(|_| EBUSY)?;
        // SAFETY: Only one caller can have changed 0 to 1, and it never becomes 0 again.
        unsafe { DIR.init() };
        // SAFETY: The name is NUL-terminated.
        let dir = Entry(unsafe { bindings::xen_debugfs_dir(name.as_char_ptr()) });
        *DIR.lock() = Some(Arc::new(dir, GFP_KERNEL)?);
        STATE.store(2, Release);
        Ok(Self(()))
    }
}

impl Drop for ModuleDir {
    fn drop(&mut self) {
        // A static is not dropped. The directory goes with the last file in it.
        let dir = DIR.lock().take();
        drop(dir);
    }
}

/// What a file has to say.
pub trait Show: Send + Sync + 'static {
    /// Writes it. Called anew for each reader; process context.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// What debugfs has of a file; the beginning is known to `xen/helpers/debugfs.c`.
#[repr(C)]
struct Shown<T> {
    show: unsafe extern "C" fn(*mut bindings::seq_file, *mut c_void) -> c_int,
    data: T,
}

/// As formatting wants it.
struct Displayed<'a, T>(&'a T);

impl<T: Show> fmt::Display for Displayed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

impl<T: Show> Shown<T> {
    /// # Safety
    ///
    /// `file` must be being read, and belong to a file in debugfs that was made for a `Shown<T>`.
    unsafe extern "C" fn show(file: *mut bindings::seq_file, _unused: *mut c_void) -> c_int {
        // SAFETY: By this function's requirements. Removing the file waits for those who read it,
        // so this lives until they have.
        let shown = unsafe { &*(*file).private.cast::<Self>() };
        // SAFETY: By this function's requirements.
        let file = unsafe { SeqFile::from_raw(file) };
        file.call_printf(format_args!("{}", Displayed(&shown.data)));
        0
    }
}

/// A file in the module's directory. Dropping it waits for those who are just reading it; who still has
/// it open cannot read it any more.
///
/// Fields are dropped in this order: once the entry has gone nobody looks at what it shows.
pub struct File<T: Show> {
    _entry: Entry,
    _owned: Owned<T>,
    _dir: Arc<Entry>,
}

/// # Invariants
///
/// The pointer is from `KBox::into_raw`.
struct Owned<T>(*mut Shown<T>);

// SAFETY: What is shown is `Send` and `Sync`, and the rest a pointer to a function.
unsafe impl<T: Show> Send for Owned<T> {}
// SAFETY: As above.
unsafe impl<T: Show> Sync for Owned<T> {}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; it is dropped once.
        drop(unsafe { KBox::from_raw(self.0) });
    }
}

/// Makes a file that shows `data`.
///
/// # Errors
///
/// `ENODEV` if the module has no directory; `ENOMEM`. That debugfs cannot make it is none.
pub fn file<T: Show>(name: &CStr, data: T) -> Result<File<T>> {
    if STATE.load(Acquire) != 2 {
        return Err(ENODEV);
    }
    let dir = DIR.lock().clone().ok_or(ENODEV)?;
    let shown = Shown {
        show: Shown::<T>::show,
        data,
    };
    // INVARIANT: As it says.
    let owned = Owned(KBox::into_raw(KBox::new(shown, GFP_KERNEL)?));
    // SAFETY: The name is NUL-terminated, the directory is there as long as `dir`, and what is shown
    // until after the file has been removed.
    let entry = unsafe { bindings::xen_debugfs_file(name.as_char_ptr(), dir.0, owned.0.cast()) };
    Ok(File {
        _entry: Entry(entry),
        _owned: owned,
        _dir: dir,
    })
}
