// SPDX-License-Identifier: GPL-2.0

//! Interfaces.

use super::{
    table::Table,
    Operations,
    Rtnl, //
};
use crate::{
    bindings,
    xenbus::DeviceRef, //
};
use core::{
    ffi::CStr,
    fmt,
    ops::BitOr,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    fmt::Write,
    prelude::*,
    str::NullTerminatedFormatter,
    sync::Arc, //
};

/// What an interface can do by itself, `NETIF_F_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(u64);

impl Features {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Packets that lie in several pieces of memory.
    pub const SCATTER_GATHER: Self = Self(1 << bindings::NETIF_F_SG_BIT);
    /// The checksum of TCP and UDP over IPv4.
    pub const CHECKSUM_V4: Self = Self(1 << bindings::NETIF_F_IP_CSUM_BIT);
    /// The checksum of TCP and UDP over IPv6.
    pub const CHECKSUM_V6: Self = Self(1 << bindings::NETIF_F_IPV6_CSUM_BIT);
    /// Knowing that the checksum of what is received is good.
    pub const CHECKSUM_RECEIVED: Self = Self(1 << bindings::NETIF_F_RXCSUM_BIT);
    /// Cutting up TCP over IPv4.
    pub const SEGMENTATION_V4: Self = Self(1 << bindings::NETIF_F_TSO_BIT);
    /// Cutting up TCP over IPv6.
    pub const SEGMENTATION_V6: Self = Self(1 << bindings::NETIF_F_TSO6_BIT);
    /// Cutting up packets whose headers nobody has checked.
    pub const ROBUST: Self = Self(1 << bindings::NETIF_F_GSO_ROBUST_BIT);
    /// Packets that are chains of packets.
    pub const FRAG_LIST: Self = Self(1 << bindings::NETIF_F_FRAGLIST_BIT);

    /// Whether all of these are among them.
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These as well.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Without these.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// These as well, if `wanted`.
    #[must_use]
    pub const fn and_if(self, wanted: bool, others: Self) -> Self {
        if wanted {
            Self(self.0 | others.0)
        } else {
            self
        }
    }

    /// As a number, to be kept in an atomic.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// From that number.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl BitOr for Features {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.and(other)
    }
}

/// What an interface is to be.
pub struct Builder<'a> {
    /// The device that it belongs to.
    pub parent: &'a DeviceRef,
    /// Its name, or `eth%d` for the first number that is free.
    pub name: fmt::Arguments<'a>,
    /// Its address.
    pub address: [u8; 6],
    /// Most queues that it can have, for each direction.
    pub queues: u32,
    /// What it can always do.
    pub fixed: Features,
    /// What users can turn on and off; it is on in the beginning.
    pub changeable: Features,
    /// Least and most bytes of a packet, without the Ethernet header.
    pub mtu: (u32, u32),
}

impl Builder<'_> {
    /// Makes the interface, which nobody sees before [`Registration::new`]. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if the name is too long.
    pub fn build(self) -> Result<Arc<Netdev>> {
        // SAFETY: The function has no requirement.
        let raw = NonNull::new(unsafe { bindings::xen_net_alloc(self.queues) }).ok_or(ENOMEM)?;
        // INVARIANT: It was just allocated.
        let netdev = Netdev {
            raw,
            queues: self.queues,
        };
        {
            // SAFETY: It was allocated, and nobody else knows it yet.
            let dev = unsafe { &mut *raw.as_ptr() };
            dev.hw_features = self.changeable.bits();
            (dev.min_mtu, dev.max_mtu) = self.mtu;
            NullTerminatedFormatter::new(&mut dev.name)
                .ok_or(EINVAL)?
                .write_fmt(self.name)
                .map_err(|_| EINVAL)?;
            if !dev.name.contains(&b'%') {
                // By the name nobody can tell what it is: udev leaves it alone.
                // CAST: One of a few.
                dev.name_assign_type = bindings::NET_NAME_UNKNOWN as u8;
            }
        }
        let features = (self.fixed | self.changeable).bits();
        // SAFETY: As above.
        unsafe { bindings::xen_net_set_features(raw.as_ptr(), features) };
        // SAFETY: The interface is valid, and the address has the six bytes of Ethernet's. The parent
        // is valid; it stays so until the interface is unregistered, since `Registration` has a
        // reference.
        unsafe {
            bindings::xen_net_set_address(raw.as_ptr(), self.address.as_ptr());
            bindings::xen_net_set_parent(raw.as_ptr(), self.parent.as_device());
            bindings::netif_carrier_off(raw.as_ptr());
        }
        Ok(Arc::new(netdev, GFP_KERNEL)?)
    }
}

