// SPDX-License-Identifier: GPL-2.0

//! What a driver does, and the tables by which C calls it.

mod ethtool;

use super::{
    xdp,
    Channels,
    Features,
    FlowFields,
    FlowKind,
    HashSizes,
    Rings,
    Rtnl,
    TxPacket, //
};
use crate::{
    bindings,
    compat::EOPNOTSUPP,
    moderation::Live, //
};
use core::{
    ffi::CStr,
    marker::PhantomData,
    mem::ManuallyDrop,
    slice, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

/// Addresses that a driver is told of: if there are more it has to receive those to any address.
const MOST_GROUPS: usize = 64;

/// What became of a packet that was to be sent.
pub enum Transmit {
    /// It was sent, or dropped.
    Taken,
    /// There is no room now, and the queue is stopped: it is to be handed over again.
    Busy(TxPacket),
}

/// Numbers of a whole interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Both directions, as for a queue.
    pub queues: QueueTotals,
    /// Packets received that were malformed.
    pub rx_errors: u64,
    /// Packets to send, or pieces of them, that the other end said it could not take.
    pub tx_errors: u64,
}

/// Numbers of a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueTotals {
    /// Packets received.
    pub rx_packets: u64,
    /// ... and their bytes.
    pub rx_bytes: u64,
    /// Packets received and dropped.
    pub rx_dropped: u64,
    /// Times that there was no memory for a packet.
    pub rx_alloc_fail: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// ... and their bytes.
    pub tx_bytes: u64,
    /// Packets that were to be sent, and dropped.
    pub tx_dropped: u64,
    /// Times that the queue was stopped.
    pub tx_stopped: u64,
    /// Times that it was started again.
    pub tx_woken: u64,
}

impl QueueTotals {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            rx_packets: self.rx_packets.wrapping_add(other.rx_packets),
            rx_bytes: self.rx_bytes.wrapping_add(other.rx_bytes),
            rx_dropped: self.rx_dropped.wrapping_add(other.rx_dropped),
            rx_alloc_fail: self.rx_alloc_fail.wrapping_add(other.rx_alloc_fail),
            tx_packets: self.tx_packets.wrapping_add(other.tx_packets),
            tx_bytes: self.tx_bytes.wrapping_add(other.tx_bytes),
            tx_dropped: self.tx_dropped.wrapping_add(other.tx_dropped),
            tx_stopped: self.tx_stopped.wrapping_add(other.tx_stopped),
            tx_woken: self.tx_woken.wrapping_add(other.tx_woken),
        }
    }

    fn fill_rx(&self, raw: &mut bindings::netdev_queue_stats_rx) {
        raw.packets = self.rx_packets;
        raw.bytes = self.rx_bytes;
        raw.hw_drops = self.rx_dropped;
        raw.alloc_fail = self.rx_alloc_fail;
    }

    fn fill_tx(&self, raw: &mut bindings::netdev_queue_stats_tx) {
        raw.packets = self.tx_packets;
        raw.bytes = self.tx_bytes;
        raw.hw_drops = self.tx_dropped;
        raw.stop = self.tx_stopped;
        raw.wake = self.tx_woken;
    }
}

