// SPDX-License-Identifier: GPL-2.0

//! A module's directory in debugfs.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use core::ffi::CStr;
use kernel::{
    debugfs::{
        Dir,
        Writer, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        global_lock, //
    },
};

global_lock! {
    // SAFETY: `ModuleDir::new` initialises it, once, and `STATE` tells that it has.
    unsafe(uninit) static DIR: Mutex<Option<Dir>> = None;
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
    /// `EBUSY` if it has one already. That debugfs cannot make it is none.
    pub fn new(name: &CStr) -> Result<Self> {
        STATE.cmpxchg(0, 1, Relaxed).map_err(|_| EBUSY)?;
        // SAFETY: Only one caller can have changed 0 to 1, and it never becomes 0 again.
        unsafe { DIR.init() };
        *DIR.lock() = Some(Dir::new(name));
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

/// A file in the module's directory. Dropping it waits for those who are just reading it.
pub type File<T> = Pin<KBox<kernel::debugfs::File<T>>>;

/// Makes a file that shows `data`.
///
/// # Errors
///
/// `ENODEV` if the module has no directory; `ENOMEM`. That debugfs cannot make it is none.
pub fn file<T>(name: &CStr, data: T) -> Result<File<T>>
where
    T: Writer + Send + Sync + 'static,
{
    if STATE.load(Acquire) != 2 {
        return Err(ENODEV);
    }
    let dir = DIR.lock().clone().ok_or(ENODEV)?;
    KBox::pin_init(dir.read_only_file(name, data), GFP_KERNEL)
}
