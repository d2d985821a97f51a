// SPDX-License-Identifier: GPL-2.0

//! The bus on which the toolstack announces devices: both of its sides.
//!
//! A device has two ends in two domains, the frontend and the backend. Each end has a directory in
//! xenstore of its own, in which it writes what the other end must know, and a state there. The bus
//! calls a driver when a device of its type appears, when the state of the other end changes, and
//! when the device goes.
//!
//! C header: [`include/xen/xenbus.h`](srctree/include/xen/xenbus.h)

use crate::{
    bindings,
    compat::BoundInternal, //
};
use core::{
    ffi::CStr,
    fmt,
    marker::PhantomData,
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    device, driver,
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::{
        Opaque,
        ScopeGuard, //
    },
};

mod mapped;
mod pages;
mod peer;
mod state;
pub mod store;
mod uevent;
pub mod value;
mod watch;

pub use self::{
    mapped::MappedPages,
    pages::GrantedPages,
    peer::Peer,
    state::State,
    uevent::Hotplug,
    watch::{
        Watch,
        WatchHandler,
        WatchThread, //
    }, //
};

mod private {
    pub trait Sealed {}
    impl Sealed for super::Frontend {}
    impl Sealed for super::Backend {}
}

/// One of the two sides of the bus.
pub trait Side: private::Sealed {
    /// Whether a device that loses its driver can get one again, without its state saying that it
    /// is closed in between.
    const ALLOW_REBIND: bool;

    /// Registers a driver on this side.
    ///
    /// # Safety
    ///
    /// `driver` must be filled in, and stay where it is until it is unregistered. `module` and
    /// `name` must be the module's.
    #[doc(hidden)]
    unsafe fn register(
        driver: *mut bindings::xenbus_driver,
        module: *mut bindings::module,
        name: &'static CStr,
    ) -> c_int;
}

/// The guest's side, bus `xen`. There are drivers for it if the kernel has that bus.
pub enum Frontend {}

#[cfg(CONFIG_XEN_XENBUS_FRONTEND)]
impl Side for Frontend {
    const ALLOW_REBIND: bool = false;

    unsafe fn register(
        driver: *mut bindings::xenbus_driver,
        module: *mut bindings::module,
        name: &'static CStr,
    ) -> c_int {
        // SAFETY: By this function's requirements.
        unsafe { bindings::__xenbus_register_frontend(driver, module, name.as_char_ptr()) }
    }
}

/// The side that has the hardware, bus `xen-backend`. There are drivers for it if the kernel has that
/// bus.
pub enum Backend {}

#[cfg(CONFIG_XEN_BACKEND)]
impl Side for Backend {
    const ALLOW_REBIND: bool = true;

    unsafe fn register(
        driver: *mut bindings::xenbus_driver,
        module: *mut bindings::module,
        name: &'static CStr,
    ) -> c_int {
        // SAFETY: By this function's requirements.
        unsafe { bindings::__xenbus_register_backend(driver, module, name.as_char_ptr()) }
    }
}

/// A driver of one type of device, on one side of the bus.
///
/// # Context
///
/// All functions are called in process context and may sleep. [`otherend_changed`] is called on the
/// one thread that serves all devices of the guest: a driver that could have to wait there, for its
/// peer above all, should only take note and do the work elsewhere.
///
/// [`otherend_changed`]: Self::otherend_changed
pub trait Driver {
    /// Which side the driver is for.
    type Side: Side;

    /// The driver's data of a device.
    type Data<'bound>: Send + Sync + 'bound;

    /// The type of device in xenstore, also the driver's name on the bus: `vbd`, `vif`.
    const DEVICE_TYPE: &'static CStr;

    /// Called when a device appears.
    fn probe<'bound>(
        dev: &'bound Device<device::Core<'_>>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound;

