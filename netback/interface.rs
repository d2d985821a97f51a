// SPDX-License-Identifier: GPL-2.0

//! The interface in this domain, `vif<guest>.<handle>`: what the guest transmits is received here, and the
//! other way round.

use crate::{
    queue::Queue,
    rules::Rules,
    stats, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};
use xen::{
    compat::EOPNOTSUPP,
    io::netif::{
        RX_SLOTS,
        TX_SLOTS, //
    },
    moderation::Live,
    net::{
        self,
        Channels,
        Features,
        Netdev,
        Offer,
        Operations,
        QueueTotals,
        Registration,
        Rings,
        Rtnl,
        Totals,
        Transmit,
        TxPacket, //
    },
    xenbus::DeviceRef, //
};

/// What the interface can do if the guest can receive it.
const CHANGEABLE: Features = Features::SCATTER_GATHER
    .and(Features::CHECKSUM_V4)
    .and(Features::CHECKSUM_V6)
    .and(Features::SEGMENTATION_V4)
    .and(Features::SEGMENTATION_V6)
    .and(Features::FRAG_LIST);

/// Least bytes of a packet without the Ethernet header, of which an interface can be told.
const LEAST_MTU: u32 = 68;

/// Most bytes: that leaves room for the header and a VLAN's.
const MOST_MTU: u32 = 65_535 - 18;

/// Most bytes of a packet, without the header, for a guest that takes them in one piece only.
const PLAIN_MTU: u32 = 1500;

/// The address of all these interfaces: the largest that is none of several machines', so that no bridge
/// takes it for its own.
const ADDRESS: [u8; 6] = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff];

/// The interface of a device.
pub(crate) struct Interface {
    netdev: Arc<Netdev>,
    rules: Arc<Rules>,
    /// All that it can have; the first `used` have rings, or had them last.
    queues: KVec<Arc<Queue>>,
    used: Atomic<u32>,
    /// What the guest can receive.
    offer: Offer,
}

impl Interface {
    /// Makes the interface of the guest's device `handle`, with so many queues at most, and shows it to
    /// users. Process context.
    ///
    /// # Errors
    ///
    /// `EEXIST` if there is one of that name, `ENOMEM` and others.
    pub(crate) fn new(
        dev: &DeviceRef,
        handle: u32,
        queues: u32,
        rules: Arc<Rules>,
    ) -> Result<(Arc<Self>, Registration<Self>)> {
        let netdev = net::Builder {
            parent: dev,
            name: fmt!("vif{}.{handle}", dev.otherend_id()),
            address: ADDRESS,
            queues,
            fixed: Features::CHECKSUM_RECEIVED,
            changeable: CHANGEABLE,
            mtu: (LEAST_MTU, MOST_MTU),
        }
        .build()?;
        let mut list = KVec::new();
        for index in 0..queues {
            let queue = Queue::new(netdev.clone(), index, rules.clone())?;
            list.push(queue, GFP_KERNEL)?;
        }
        let interface = Self {
            netdev: netdev.clone(),
            rules,
            queues: list,
            used: Atomic::new(0),
            // Until the frontend has said what it can do nothing is sent.
            offer: Offer::new(CHANGEABLE, (MOST_MTU, PLAIN_MTU)),
        };
        let interface = Arc::new(interface, GFP_KERNEL)?;
        let registration = Registration::new(netdev, dev, interface.clone())?;
        Ok((interface, registration))
    }

    /// The interface as the kernel knows it.
    pub(crate) fn netdev(&self) -> &Arc<Netdev> {
        &self.netdev
    }

    /// A queue by its number.
    pub(crate) fn queue(&self, index: u32) -> Option<&Arc<Queue>> {
        // CAST: `u32` fits into `usize` on every machine that runs Linux.
        self.queues.get(index as usize)
    }

    /// The queues that have rings, or had them last.
    pub(crate) fn used_queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        // CAST: As above.
        self.queues.iter().take(self.used() as usize)
    }

    /// So many queues have rings, and the guest can receive this: packets may have to become smaller.
    pub(crate) fn agree(&self, rtnl: &Rtnl, queues: u32, offered: Features) {
        self.used.store(queues, Release);
        self.offer.follow(&self.netdev, rtnl, offered);
    }

    fn used(&self) -> u32 {
        self.used.load(Acquire)
    }
}

impl Operations for Interface {
    const STATISTICS: &'static [&'static CStr] = &stats::NAMES;
    const SELECTS_QUEUE: bool = true;

    fn open(&self, _rtnl: &Rtnl) -> Result {
        if self.netdev.has_carrier() {
            self.netdev.wake_all();
        }
        // What the guest has transmitted meanwhile has been left where it is.
        for queue in self.used_queues() {
            queue.kick();
        }
        Ok(())
    }

    fn stop(&self, _rtnl: &Rtnl) {
        self.netdev.stop_all();
    }

    fn select_queue(&self, packet: &TxPacket) -> Option<u32> {
        let (_, queue) = self.rules.hash(packet, self.used())?;
        Some(queue)
    }

    fn transmit(&self, queue: u32, packet: TxPacket, _more: bool) -> Transmit {
        match self.queue(queue) {
            Some(queue) => queue.transmit(packet, self.used(), self.offer.features()),
            None => Transmit::Taken,
        }
    }

    fn fix_features(&self, wanted: Features) -> Features {
        self.offer.fix_features(wanted)
    }

    fn change_mtu(&self, mtu: u32, _rtnl: &Rtnl) -> Result {
        self.offer.change_mtu(mtu)
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for queue in &self.queues {
            let (rx_errors, tx_errors) = queue.errors();
            totals.queues = totals.queues.plus(queue.totals());
            totals.rx_errors = totals.rx_errors.wrapping_add(rx_errors);
            totals.tx_errors = totals.tx_errors.wrapping_add(tx_errors);
        }
        totals
    }

    fn queue_totals(&self, queue: u32) -> QueueTotals {
        match self.queue(queue) {
            Some(queue) => queue.totals(),
            None => QueueTotals::default(),
        }
    }

    fn past_totals(&self) -> QueueTotals {
        // CAST: As in `queue`.
        self.queues
            .iter()
            .skip(self.used() as usize)
            .fold(QueueTotals::default(), |sum, queue| {
                sum.plus(queue.totals())
            })
    }

    fn statistics(&self, values: &mut [u64]) {
        for queue in &self.queues {
            for (sum, value) in values.iter_mut().zip(queue.values()) {
                *sum = sum.wrapping_add(value);
            }
        }
    }

    // When the guest is to look at what it receives is its own business.
    const MODERATES: (bool, bool) = (true, false);

    fn rx_moderation(&self) -> Option<&Live> {
        Some(&self.rules.moderation)
    }

    fn rings(&self) -> Rings {
        Rings {
            most_received: TX_SLOTS,
            received: TX_SLOTS,
            most_sent: RX_SLOTS,
            sent: RX_SLOTS,
        }
    }

    fn channels(&self) -> Channels {
        Channels {
            most: self.netdev.most_queues(),
            count: self.used(),
        }
    }

    fn set_channels(&self, _count: u32, _rtnl: &Rtnl) -> Result {
        // The frontend chooses when it connects.
        Err(EOPNOTSUPP)
    }
}
