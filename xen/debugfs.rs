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
    error::from_result,
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
        let dir =
            Entry(unsafe { bindings::xen_debugfs_dir(name.as_char_ptr(), core::ptr::null_mut()) });
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

    /// Somebody has written this to the file, if its mode lets them. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it means nothing.
    fn command(&self, text: &[u8]) -> Result {
        let _ = text;
        Err(EINVAL)
    }
}

/// A directory in the module's. Dropping it does not wait for the files in it, which keep it.
#[derive(Clone)]
pub struct Dir(Arc<Nested>);

/// Fields are dropped in this order.
struct Nested {
    entry: Entry,
    _module: Arc<Entry>,
}

impl Dir {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the module has no directory; `ENOMEM`. That debugfs cannot make it is none.
    pub fn new(name: &CStr) -> Result<Self> {
        let module = module_dir()?;
        // SAFETY: The name is NUL-terminated, and the module's directory is there.
        let entry = unsafe { bindings::xen_debugfs_dir(name.as_char_ptr(), module.0) };
        let nested = Nested {
            entry: Entry(entry),
            _module: module,
        };
        Ok(Self(Arc::new(nested, GFP_KERNEL)?))
    }

    /// Makes a file that shows `data`, for root: to be read, and written if `writable`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. That debugfs cannot make it is none.
    pub fn file<T: Show>(&self, name: &CStr, writable: bool, data: T) -> Result<File<T>> {
        let mode = if writable { 0o600 } else { 0o400 };
        make(name, mode, self.0.entry.0, data, Keeper::Dir(self.clone()))
    }
}

/// The module's directory.
fn module_dir() -> Result<Arc<Entry>> {
    if STATE.load(Acquire) != 2 {
        return Err(ENODEV);
    }
    DIR.lock().clone().ok_or(ENODEV)
}

/// What debugfs has of a file; the beginning is known to `xen/helpers/debugfs.c`.
#[repr(C)]
struct Shown<T> {
    show: unsafe extern "C" fn(*mut bindings::seq_file, *mut c_void) -> c_int,
    write: unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_int,
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

    /// # Safety
    ///
    /// `shown` must be the `Shown<T>` of a file that is being written, and `text` valid for `length` bytes.
    unsafe extern "C" fn write(shown: *mut c_void, text: *const c_char, length: usize) -> c_int {
        // SAFETY: By this function's requirements, and as in `show`.
        let shown = unsafe { &*shown.cast::<Self>() };
        // SAFETY: By this function's requirements.
        let text = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
        from_result(|| shown.data.command(text).map(|()| 0))
    }
}

/// A file in the module's directory. Dropping it waits for those who are just reading it; who still has
/// it open cannot read it any more.
///
/// Fields are dropped in this order: once the entry has gone nobody looks at what it shows.
pub struct File<T: Show> {
    _entry: Entry,
    _owned: Owned<T>,
    _dir: Keeper,
}

/// What keeps the directory of a file.
#[expect(dead_code, reason = "dropped")]
enum Keeper {
    Module(Arc<Entry>),
    Dir(Dir),
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
    let dir = module_dir()?;
    make(name, 0o444, dir.0, data, Keeper::Module(dir))
}

/// `dir` is kept by `keeper`.
fn make<T: Show>(
    name: &CStr,
    mode: bindings::umode_t,
    dir: *mut bindings::dentry,
    data: T,
    keeper: Keeper,
) -> Result<File<T>> {
    let shown = Shown {
        show: Shown::<T>::show,
        write: Shown::<T>::write,
        data,
    };
    // INVARIANT: As it says.
    let owned = Owned(KBox::into_raw(KBox::new(shown, GFP_KERNEL)?));
    // SAFETY: The name is NUL-terminated, the directory is there as long as `keeper`, and what is shown
    // until after the file has been removed.
    let entry =
        unsafe { bindings::xen_debugfs_file(name.as_char_ptr(), mode, dir, owned.0.cast()) };
    Ok(File {
        _entry: Entry(entry),
        _owned: owned,
        _dir: keeper,
    })
}
