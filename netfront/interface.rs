// SPDX-License-Identifier: GPL-2.0

//! The interface that the guest sees.

use crate::{
    features::most_mtu,
    frontend::Frontend,
    queue::Queue,
    stats, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
};
use xen::{
    io::netif::{
        RX_SLOTS,
        TX_SLOTS, //
    },
    net::{
        Channels,
        Features,
        Netdev,
        Operations,
        QueueTotals,
        Rings,
        Rtnl,
        Totals,
        Transmit,
        TxPacket, //
    },
};

/// What the interface can do if the backend can.
pub(crate) const CHANGEABLE: [Features; 5] = [
    Features::SCATTER_GATHER,
    Features::CHECKSUM_V4,
    Features::CHECKSUM_V6,
    Features::SEGMENTATION_V4,
    Features::SEGMENTATION_V6,
];

/// The interface of a device.
pub(crate) struct Interface {
    frontend: Arc<Frontend>,
    netdev: Arc<Netdev>,
    /// All that it can have; the first `used` have rings.
    queues: KVec<Arc<Queue>>,
    used: Atomic<u32>,
    /// So many could have, by what the backend offers.
    most: Atomic<u32>,
    /// So many somebody wants to have, or 0: as many as there can be.
    wanted: Atomic<u32>,
    /// What the backend can do, bits of [`Features`].
    offered: Atomic<u64>,
    /// The MTU that the interface had before a backend came that could not do it, or 0. It gets it back
    /// with a backend that can, unless somebody has set another one.
    mtu_before: Atomic<u32>,
    /// So many queues the processors were shared out to.
    spread: Atomic<u32>,
}

impl Interface {
    /// For a device's interface.
    pub(crate) fn new(frontend: Arc<Frontend>, netdev: Arc<Netdev>) -> Result<Arc<Self>> {
        let mut queues = KVec::new();
        for index in 0..netdev.most_queues() {
            queues.push(Queue::new(netdev.clone(), index)?, GFP_KERNEL)?;
        }
        let interface = Self {
            frontend,
            netdev,
            queues,
            used: Atomic::new(0),
            most: Atomic::new(0),
            wanted: Atomic::new(0),
            offered: Atomic::new(0),
            mtu_before: Atomic::new(0),
            spread: Atomic::new(0),
        };
        Ok(Arc::new(interface, GFP_KERNEL)?)
    }

    /// The interface as the kernel knows it.
    pub(crate) fn netdev(&self) -> &Arc<Netdev> {
        &self.netdev
    }

    /// A queue by its number.
    pub(crate) fn queue(&self, index: u32) -> Option<&Arc<Queue>> {
        self.queues.get(index as usize)
    }

    /// So many queues have rings, of so many that could have, and the backend can do this.
    pub(crate) fn agree(&self, queues: u32, most: u32, offered: Features) {
        self.used.store(queues, Release);
        self.most.store(most, Release);
        self.offered.store(offered.bits(), Release);
    }

    /// Queues that have rings.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Acquire)
    }

    /// How many queues somebody has asked for.
    pub(crate) fn wanted_queues(&self) -> Option<u32> {
        Some(self.wanted.load(Acquire)).filter(|&count| count != 0)
    }

    /// What the backend can do.
    fn offered(&self) -> Features {
        Features::from_bits(self.offered.load(Relaxed))
    }

    /// Whoever sends something by a queue is told of what became of it by the same processor. Users can have
    /// it otherwise.
    pub(crate) fn spread(&self, rtnl: &Rtnl) {
        let used = self.used();
        if self.spread.xchg(used, Full) != used {
            // If there is no memory for that it is only slower.
            let _ = self.netdev.spread_queues(rtnl, used);
        }
    }

    /// The largest packet without the Ethernet header, by what the backend can do.
    fn most_mtu(&self) -> u32 {
        most_mtu(self.offered().contains(Features::SCATTER_GATHER))
    }

    /// The backend's offer may be less than what the interface does: packets may have to become smaller.
    pub(crate) fn follow_offer(&self, rtnl: &Rtnl) {
        self.netdev.update_features(rtnl);
        let (most, mtu) = (self.most_mtu(), self.netdev.mtu());
        let before = self.mtu_before.load(Relaxed);
        // Whatever is set here is within the interface's limits.
        if mtu > most {
            pr_info!("Reducing MTU because no SG offload\n");
            let _ = self.netdev.set_mtu(rtnl, most);
            self.mtu_before.store(mtu, Relaxed);
        } else if before > mtu && before <= most {
            let _ = self.netdev.set_mtu(rtnl, before);
        }
    }
}

impl Operations for Interface {
    const STATISTICS: &'static [&'static CStr] = &stats::NAMES;

    fn open(&self, _rtnl: &Rtnl) -> Result {
        if self.frontend.is_broken() {
            return Err(ENODEV);
        }
        if self.netdev.has_carrier() {
            self.netdev.wake_all();
        }
        Ok(())
    }

    fn stop(&self, _rtnl: &Rtnl) {
        // What is received from now on is dropped: the backend must not wait for it.
        self.netdev.stop_all();
    }

    fn transmit(&self, queue: u32, packet: TxPacket, more: bool) -> Transmit {
        match self.queue(queue) {
            Some(queue) => queue.transmit(packet, more),
            None => Transmit::Taken,
        }
    }

    fn fix_features(&self, wanted: Features) -> Features {
        let missing = CHANGEABLE
            .into_iter()
            .filter(|feature| !self.offered().contains(*feature));
        missing.fold(wanted, Features::without)
    }

    fn change_mtu(&self, mtu: u32, _rtnl: &Rtnl) -> Result {
        if mtu > self.most_mtu() {
            return Err(EINVAL);
        }
        self.mtu_before.store(0, Relaxed);
        Ok(())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for queue in &self.queues {
            let (tx, rx) = queue.stats();
            totals.queues = totals.queues.plus(queue.totals());
            totals.rx_errors = totals.rx_errors.wrapping_add(rx.errors());
            totals.tx_errors = totals.tx_errors.wrapping_add(tx.refused);
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
        // CAST: Few.
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

    fn rings(&self) -> Rings {
        Rings {
            most_received: RX_SLOTS,
            received: RX_SLOTS,
            most_sent: TX_SLOTS,
            sent: TX_SLOTS,
        }
    }

    fn channels(&self) -> Channels {
        Channels {
            most: self.most.load(Acquire),
            count: self.used(),
        }
    }

    fn set_channels(&self, count: u32, _rtnl: &Rtnl) -> Result {
        // The number is agreed on with the backend when the two connect.
        let before = self.wanted.xchg(count, Full);
        if count == self.used() {
            return Ok(());
        }
        self.frontend
            .renew()
            .inspect_err(|_| self.wanted.store(before, Release))
    }
}