    /// Called when the other end's state changes, or is written again. `theirs` is the state at the
    /// time of the call, so that changes can be missed but not the last one.
    fn otherend_changed<'bound>(
        dev: &'bound Device<device::Bound>,
        data: Pin<&Self::Data<'bound>>,
        theirs: State,
    );

    /// Whether a boot that waits for its devices need not wait for this one any longer. Called only
    /// when the own state is [`State::Connected`]. Frontends only.
    fn is_ready<'bound>(
        dev: &'bound Device<device::Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> bool {
        let _ = (dev, data);
        true
    }

    /// Called when the guest has been restored or migrated: the other end is another one now, which
    /// knows nothing of what was shared, and the own state is [`State::Initialising`] again. The
    /// other end's state is told after this.
    ///
    /// # Errors
    ///
    /// With an error the device stays without connection.
    fn resume<'bound>(
        dev: &'bound Device<device::Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result {
        let _ = (dev, data);
        Ok(())
    }

    /// Called when the device loses its driver.
    ///
    /// Everything shared with the other end must be gone when this returns: the bus tells the other
    /// end that the device is closed before it drops the driver's data.
    fn unbind<'bound>(dev: &'bound Device<device::Core<'_>>, data: Pin<&Self::Data<'bound>>);
}

/// The registration of a [`Driver`], for [`kernel::driver::Registration`].
pub struct Adapter<T: Driver>(T);

// SAFETY:
// - `bindings::xenbus_driver` is a C type, `repr(C)`.
// - `T::Data` is the type of the data that `probe_callback` sets.
// - `struct xenbus_driver` embeds a `struct device_driver` at the offset given.
unsafe impl<T: Driver> driver::DriverLayout for Adapter<T> {
    type DriverType = bindings::xenbus_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = offset_of!(Self::DriverType, driver);
}

// SAFETY: `unregister` undoes what `register` did for the same driver.
unsafe impl<T: Driver> driver::RegistrationOps for Adapter<T> {
    unsafe fn register(
        reg: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let drv = reg.get();
        // SAFETY: The caller has just made the driver and nobody else knows it yet.
        unsafe {
            // The driver's name on the bus stays NULL: it then is the device type, as users and
            // tools know it.
            (*drv).ids = Self::IDS_REF.as_ptr();
            (*drv).allow_rebind = T::Side::ALLOW_REBIND;
            (*drv).probe = Some(Self::probe_callback);
            (*drv).otherend_changed = Some(Self::otherend_changed_callback);
            (*drv).is_ready = Some(Self::is_ready_callback);
            (*drv).remove = Some(Self::remove_callback);
            (*drv).resume = Some(Self::resume_callback);
        }
        // SAFETY: It is filled in, and stays until `unregister` by this function's requirements.
        to_result(unsafe { T::Side::register(drv, module.as_ptr(), name) })
    }

    unsafe fn unregister(reg: &Opaque<Self::DriverType>) {
        // SAFETY: It was registered, by this function's requirements.
        unsafe { bindings::xenbus_unregister_driver(reg.get()) };
    }
}

const fn device_id(name: &CStr) -> bindings::xenbus_device_id {
    let bytes = name.to_bytes();
    // SAFETY: An array of bytes may be zero.
    let mut id: bindings::xenbus_device_id = unsafe { core::mem::zeroed() };
    assert!(bytes.len() < id.devicetype.len());
    let mut i = 0;
    while i < bytes.len() {
        id.devicetype[i] = bytes[i];
        i += 1;
    }
    id
}

impl<T: Driver> Adapter<T> {
    // The bus takes an empty type as the end of the table.
    const IDS: [bindings::xenbus_device_id; 2] = [device_id(T::DEVICE_TYPE), device_id(c"")];
    const IDS_REF: &'static [bindings::xenbus_device_id; 2] = &Self::IDS;

