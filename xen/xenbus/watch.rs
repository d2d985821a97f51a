// SPDX-License-Identifier: GPL-2.0

//! Watches: being told when a node of xenstore changes.

use super::Device;
use crate::bindings;
use core::{
    ffi::CStr,
    marker::PhantomData, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CString,
    sync::Arc,
    types::NotThreadSafe, //
};

/// The thread on which the bus calls drivers, one call at a time for all devices.
pub struct WatchThread(NotThreadSafe);

impl WatchThread {
    /// Takes a device off the bus for good, as if its directory had gone. Its driver is unbound
    /// before this returns. Does nothing if that has been done.
    ///
    /// Only this thread may do that: the bus itself takes devices away here, and another thread
    /// would wait for this one while it holds the device's lock.
    pub fn unregister(&self, dev: &Device) {
        // SAFETY: The device is valid by its invariant.
        let raw = unsafe { core::ptr::addr_of_mut!((*dev.as_raw()).dev) };
        // SAFETY: As above.
        if !unsafe { bindings::xen_device_is_registered(raw) } {
            return;
        }
        // SAFETY: The device is registered, and nobody unregisters it at the same time: that is done
        // on this thread only. The reference given up is the one that the registration had; the
        // caller has another.
        unsafe { bindings::device_unregister(raw) };
    }
}

/// Who is told.
pub trait WatchHandler: Send + Sync + 'static {
    /// The node, or one below it, has changed; also called once when the watch is set. Several
    /// changes may be told as one. The thread serves all devices: nothing may wait here for a peer.
    fn changed(this: &Arc<Self>, thread: &WatchThread);
}

/// What is registered. C knows the address of `watch`, which is that of the whole.
#[repr(C)]
struct Registered<H> {
    watch: bindings::xenbus_watch,
    handler: Arc<H>,
    _node: CString,
}

/// A watch that is set.
///
/// Dropping it waits for a running handler, unless that is where it is dropped. Process context.
///
/// # Invariants
///
/// `raw` is from `KBox::into_raw` and registered.
pub struct Watch<H: WatchHandler> {
    raw: *mut Registered<H>,
    _owned: PhantomData<Registered<H>>,
}

// SAFETY: The handler is `Send` and `Sync`; watches can be removed by any thread.
unsafe impl<H: WatchHandler> Send for Watch<H> {}
// SAFETY: As above; `&self` allows nothing.
unsafe impl<H: WatchHandler> Sync for Watch<H> {}

impl<H: WatchHandler> Watch<H> {
    /// Watches the node `key` in a directory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what xenstore says.
    pub fn new(dir: &CStr, key: &CStr, handler: Arc<H>) -> Result<Self> {
        let node = CString::try_from_fmt(fmt!("{dir}/{key}"))?;
        let watch = bindings::xenbus_watch {
            // The text stays where it is when the string is moved.
            node: node.as_char_ptr(),
            will_handle: Some(Self::will_handle_callback),
            callback: Some(Self::changed_callback),
            ..Default::default()
        };
        let raw = KBox::into_raw(KBox::new(
            Registered {
                watch,
                handler,
                _node: node,
            },
            GFP_KERNEL,
        )?);
        // SAFETY: The watch is filled in, and stays where it is until it is unregistered.
        let registered = to_result(unsafe {
            bindings::register_xenbus_watch(core::ptr::addr_of_mut!((*raw).watch))
        });
        if let Err(error) = registered {
            // SAFETY: It is from `into_raw` and was not registered.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(error);
        }
        // INVARIANT: It is registered.
        Ok(Self {
            raw,
            _owned: PhantomData,
        })
    }

    /// # Safety
    ///
    /// `watch` must be one that `new` registered.
    unsafe extern "C" fn will_handle_callback(
        watch: *mut bindings::xenbus_watch,
        _path: *const c_char,
        _token: *const c_char,
    ) -> bool {
        // One call for all changes that come before it is made: a guest that writes a node without
        // pause makes no queue.
        // SAFETY: By this function's requirements; C holds the lock of this field.
        unsafe { (*watch).nr_pending == 0 }
    }

    /// # Safety
    ///
    /// `watch` must be one that `new` registered, and this the bus' thread.
    unsafe extern "C" fn changed_callback(
        watch: *mut bindings::xenbus_watch,
        _path: *const c_char,
        _token: *const c_char,
    ) {
        // The handler may remove the watch, so it is not used through the watch.
        // SAFETY: By this function's requirements the watch is the start of a `Registered<H>`, which
        // lives at least until the handler is called.
        let handler = unsafe { (*watch.cast::<Registered<H>>()).handler.clone() };
        H::changed(&handler, &WatchThread(NotThreadSafe));
    }
}

impl<H: WatchHandler> Drop for Watch<H> {
    fn drop(&mut self) {
        // SAFETY: It is registered by the type invariant. No callback runs afterwards, but for one
        // that this is called from, which does not use the watch any more.
        unsafe {
            bindings::unregister_xenbus_watch(core::ptr::addr_of_mut!((*self.raw).watch));
            drop(KBox::from_raw(self.raw));
        }
    }
}