/// A driver of interfaces.
pub trait Operations: Sized + Send + Sync + 'static {
    /// Names of what `ethtool -S` shows, in this order.
    const STATISTICS: &'static [&'static CStr];

    /// Somebody brings the interface up. Process context.
    ///
    /// # Errors
    ///
    /// Then it stays down.
    fn open(&self, rtnl: &Rtnl) -> Result;

    /// Somebody brings it down. Process context.
    fn stop(&self, rtnl: &Rtnl);

    /// Whether [`select_queue`](Self::select_queue) has a say.
    const SELECTS_QUEUE: bool = false;

    /// Which queue a packet is to be sent by; [`None`] if the kernel is to choose. More than are in use are
    /// taken for that.
    ///
    /// # Context
    ///
    /// Any: the kernel may want to print something while interrupts are disabled.
    fn select_queue(&self, packet: &TxPacket) -> Option<u32> {
        let _ = packet;
        None
    }

    /// Sends a packet. If `more`, another one follows at once, with which it can be told to the other end.
    ///
    /// # Context
    ///
    /// Softirqs disabled, if not interrupts: the kernel may want to print something. Never called by two
    /// processors at once for the same queue.
    fn transmit(&self, queue: u32, packet: TxPacket, more: bool) -> Transmit;

    /// Which of these features the interface can have now. Process context.
    fn fix_features(&self, wanted: Features) -> Features;

    /// Whether it can have packets of so many bytes, without the Ethernet header; it has from then on.
    /// Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if not.
    fn change_mtu(&self, mtu: u32, rtnl: &Rtnl) -> Result;

    /// Its numbers. Process context or softirq.
    fn totals(&self) -> Totals;

    /// The numbers of a queue that is in use, since it is. Process context or softirq.
    fn queue_totals(&self, queue: u32) -> QueueTotals;

    /// The numbers of queues that are not in use any more. Process context or softirq.
    fn past_totals(&self) -> QueueTotals;

    /// What [`STATISTICS`](Self::STATISTICS) name. Process context.
    fn statistics(&self, values: &mut [u64]);

    /// Its rings. Process context.
    fn rings(&self) -> Rings;

    /// Its queues. Process context.
    fn channels(&self) -> Channels;

    /// Whether users have a say in which packet is received by which queue.
    const CHOOSES_QUEUES: bool = false;

    /// How large what hashes are made with is. Process context.
    fn hash_sizes(&self) -> HashSizes {
        HashSizes::default()
    }

    /// Copies the key and the table, and says whether hashes are made with them. Either may be empty: then
    /// nobody wants to know. Process context.
    fn hashing(&self, key: &mut [u8], table: &mut [u32]) -> bool {
        let _ = (key, table);
        false
    }

    /// Has hashes made with another key, another table, or both. Process context.
    ///
    /// # Errors
    ///
    /// What the other end says to that.
    fn set_hashing(&self, key: Option<&[u8]>, table: Option<&[u32]>, rtnl: &Rtnl) -> Result {
        let _ = (key, table, rtnl);
        Err(EOPNOTSUPP)
    }

    /// What is hashed of a kind of packets. Process context.
    fn hash_fields(&self, kind: FlowKind) -> FlowFields {
        let _ = kind;
        FlowFields::Nothing
    }

    /// Has something else hashed of a kind of packets. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot be chosen like that, or what the other end says to it.
    fn set_hash_fields(&self, kind: FlowKind, fields: FlowFields, rtnl: &Rtnl) -> Result {
        let _ = (kind, fields, rtnl);
        Err(EOPNOTSUPP)
    }

    /// Whether [`receive_groups`](Self::receive_groups) is to be told.
    const CHOOSES_GROUPS: bool = false;

    /// Multicast packets to these addresses are to be received, or, if `all`, those to any address. Called again
    /// when that has changed, while the interface is up. Process context.
    fn receive_groups(&self, addresses: &[[u8; 6]], all: bool, rtnl: &Rtnl) {
        let _ = (addresses, all, rtnl);
    }

    /// Whether it runs programs, and sends what those of other interfaces want to be sent by it.
    const RUNS_PROGRAMS: bool = false;

    /// Has it run another program, or none. Process context.
    ///
    /// # Errors
    ///
    /// It cannot; then it runs the same one as before.
    fn set_program(&self, program: xdp::Offer<'_>, rtnl: &Rtnl) -> Result<(), xdp::Refusal> {
        let _ = (program, rtnl);
        Err(xdp::Refusal {
            errno: EOPNOTSUPP,
            message: c"programs are not supported",
        })
    }

    /// Sends packets for programs, as far as there is room. `processor` is this processor's number.
    ///
    /// # Context
    ///
    /// Softirqs disabled. May be called by several processors at once, also while
    /// [`transmit`](Self::transmit) is.
    fn transmit_frames(&self, processor: u32, frames: &mut xdp::Frames<'_>) {
        let _ = (processor, frames);
    }

    /// Whether users can have events of what is received held off, and of what is sent.
    const MODERATES: (bool, bool) = (false, false);

    /// What is set of the events of what is received. Process context.
    fn rx_moderation(&self) -> Option<&Live> {
        None
    }

    /// The same of what is sent. Process context.
    fn tx_moderation(&self) -> Option<&Live> {
        None
    }

    /// Has it use another number of queues. Process context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot; `EOPNOTSUPP` if it never can.
    fn set_channels(&self, count: u32, rtnl: &Rtnl) -> Result;
}

/// The tables of a driver.
pub(super) struct Table<T>(PhantomData<T>);

/// # Safety
///
/// `dev` must be registered for `T`.
#[inline]
unsafe fn data<'a, T: Operations>(dev: *const bindings::net_device) -> &'a T {
    // SAFETY: `Registration::new` has set it, and unregistering waits for all who use it.
    unsafe { &*bindings::xen_net_private(dev).cast::<T>() }
}