    extern "C" fn probe_callback(
        dev: *mut bindings::xenbus_device,
        _id: *const bindings::xenbus_device_id,
    ) -> c_int {
        // SAFETY: The bus calls this with a valid device, on which the driver core is just working.
        //
        // INVARIANT: `dev` is valid for the duration of the call.
        let dev = unsafe { &*dev.cast::<Device<device::CoreInternal<'_>>>() };

        from_result(|| {
            let data = T::probe(dev);
            dev.as_ref().set_drvdata(data)?;
            Ok(0)
        })
    }

    extern "C" fn otherend_changed_callback(
        dev: *mut bindings::xenbus_device,
        theirs: bindings::xenbus_state,
    ) {
        // SAFETY: The bus watches the other end from after `probe` to before `remove`, so the
        // device is bound for the duration of the call.
        let dev = unsafe { &*dev.cast::<Device<BoundInternal>>() };
        // SAFETY: `probe_callback` has set the data.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        T::otherend_changed(dev, data, State::from_raw(theirs));
    }

    extern "C" fn is_ready_callback(dev: *mut bindings::xenbus_device) -> c_int {
        // The bus walks over its devices without holding them, so this one may just be losing its
        // driver. Whoever takes the driver away has the device's lock.
        //
        // SAFETY: The walk has a reference to the device.
        let raw = unsafe { core::ptr::addr_of_mut!((*dev).dev) };
        // SAFETY: The device is valid. The lock is free to take: the walk holds none.
        if !unsafe { bindings::xen_device_trylock(raw) } {
            // The walk comes again.
            return 0;
        }
        let unlock = ScopeGuard::new(|| {
            // SAFETY: It was locked above.
            unsafe { bindings::xen_device_unlock(raw) };
        });
        // SAFETY: The device is valid.
        if unsafe { bindings::dev_get_drvdata(raw) }.is_null() {
            return 0;
        }
        // SAFETY: The device has a driver, which it cannot lose as long as the lock is held.
        let dev = unsafe { &*dev.cast::<Device<BoundInternal>>() };
        // SAFETY: The data is there, so `probe_callback` has set it: when a device loses its driver
        // the data goes under the same lock.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        let ready = T::is_ready(dev, data);
        drop(unlock);
        ready.into()
    }

    extern "C" fn resume_callback(dev: *mut bindings::xenbus_device) -> c_int {
        // SAFETY: The driver core calls this for devices that have a driver, and does not take it
        // away before it has resumed them.
        let dev = unsafe { &*dev.cast::<Device<BoundInternal>>() };
        // SAFETY: `probe_callback` has set the data.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        from_result(|| T::resume(dev, data).map(|()| 0))
    }

    extern "C" fn remove_callback(dev: *mut bindings::xenbus_device) {
        // SAFETY: The bus calls this with a valid device, on which the driver core is just working.
        //
        // INVARIANT: `dev` is valid for the duration of the call.
        let dev = unsafe { &*dev.cast::<Device<device::CoreInternal<'_>>>() };
        // SAFETY: `probe_callback` has set the data, or there were no `remove`.
        let data = unsafe { dev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        T::unbind(dev, data);
    }
}

/// Declares a module that is the driver of one type of device.
///
/// A driver that has more to do when it is loaded implements [`kernel::InPlaceModule`] itself and
/// keeps a [`kernel::driver::Registration`] of the [`Adapter`].
#[macro_export]
macro_rules! module_xenbus_driver {
    ($($f:tt)*) => {
        ::kernel::module_driver!(<T>, $crate::xenbus::Adapter<T>, { $($f)* });
    };
}

/// One end of a device.
///
/// # Invariants
///
/// It is a valid `struct xenbus_device` made by the bus.
#[repr(transparent)]
pub struct Device<Ctx: device::DeviceContext = device::Normal>(
    Opaque<bindings::xenbus_device>,
    PhantomData<Ctx>,
);

impl<Ctx: device::DeviceContext> Device<Ctx> {
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::xenbus_device {
        self.0.get()
    }
}

impl Device {
    /// The device as the driver core knows it.
    #[inline]
    pub(crate) fn as_device(&self) -> *mut bindings::device {
        // SAFETY: The device is valid by its invariant.
        unsafe { core::ptr::addr_of_mut!((*self.as_raw()).dev) }
    }

    /// The own state, as last written by this end.
    pub fn state(&self) -> State {
        // SAFETY: The device is valid by its invariant; the word is written as a whole.
        let state = unsafe { core::ptr::addr_of!((*self.as_raw()).state).read_volatile() };
        State::from_raw(state)
    }

    /// Writes the own state, unless it is that already or the device has vanished.
    pub fn switch_state(&self, state: State) {
        // The error, if any, is in the log and in xenstore by then.
        // SAFETY: The device is valid by its invariant.
        let _ = unsafe { bindings::xenbus_switch_state(self.as_raw(), state.into_raw()) };
    }

    /// Writes [`State::Closed`], and lets a shutdown go on that may be waiting for it.
    pub fn frontend_closed(&self) {
        // SAFETY: The device is valid by its invariant.
        let _ = unsafe { bindings::xenbus_frontend_closed(self.as_raw()) };
    }

    /// Whether the toolstack has removed the device's directory.
    pub fn has_vanished(&self) -> bool {
        // SAFETY: The device is valid by its invariant; the byte is written as a whole.
        unsafe { core::ptr::addr_of!((*self.as_raw()).vanished).read_volatile() }
    }

    /// The own directory in xenstore.
    pub fn nodename(&self) -> &CStr {
        // SAFETY: The device is valid by its invariant, and its name never changes.
        unsafe { CStr::from_char_ptr((*self.as_raw()).nodename) }
    }

    /// Its number, which is the last part of its directory's name.
    pub fn id(&self) -> &str {
        let name = self.nodename().to_str().unwrap_or("");
        name.rsplit('/').next().unwrap_or("")
    }

    /// The domain of the other end.
    pub fn otherend_id(&self) -> u16 {
        // CAST: The bus has read it as a number of its own domain's; domains have 16 bits.
        // SAFETY: The device is valid by its invariant; the word is written as a whole.
        unsafe { core::ptr::addr_of!((*self.as_raw()).otherend_id).read_volatile() as u16 }
    }

    /// Reports an error in the log and in the device's `error` node.
    pub fn error(&self, error: Error, message: fmt::Arguments<'_>) {
        // SAFETY: The device is valid by its invariant; "%pA" takes a pointer to
        // `fmt::Arguments`, which outlives the call.
        unsafe {
            bindings::xenbus_dev_error(
                self.as_raw(),
                error.to_errno(),
                c"%pA".as_char_ptr(),
                core::ptr::from_ref(&message).cast::<c_void>(),
            )
        };
    }

    /// Reports an error as [`error`](Self::error) does, and asks for the connection to end.
    pub fn fatal(&self, error: Error, message: fmt::Arguments<'_>) {
        // SAFETY: As in `error`.
        unsafe {
            bindings::xenbus_dev_fatal(
                self.as_raw(),
                error.to_errno(),
                c"%pA".as_char_ptr(),
                core::ptr::from_ref(&message).cast::<c_void>(),
            )
        };
    }
}

impl Device<device::Bound> {
    /// Looks at the path of the other end's directory in xenstore. In a callback of the bus: at other
    /// times it may change, when a guest resumes on another host.
    pub fn with_otherend<R>(&self, look: impl FnOnce(&CStr) -> R) -> R {
        // SAFETY: The device is valid by its invariant.
        let path = unsafe { (*self.as_raw()).otherend };
        if path.is_null() {
            // A restored guest could not find out who its other end is.
            return look(c"");
        }
        // SAFETY: The bus sets it before it probes a driver, and frees it after the driver is unbound or
        // at resume, in both cases between two callbacks. `look` cannot keep the reference.
        look(unsafe { CStr::from_char_ptr(path) })
    }
}

// SAFETY: `Device` is a transparent wrapper of a type that does not depend on its generic argument.
kernel::impl_device_context_deref!(unsafe { Device });
kernel::impl_device_context_into_aref!(Device);

// `BoundInternal` gives access to the driver's data, which only this file may have.
impl<Ctx: device::DeviceContext> AsRef<device::Device<Ctx>> for Device<Ctx> {
    fn as_ref(&self) -> &device::Device<Ctx> {
        // SAFETY: The device is valid by its invariant, and so is the `struct device` in it.
        unsafe { device::Device::from_raw(core::ptr::addr_of_mut!((*self.as_raw()).dev)) }
    }
}

// SAFETY: Devices are reference-counted by the `struct device` in them.
unsafe impl AlwaysRefCounted for Device {
    fn inc_ref(&self) {
        // SAFETY: The reference proves that the count is not zero.
        unsafe { bindings::get_device(core::ptr::addr_of_mut!((*self.as_raw()).dev)) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        let raw = obj.cast::<bindings::xenbus_device>().as_ptr();
        // SAFETY: By this function's requirements the count is not zero.
        unsafe { bindings::put_device(core::ptr::addr_of_mut!((*raw).dev)) };
    }
}

// SAFETY: Devices can be released from any thread.
unsafe impl Send for Device {}

// SAFETY: What can be done through a shared reference is synchronised by the bus and xenstore, or
// reads single words.
unsafe impl Sync for Device {}

// SAFETY: As for `Device`; the context is a marker only.
unsafe impl Sync for Device<device::Bound> {}

/// A counted reference to a device.
pub type DeviceRef = ARef<Device>;