/// An interface, registered or not.
///
/// # Invariants
///
/// `raw` is a network device that [`Builder`] has allocated, and that is freed with this value.
/// Whatever it is called on, it lives; after it was unregistered nothing that is called here is seen by
/// anybody.
pub struct Netdev {
    raw: NonNull<bindings::net_device>,
    queues: u32,
}

// SAFETY: The kernel synchronises what is called here.
unsafe impl Send for Netdev {}
// SAFETY: As above.
unsafe impl Sync for Netdev {}

impl Netdev {
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::net_device {
        self.raw.as_ptr()
    }

    /// Most queues that it can have.
    pub fn most_queues(&self) -> u32 {
        self.queues
    }

    /// Its name, which users can change, but not as long as the lock of rtnl is held.
    pub fn name<'a>(&'a self, _rtnl: &'a Rtnl) -> &'a CStr {
        // SAFETY: The interface is valid; its name always ends with NUL, and is only written with the lock
        // held.
        unsafe { CStr::from_char_ptr(bindings::xen_net_name(self.as_raw())) }
    }

    /// Writes a warning to the log, unless there have been too many of late. Any context.
    pub fn warn(&self, message: fmt::Arguments<'_>) {
        // SAFETY: The interface is valid; "%pA" takes a pointer to `fmt::Arguments`, which outlives the
        // call.
        unsafe { bindings::xen_net_warn(self.as_raw(), core::ptr::from_ref(&message).cast()) };
    }

    /// Writes a line to the log. Any context.
    pub fn info(&self, message: fmt::Arguments<'_>) {
        // SAFETY: As in `warn`.
        unsafe { bindings::xen_net_info(self.as_raw(), core::ptr::from_ref(&message).cast()) };
    }

    /// Whether somebody has brought it up.
    #[inline]
    pub fn is_running(&self) -> bool {
        // SAFETY: The interface is valid.
        unsafe { bindings::xen_net_is_running(self.as_raw()) }
    }

    /// Most bytes of a packet, without the Ethernet header.
    pub fn mtu(&self) -> u32 {
        // SAFETY: The interface is valid; the word is written as a whole.
        unsafe { core::ptr::addr_of!((*self.as_raw()).mtu).read_volatile() }
    }

    /// Whether the other end takes and sends packets, which users see as a carrier.
    pub fn set_carrier(&self, _rtnl: &Rtnl, on: bool) {
        // SAFETY: The interface is valid. The lock keeps it from being unregistered meanwhile, and
        // the function does nothing with one that is not registered.
        unsafe { bindings::xen_net_set_carrier(self.as_raw(), on) };
    }

    /// Whether there is a carrier.
    pub fn has_carrier(&self) -> bool {
        // SAFETY: The interface is valid.
        unsafe { bindings::xen_net_has_carrier(self.as_raw()) }
    }

    /// Tells the kernel how many queues are used, for each direction.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are none or more than it can have, `ENOMEM`.
    pub fn set_queues(&self, _rtnl: &Rtnl, count: u32) -> Result {
        // SAFETY: The interface is valid, and the lock of rtnl held.
        to_result(unsafe { bindings::xen_net_set_queues(self.as_raw(), count) })
    }