impl<T: Operations> Table<T> {
    pub(super) const NETDEV: bindings::net_device_ops = {
        // SAFETY: A table without any function is valid.
        let mut table: bindings::net_device_ops = unsafe { core::mem::zeroed() };
        table.ndo_open = Some(Self::open);
        table.ndo_stop = Some(Self::stop);
        table.ndo_start_xmit = Some(Self::start_xmit);
        if T::SELECTS_QUEUE {
            table.ndo_select_queue = Some(Self::select_queue);
        }
        table.ndo_fix_features = Some(Self::fix_features);
        table.ndo_change_mtu = Some(Self::change_mtu);
        table.ndo_get_stats64 = Some(Self::get_stats64);
        table.ndo_set_mac_address = Some(bindings::eth_mac_addr);
        table.ndo_validate_addr = Some(bindings::eth_validate_addr);
        if T::CHOOSES_GROUPS {
            table.ndo_set_rx_mode_async = Some(Self::set_rx_mode);
        }
        if T::RUNS_PROGRAMS {
            table.ndo_bpf = Some(Self::bpf);
            table.ndo_xdp_xmit = Some(Self::xdp_xmit);
        }
        table
    };

    pub(super) const ETHTOOL: bindings::ethtool_ops = {
        // SAFETY: A table without any function is valid.
        let mut table: bindings::ethtool_ops = unsafe { core::mem::zeroed() };
        table.get_link = Some(bindings::ethtool_op_get_link);
        table.get_ts_info = Some(bindings::ethtool_op_get_ts_info);
        table.get_sset_count = Some(Self::get_sset_count);
        table.get_strings = Some(Self::get_strings);
        table.get_ethtool_stats = Some(Self::get_ethtool_stats);
        table.get_ringparam = Some(Self::get_ringparam);
        table.get_channels = Some(Self::get_channels);
        table.set_channels = Some(Self::set_channels);
        if T::MODERATES.0 || T::MODERATES.1 {
            table.supported_coalesce_params = Self::COALESCE_PARAMETERS;
            table.get_coalesce = Some(Self::get_coalesce);
            table.set_coalesce = Some(Self::set_coalesce);
        }
        if T::CHOOSES_QUEUES {
            table.get_rx_ring_count = Some(Self::get_rx_ring_count);
            table.get_rxfh_key_size = Some(Self::get_rxfh_key_size);
            table.get_rxfh_indir_size = Some(Self::get_rxfh_indir_size);
            table.get_rxfh = Some(Self::get_rxfh);
            table.set_rxfh = Some(Self::set_rxfh);
            table.get_rxfh_fields = Some(Self::get_rxfh_fields);
            table.set_rxfh_fields = Some(Self::set_rxfh_fields);
        }
        table
    };

    pub(super) const STATISTICS: bindings::netdev_stat_ops = bindings::netdev_stat_ops {
        get_queue_stats_rx: Some(Self::get_queue_stats_rx),
        get_queue_stats_tx: Some(Self::get_queue_stats_tx),
        get_base_stats: Some(Self::get_base_stats),
    };

    // All of these are called by the kernel, with an interface that is registered with them.

