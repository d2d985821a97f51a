// SPDX-License-Identifier: GPL-2.0

//! Files of a device in sysfs.
//!
//! C header: [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)

use crate::{
    bindings,
    xenbus::{
        Device,
        DeviceRef, //
    },
};
use core::ffi::CStr;
use kernel::{
    error::to_result,
    fmt,
    prelude::*,
    str::{
        CString,
        Formatter, //
    },
    sync::Arc, //
};

/// A file: its name, and what prints its content.
pub struct File<T: 'static> {
    /// Its name.
    pub name: &'static CStr,
    /// Prints its content, without the newline. Process context; may not wait for whoever removes
    /// the files.
    pub show: fn(&T, &mut dyn fmt::Write) -> fmt::Result,
}

/// A file that can also be written.
pub struct Knob<T: 'static> {
    /// The file.
    pub file: File<T>,
    /// Takes what was written, all of it at once. Process context; may not wait for whoever removes
    /// the files.
    pub store: fn(&Arc<T>, &[u8]) -> Result,
}

/// What C has of a file. C knows the address of `attribute`, which is that of the whole.
#[repr(C)]
struct Registered<T: 'static> {
    attribute: bindings::device_attribute,
    show: fn(&T, &mut dyn fmt::Write) -> fmt::Result,
    store: Option<fn(&Arc<T>, &[u8]) -> Result>,
    /// What it shows.
    owner: Arc<T>,
}

/// Files of a device that are there, in the device's directory or one below it.
///
/// Dropping them removes them, and waits for whoever is reading one. Process context.
///
/// # Invariants
///
/// `group` is registered for `dev`; what its attributes point to stays where it is.
pub struct Files<T: 'static> {
    group: KBox<bindings::attribute_group>,
    dev: DeviceRef,
    _folder: Option<CString>,
    _list: KVec<*mut bindings::attribute>,
    _files: KVec<Registered<T>>,
}

// SAFETY: What is shown is `Send` and `Sync`; the rest is memory that nobody changes.
unsafe impl<T: Send + Sync> Send for Files<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for Files<T> {}

impl<T: Send + Sync> Files<T> {
    /// Makes files that show `owner`, in the folder `folder` of the device's directory, or in that
    /// itself.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EEXIST` if there is one of the name.
    pub fn new(
        dev: &DeviceRef,
        folder: Option<CString>,
        files: &[File<T>],
        owner: Arc<T>,
    ) -> Result<Self> {
        let mut registered = KVec::with_capacity(files.len(), GFP_KERNEL)?;
        for file in files {
            registered.push(Self::prepare(file, None, &owner), GFP_KERNEL)?;
        }
        Self::register(dev, folder, registered)
    }