    /// Has each processor send by one of the first `count` queues, as long as users do not want it otherwise.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; then packets are shared out by their hash.
    pub fn spread_queues(&self, _rtnl: &Rtnl, count: u32) -> Result {
        if count > self.queues {
            return Err(EINVAL);
        }
        // SAFETY: The interface is valid and has the queues, and the lock of rtnl is held.
        to_result(unsafe { bindings::xen_net_spread_queues(self.as_raw(), count) })
    }

    /// Has the kernel ask [`Operations::fix_features`] again.
    pub fn update_features(&self, _rtnl: &Rtnl) {
        // SAFETY: The interface is valid, and the lock of rtnl held.
        unsafe { bindings::netdev_update_features(self.as_raw()) };
    }

    /// Sets the greatest packet, without the Ethernet header, as a user would.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the interface cannot have it.
    pub fn set_mtu(&self, _rtnl: &Rtnl, mtu: u32) -> Result {
        let mtu = c_int::try_from(mtu).map_err(|_| EINVAL)?;
        // SAFETY: The interface is valid, and the lock of rtnl held.
        to_result(unsafe { bindings::netif_set_mtu(self.as_raw(), mtu) })
    }

    /// Gives it another address.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn set_address(&self, _rtnl: &Rtnl, address: [u8; 6]) -> Result {
        // SAFETY: The interface is valid, the address has the six bytes of Ethernet's, and the lock of
        // rtnl is held.
        to_result(unsafe { bindings::xen_net_change_address(self.as_raw(), address.as_ptr()) })
    }

    /// Tells the neighbours where the interface is now, as after a migration.
    pub fn notify_peers(&self, _rtnl: &Rtnl) {
        // SAFETY: The interface is valid, and the lock of rtnl held.
        unsafe { bindings::xen_net_notify_peers(self.as_raw()) };
    }

    /// Asks for no packet of a queue any more. Any context.
    #[inline]
    pub fn stop_queue(&self, queue: u32) {
        if queue < self.queues {
            // SAFETY: The interface is valid and has the queue.
            unsafe { bindings::xen_net_tx_stop(self.as_raw(), queue) };
        }
    }

    /// Asks for packets of a queue again. Any context.
    #[inline]
    pub fn wake_queue(&self, queue: u32) {
        if queue < self.queues {
            // SAFETY: The interface is valid and has the queue.
            unsafe { bindings::xen_net_tx_wake(self.as_raw(), queue) };
        }
    }

    /// Whether no packet of a queue is sent now, be it for lack of room or for the queue's limit. Any context.
    #[inline]
    pub fn is_stopped(&self, queue: u32) -> bool {
        // SAFETY: The interface is valid and has the queue.
        queue < self.queues && unsafe { bindings::xen_net_tx_is_stopped(self.as_raw(), queue) }
    }

    /// Tells the queue's limit that bytes have been given to the other end, and says whether that must
    /// be told at once, rather than with the packets that `more` says will follow. With the queue's
    /// lock held, as [`Operations::transmit`] is called.
    #[inline]
    pub fn sent(&self, queue: u32, bytes: u32, more: bool) -> bool {
        // SAFETY: The interface is valid and has the queue.
        queue >= self.queues
            || unsafe { bindings::xen_net_tx_sent(self.as_raw(), queue, bytes, more) }
    }

    /// Tells the queue's limit that the other end is done with packets. In [`Poll::poll`](super::Poll::poll).
    #[inline]
    pub fn completed(&self, queue: u32, packets: u32, bytes: u32) {
        if queue < self.queues {
            // SAFETY: The interface is valid and has the queue.
            unsafe { bindings::xen_net_tx_completed(self.as_raw(), queue, packets, bytes) };
        }
    }

    /// Lets so many bytes of a queue be with the other end at least, however fast it is done with them.
    /// Neither [`sent`](Self::sent) nor [`completed`](Self::completed) may be running.
    pub fn set_least_limit(&self, queue: u32, bytes: u32) {
        if queue < self.queues {
            // SAFETY: The interface is valid and has the queue.
            unsafe { bindings::xen_net_tx_set_least_limit(self.as_raw(), queue, bytes) };
            self.reset_queue(queue);
        }
    }

    /// Nothing is with the other end any more. Neither [`sent`](Self::sent) nor
    /// [`completed`](Self::completed) may be running.
    pub fn reset_queue(&self, queue: u32) {
        if queue < self.queues {
            // SAFETY: The interface is valid and has the queue.
            unsafe { bindings::xen_net_tx_reset(self.as_raw(), queue) };
        }
    }

    /// Stops all queues, and waits for those that are just sending. Process context.
    pub fn stop_all(&self) {
        // SAFETY: The interface is valid.
        unsafe { bindings::xen_net_tx_disable(self.as_raw()) };
    }

    /// Asks for packets of all queues again. Any context.
    pub fn wake_all(&self) {
        // SAFETY: The interface is valid.
        unsafe { bindings::xen_net_tx_wake_all(self.as_raw()) };
    }
}