    unsafe extern "C" fn open(dev: *mut bindings::net_device) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        from_result(|| this.open(&Rtnl::held()).map(|()| 0))
    }

    unsafe extern "C" fn stop(dev: *mut bindings::net_device) -> c_int {
        // SAFETY: See above.
        unsafe { data::<T>(dev) }.stop(&Rtnl::held());
        0
    }

    unsafe extern "C" fn start_xmit(
        skb: *mut bindings::sk_buff,
        dev: *mut bindings::net_device,
    ) -> bindings::netdev_tx_t {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel hands over a packet.
        let Some(packet) = (unsafe { TxPacket::from_raw(skb) }) else {
            return bindings::netdev_tx_NETDEV_TX_OK;
        };
        // SAFETY: The packet is valid.
        let queue = unsafe { bindings::xen_skb_queue(skb) };
        // SAFETY: The function has no requirement.
        let more = unsafe { bindings::xen_net_more() };
        match this.transmit(queue.into(), packet, more) {
            Transmit::Taken => bindings::netdev_tx_NETDEV_TX_OK,
            Transmit::Busy(packet) => {
                packet.into_raw();
                bindings::netdev_tx_NETDEV_TX_BUSY
            }
        }
    }

    unsafe extern "C" fn select_queue(
        dev: *mut bindings::net_device,
        skb: *mut bindings::sk_buff,
        below: *mut bindings::net_device,
    ) -> u16 {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // SAFETY: The kernel lends a packet; it stays the kernel's.
        let packet = unsafe { TxPacket::from_raw(skb) }.map(ManuallyDrop::new);
        let chosen = packet.and_then(|packet| this.select_queue(&packet));
        // SAFETY: The interface is valid.
        let queues = unsafe { bindings::xen_net_queues(dev) };
        match chosen.filter(|&queue| queue < queues) {
            // CAST: An interface has at most 65535 queues.
            Some(queue) => queue as u16,
            // SAFETY: The interface and the packet are valid.
            None => unsafe { bindings::xen_net_pick_queue(dev, skb, below) },
        }
    }

    unsafe extern "C" fn fix_features(
        dev: *mut bindings::net_device,
        features: bindings::netdev_features_t,
    ) -> bindings::netdev_features_t {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        this.fix_features(Features::from_bits(features)).bits()
    }

    unsafe extern "C" fn change_mtu(dev: *mut bindings::net_device, mtu: c_int) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        from_result(|| {
            let wanted = u32::try_from(mtu).map_err(|_| EINVAL)?;
            this.change_mtu(wanted, &Rtnl::held())?;
            // SAFETY: The interface is valid, and the kernel has the locks that it takes to change it.
            unsafe { core::ptr::addr_of_mut!((*dev).mtu).write_volatile(wanted) };
            Ok(0)
        })
    }

    unsafe extern "C" fn set_rx_mode(
        dev: *mut bindings::net_device,
        _unicast: *mut bindings::netdev_hw_addr_list,
        multicast: *mut bindings::netdev_hw_addr_list,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        let mut addresses = [[0; 6]; MOST_GROUPS];
        // CAST: It is small.
        let room = MOST_GROUPS as u32;
        // SAFETY: The kernel hands over a valid list, and there is as much room.
        let count = unsafe { bindings::xen_net_addresses(multicast, addresses.as_mut_ptr(), room) };
        // SAFETY: The interface is valid.
        let all = unsafe { bindings::xen_net_wants_all(dev) };
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        let known = addresses.get(..count as usize);
        this.receive_groups(known.unwrap_or(&[]), all || known.is_none(), &Rtnl::held());
        0
    }

    unsafe extern "C" fn bpf(
        dev: *mut bindings::net_device,
        command: *mut bindings::netdev_bpf,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        from_result(|| {
            // SAFETY: The kernel hands over a valid command, with the lock of rtnl held.
            unsafe { xdp::setup(command, |program, rtnl| this.set_program(program, rtnl)) }?;
            Ok(0)
        })
    }

    unsafe extern "C" fn xdp_xmit(
        dev: *mut bindings::net_device,
        count: c_int,
        frames: *mut *mut bindings::xdp_frame,
        flags: u32,
    ) -> c_int {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        if flags & !bindings::XDP_XMIT_FLUSH != 0 || count < 0 {
            return EINVAL.to_errno();
        }
        // CAST: It is not negative.
        // SAFETY: The kernel hands over as many frames.
        let frames = unsafe { slice::from_raw_parts(frames, count as usize) };
        // SAFETY: They are valid. The kernel takes those back that were not sent.
        let mut rest = unsafe { xdp::Frames::new(frames) };
        // SAFETY: The function has no requirement.
        this.transmit_frames(unsafe { bindings::xen_processor() }, &mut rest);
        // CAST: No more than `count`.
        (frames.len() - rest.left()) as c_int
    }

    unsafe extern "C" fn get_stats64(
        dev: *mut bindings::net_device,
        raw: *mut bindings::rtnl_link_stats64,
    ) {
        // SAFETY: See above.
        let totals = unsafe { data::<T>(dev) }.totals();
        // SAFETY: The kernel hands over a valid structure.
        let raw = unsafe { &mut *raw };
        raw.rx_packets = totals.queues.rx_packets;
        raw.rx_bytes = totals.queues.rx_bytes;
        raw.rx_dropped = totals.queues.rx_dropped;
        raw.rx_errors = totals.rx_errors;
        raw.tx_packets = totals.queues.tx_packets;
        raw.tx_bytes = totals.queues.tx_bytes;
        raw.tx_dropped = totals.queues.tx_dropped;
        raw.tx_errors = totals.tx_errors;
    }

    unsafe extern "C" fn get_queue_stats_rx(
        dev: *mut bindings::net_device,
        index: c_int,
        raw: *mut bindings::netdev_queue_stats_rx,
    ) {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // CAST: Queues have small numbers.
        // SAFETY: The kernel hands over a valid structure.
        this.queue_totals(index as u32)
            .fill_rx(unsafe { &mut *raw });
    }

    unsafe extern "C" fn get_queue_stats_tx(
        dev: *mut bindings::net_device,
        index: c_int,
        raw: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: See above.
        let this = unsafe { data::<T>(dev) };
        // CAST: Queues have small numbers.
        // SAFETY: The kernel hands over a valid structure.
        this.queue_totals(index as u32)
            .fill_tx(unsafe { &mut *raw });
    }

    unsafe extern "C" fn get_base_stats(
        dev: *mut bindings::net_device,
        rx: *mut bindings::netdev_queue_stats_rx,
        tx: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: See above.
        let totals = unsafe { data::<T>(dev) }.past_totals();
        // SAFETY: The kernel hands over valid structures.
        let (rx, tx) = unsafe { (&mut *rx, &mut *tx) };
        totals.fill_rx(rx);
        totals.fill_tx(tx);
    }
}