    /// The same with files that can be written by root, in the folder `folder`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_knobs(
        dev: &DeviceRef,
        folder: CString,
        knobs: &[Knob<T>],
        owner: Arc<T>,
    ) -> Result<Self> {
        let mut registered = KVec::with_capacity(knobs.len(), GFP_KERNEL)?;
        for knob in knobs {
            registered.push(
                Self::prepare(&knob.file, Some(knob.store), &owner),
                GFP_KERNEL,
            )?;
        }
        Self::register(dev, Some(folder), registered)
    }

    fn prepare(
        file: &File<T>,
        store: Option<fn(&Arc<T>, &[u8]) -> Result>,
        owner: &Arc<T>,
    ) -> Registered<T> {
        let mut attribute = bindings::device_attribute::default();
        attribute.attr.name = file.name.as_char_ptr();
        attribute.attr.mode = 0o444;
        attribute.__bindgen_anon_1.show = Some(Self::show_callback);
        if store.is_some() {
            attribute.attr.mode = 0o644;
            attribute.__bindgen_anon_2.store = Some(Self::store_callback);
        }
        Registered {
            attribute,
            show: file.show,
            store,
            owner: owner.clone(),
        }
    }

    fn register(
        dev: &DeviceRef,
        folder: Option<CString>,
        mut registered: KVec<Registered<T>>,
    ) -> Result<Self> {
        let mut list = KVec::with_capacity(registered.len() + 1, GFP_KERNEL)?;
        // From here on they stay where they are: nothing is added to the vector.
        for file in registered.iter_mut() {
            let attribute = core::ptr::addr_of_mut!(file.attribute.attr);
            // SAFETY: The attribute is valid.
            unsafe { bindings::xen_sysfs_attr_init(attribute) };
            list.push(attribute, GFP_KERNEL)?;
        }
        list.push(core::ptr::null_mut(), GFP_KERNEL)?;

        let mut group = KBox::new(bindings::attribute_group::default(), GFP_KERNEL)?;
        if let Some(folder) = &folder {
            group.name = folder.as_char_ptr();
        }
        group.__bindgen_anon_2.attrs = list.as_mut_ptr();
        // SAFETY: The device is valid; the group and what it points to stay until it is removed.
        to_result(unsafe { bindings::sysfs_create_group(Self::kobject(dev), &*group) })?;
        // INVARIANT: It was just registered.
        Ok(Self {
            group,
            dev: dev.clone(),
            _folder: folder,
            _list: list,
            _files: registered,
        })
    }

    /// # Safety
    ///
    /// `attribute` must be one that `new` made for `T`, and `buffer` have room for a page.
    unsafe extern "C" fn show_callback(
        _dev: *mut bindings::device,
        attribute: *mut bindings::device_attribute,
        buffer: *mut c_char,
    ) -> isize {
        // SAFETY: By this function's requirements it is the start of a `Registered<T>`, which lives as
        // long as the file.
        let file = unsafe { &*attribute.cast::<Registered<T>>() };
        let owner = &file.owner;
        // SAFETY: By this function's requirements. Nobody else uses the buffer.
        let buffer = unsafe {
            core::slice::from_raw_parts_mut(buffer.cast::<u8>(), bindings::XEN_PAGE_SIZE)
        };
        let mut text = Formatter::new(buffer);
        match (file.show)(owner, &mut text).and_then(|()| fmt::Write::write_str(&mut text, "\n")) {
            // CAST: At most a page.
            Ok(()) => text.bytes_written() as isize,
            // CAST: Errors fit into `isize`.
            Err(fmt::Error) => EIO.to_errno() as isize,
        }
    }

    /// # Safety
    ///
    /// `attribute` must be one that `prepare` made for `T`, and `buffer` hold `count` bytes.
    unsafe extern "C" fn store_callback(
        _dev: *mut bindings::device,
        attribute: *mut bindings::device_attribute,
        buffer: *const c_char,
        count: usize,
    ) -> isize {
        // SAFETY: By this function's requirements it is the start of a `Registered<T>`, which lives as
        // long as the file.
        let file = unsafe { &*attribute.cast::<Registered<T>>() };
        let owner = &file.owner;
        // SAFETY: By this function's requirements. Nobody changes the buffer meanwhile.
        let text = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        let result = match file.store {
            Some(store) => store(owner, text),
            None => Err(EIO),
        };
        match result {
            // CAST: At most a page.
            Ok(()) => count as isize,
            // CAST: Errors fit into `isize`.
            Err(errno) => errno.to_errno() as isize,
        }
    }
}

impl<T> Files<T> {
    fn kobject(dev: &Device) -> *mut bindings::kobject {
        // SAFETY: The device is valid by its invariant.
        unsafe { core::ptr::addr_of_mut!((*dev.as_raw()).dev.kobj) }
    }
}

impl<T> Drop for Files<T> {
    fn drop(&mut self) {
        // SAFETY: It is registered by the type invariant.
        unsafe {
            let dev = core::ptr::addr_of_mut!((*self.dev.as_raw()).dev);
            bindings::xen_sysfs_remove_group(dev, &*self.group);
        }
    }
}