impl Drop for Netdev {
    fn drop(&mut self) {
        // SAFETY: It was allocated by the type invariant. It is not registered: a `Registration` has
        // a reference to this value.
        unsafe { bindings::free_netdev(self.as_raw()) };
    }
}

/// An interface that users see.
///
/// Dropping it takes it away from them. When that returns no function of [`Operations`] is running, and
/// none is called any more. Process context, without the lock of rtnl.
///
/// # Invariants
///
/// `netdev` is registered with `T`'s tables, and a reference to `data` as its private data.
pub struct Registration<T: Operations> {
    netdev: Arc<Netdev>,
    data: *const T,
    _parent: DeviceRef,
}

// SAFETY: The data is `Send` and `Sync`, and may be dropped by any thread.
unsafe impl<T: Operations> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Sync for Registration<T> {}

impl<T: Operations> Registration<T> {
    /// Shows the interface to users, who can bring it up before this returns. Process context, without
    /// the lock of rtnl.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of the name, `ENOMEM` and others; `EBUSY` if it was registered before.
    pub fn new(netdev: Arc<Netdev>, parent: &DeviceRef, data: Arc<T>) -> Result<Self> {
        let raw = netdev.as_raw();
        // SAFETY: The interface is valid. One that was registered is not that for the first time any
        // more, even if it has been unregistered.
        if unsafe { !bindings::xen_net_is_new(raw) } {
            return Err(EBUSY);
        }
        let data = Arc::into_raw(data);
        // SAFETY: The interface is not registered: nobody else uses it but through `Netdev`, which
        // leaves these fields alone.
        unsafe {
            bindings::xen_net_set_private(raw, data.cast_mut().cast());
            (*raw).netdev_ops = &Table::<T>::NETDEV;
            (*raw).ethtool_ops = &Table::<T>::ETHTOOL;
            (*raw).stat_ops = &Table::<T>::STATISTICS;
        }
        if T::RUNS_PROGRAMS {
            // SAFETY: The interface is valid and not registered.
            unsafe { bindings::xen_xdp_set_features(raw) };
        }
        // SAFETY: As above.
        let result = to_result(unsafe { bindings::register_netdev(raw) });
        if let Err(error) = result {
            // SAFETY: The reference was not given away after all.
            drop(unsafe { Arc::from_raw(data) });
            return Err(error);
        }
        // INVARIANT: It is registered like that.
        Ok(Self {
            netdev,
            data,
            _parent: parent.clone(),
        })
    }

    /// The interface.
    pub fn netdev(&self) -> &Arc<Netdev> {
        &self.netdev
    }
}

impl<T: Operations> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: It is registered by the type invariant. When this returns nobody uses it any more.
        unsafe { bindings::unregister_netdev(self.netdev.as_raw()) };
        // SAFETY: The reference is from `new`, and the tables' functions, which use it, do not run any
        // more.
        drop(unsafe { Arc::from_raw(self.data) });
    }
}
