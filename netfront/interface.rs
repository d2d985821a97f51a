// SPDX-License-Identifier: GPL-2.0

//! The interface that the guest sees.

use crate::{
    control_ring::ControlRing,
    features::{
        most_mtu,
        most_program_mtu, //
    },
    frontend::Frontend,
    groups::Groups,
    hash::{
        self,
        Fields,
        Hashing, //
    },
    queue::{
        Moderation,
        Queue, //
    },
    stats,
    RX_MODERATION,
    TX_MODERATION, //
};
use core::ffi::CStr;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        Mutex, //
    },
};
use xen::{
    compat::EOPNOTSUPP,
    io::netif::{
        control::HashKind,
        RX_SLOTS,
        TX_SLOTS, //
    },
    moderation::{
        self,
        Live, //
    },
    net::{
        fill_hash_key,
        xdp::{
            self,
            ProgramSlot, //
        },
        Channels,
        Features,
        FlowFields,
        FlowKind,
        HashSizes,
        Netdev,
        Operations,
        QueueTotals,
        Rings,
        Rtnl,
        Totals,
        Transmit,
        TxPacket, //
    },
    xenbus::store, //
};

/// What the interface can do if the backend can.
pub(crate) const CHANGEABLE: [Features; 5] = [
    Features::SCATTER_GATHER,
    Features::CHECKSUM_V4,
    Features::CHECKSUM_V6,
    Features::SEGMENTATION_V4,
    Features::SEGMENTATION_V6,
];

/// What a connection can do.
pub(crate) struct Terms {
    /// Queues that have rings.
    pub(crate) queues: u32,
    /// Queues that could have.
    pub(crate) most_queues: u32,
    /// What the backend can do with packets.
    pub(crate) features: Features,
    /// It sees nothing but packets.
    pub(crate) untrusted: bool,
    /// It can leave room before what is received.
    pub(crate) headroom: bool,
    /// It can be told which multicast packets are wanted.
    pub(crate) groups: bool,
}

/// The interface of a device.
#[pin_data]
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
    /// What sees packets before the network stack does.
    program: Arc<ProgramSlot>,
    /// The backend is to see nothing but packets.
    untrusted: Atomic<bool>,
    /// The backend can leave room for a program, and was told to leave so much.
    can_leave_headroom: Atomic<bool>,
    told_headroom: Atomic<u32>,
    /// Multicast packets that are wanted.
    #[pin]
    groups: Mutex<Groups>,
    moderation: Arc<Moderation>,
    /// By which the backend is told what is chosen of hashes, if there is one.
    #[pin]
    control_ring: Mutex<Option<Arc<ControlRing>>>,
    #[pin]
    hashing: Mutex<Choice>,
}

/// What users have chosen of hashes.
struct Choice {
    hashing: Option<Hashing>,
    /// The backend has been told, by the ring that there is now.
    is_told: bool,
}

impl Interface {
    /// For a device's interface.
    pub(crate) fn new(frontend: Arc<Frontend>, netdev: Arc<Netdev>) -> Result<Arc<Self>> {
        let program = Arc::new(ProgramSlot::new(), GFP_KERNEL)?;
        let moderation = Moderation {
            tx: Live::new(&TX_MODERATION),
            rx: Live::new(&RX_MODERATION),
        };
        let moderation = Arc::new(moderation, GFP_KERNEL)?;
        let mut queues = KVec::new();
        for index in 0..netdev.most_queues() {
            let queue = Queue::new(netdev.clone(), index, program.clone(), moderation.clone())?;
            queues.push(queue, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
            frontend,
            netdev,
            queues,
            used: Atomic::new(0),
            most: Atomic::new(0),
            wanted: Atomic::new(0),
            offered: Atomic::new(0),
            mtu_before: Atomic::new(0),
            spread: Atomic::new(0),
            program,
            untrusted: Atomic::new(false),
            can_leave_headroom: Atomic::new(false),
            told_headroom: Atomic::new(0),
                groups <- new_mutex!(Groups::new()),
                moderation,
                control_ring <- new_mutex!(None),
                hashing <- new_mutex!(Choice { hashing: None, is_told: false }),
            }),
            GFP_KERNEL,
        )
    }

    /// The interface as the kernel knows it.
    pub(crate) fn netdev(&self) -> &Arc<Netdev> {
        &self.netdev
    }

    /// A queue by its number.
    pub(crate) fn queue(&self, index: u32) -> Option<&Arc<Queue>> {
        self.queues.get(index as usize)
    }

    /// Takes over what the toolstack has written of events into `dir`. Process context.
    pub(crate) fn read_moderation(&self, dir: &CStr) -> Result<(), store::KeyError> {
        self.moderation.rx.read_keys_of(dir, &moderation::RX_KEYS)?;
        self.moderation.tx.read_keys_of(dir, &moderation::TX_KEYS)
    }

    /// What a connection that is just being made can do.
    pub(crate) fn agree(&self, terms: &Terms) {
        self.used.store(terms.queues, Release);
        self.most.store(terms.most_queues, Release);
        self.offered.store(terms.features.bits(), Release);
        self.untrusted.store(terms.untrusted, Release);
        self.can_leave_headroom.store(terms.headroom, Release);
        self.groups.lock().begin(terms.groups);
    }

    /// There is another control ring, or none any more. Process context.
    pub(crate) fn set_control_ring(&self, ring: Option<Arc<ControlRing>>) {
        let old = core::mem::replace(&mut *self.control_ring.lock(), ring);
        // Whoever waits for an answer by it has a reference.
        drop(old);
        self.hashing.lock().is_told = false;
    }

    fn control_ring(&self) -> Option<Arc<ControlRing>> {
        self.control_ring.lock().clone()
    }

    /// Tells a backend that has just been connected what users have chosen. Process context; may wait for it.
    pub(crate) fn tell_hashing(&self) {
        let Some(ring) = self.control_ring() else {
            return;
        };
        let mut choice = self.hashing.lock();
        if choice.is_told {
            return;
        }
        // It is not asked again if it does not want to.
        choice.is_told = true;
        if let Some(hashing) = &choice.hashing {
            if let Err(errno) = ring.apply(hashing, self.used(), false) {
                let errno = errno.to_errno();
                self.netdev
                    .warn(fmt!("the backend does not hash as it is to: error {errno}"));
            }
        }
    }

    /// Has the backend hash in another way, if there is one that can.
    fn change_hashing(
        &self,
        change: impl FnOnce(&mut Hashing) -> Result<(), hash::Impossible>,
    ) -> Result {
        let ring = self.control_ring().ok_or(EOPNOTSUPP)?;
        let mut choice = self.hashing.lock();
        let has_table = choice.is_told && choice.hashing.is_some();
        let mut hashing = self.chosen(&choice);
        change(&mut hashing).map_err(|_| EINVAL)?;
        choice.is_told = false;
        ring.apply(&hashing, self.used(), has_table)?;
        choice.hashing = Some(hashing);
        choice.is_told = true;
        Ok(())
    }

    /// What was chosen, or what would be if nobody said otherwise.
    fn chosen(&self, choice: &Choice) -> Hashing {
        choice.hashing.clone().unwrap_or_else(|| {
            let mut key = [0; hash::KEY_SIZE];
            fill_hash_key(&mut key);
            Hashing::new(key, self.used())
        })
    }

    /// Multicast packets that are wanted. Process context.
    pub(crate) fn groups(&self) -> &Mutex<Groups> {
        &self.groups
    }

    /// The headroom that the backend must be told of anew, because a program has come or gone; it counts as
    /// told. [`None`] if it knows, or leaves none. On the bus' thread, or where nobody connects.
    pub(crate) fn changed_headroom(&self) -> Option<u16> {
        let told = self.told_headroom.load(Relaxed);
        self.tell_headroom()
            .filter(|&headroom| u32::from(headroom) != told)
    }

    /// The headroom that the backend is to leave, which counts as told; [`None`] if it cannot.
    pub(crate) fn tell_headroom(&self) -> Option<u16> {
        if !self.can_leave_headroom.load(Acquire) {
            return None;
        }
        let headroom = if self.program.is_set() {
            xdp::HEADROOM
        } else {
            0
        };
        self.told_headroom.store(headroom.into(), Relaxed);
        Some(headroom)
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

fn hash_kind(kind: FlowKind) -> HashKind {
    match kind {
        FlowKind::Ipv4 => HashKind::Ipv4,
        FlowKind::Ipv4Tcp => HashKind::Ipv4Tcp,
        FlowKind::Ipv6 => HashKind::Ipv6,
        FlowKind::Ipv6Tcp => HashKind::Ipv6Tcp,
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

    fn change_mtu(&self, mtu: u32, rtnl: &Rtnl) -> Result {
        let needs_one_piece = self
            .program
            .get(rtnl)
            .is_some_and(|program| !program.has_frags());
        if mtu > self.most_mtu() || (needs_one_piece && mtu > most_program_mtu(xdp::room())) {
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

    const MODERATES: (bool, bool) = (true, true);

    fn rx_moderation(&self) -> Option<&Live> {
        Some(&self.moderation.rx)
    }

    fn tx_moderation(&self) -> Option<&Live> {
        Some(&self.moderation.tx)
    }

    const CHOOSES_QUEUES: bool = true;

    fn hash_sizes(&self) -> HashSizes {
        if self.control_ring().is_none() {
            return HashSizes::default();
        }
        // CAST: Both are small.
        HashSizes {
            key: hash::KEY_SIZE as u32,
            table: hash::ENTRIES as u32,
        }
    }

    fn hashing(&self, key: &mut [u8], table: &mut [u32]) -> bool {
        let choice = self.hashing.lock();
        let hashing = self.chosen(&choice);
        for (to, from) in key.iter_mut().zip(hashing.key()) {
            *to = *from;
        }
        for (to, from) in table.iter_mut().zip(hashing.table()) {
            *to = *from;
        }
        choice.hashing.is_some()
    }

    fn set_hashing(&self, key: Option<&[u8]>, table: Option<&[u32]>, _rtnl: &Rtnl) -> Result {
        self.change_hashing(|hashing| {
            key.map_or(Ok(()), |key| hashing.set_key(key))?;
            table.map_or(Ok(()), |table| hashing.set_table(table))
        })
    }

    fn hash_fields(&self, kind: FlowKind) -> FlowFields {
        let choice = self.hashing.lock();
        let fields = choice
            .hashing
            .as_ref()
            .map_or(Fields::Nothing, |hashing| hashing.fields(hash_kind(kind)));
        match fields {
            Fields::Nothing => FlowFields::Nothing,
            Fields::Addresses => FlowFields::Addresses,
            Fields::Ports => FlowFields::Ports,
        }
    }

    fn set_hash_fields(&self, kind: FlowKind, fields: FlowFields, _rtnl: &Rtnl) -> Result {
        let fields = match fields {
            FlowFields::Nothing => Fields::Nothing,
            FlowFields::Addresses => Fields::Addresses,
            FlowFields::Ports => Fields::Ports,
        };
        self.change_hashing(|hashing| hashing.set_fields(hash_kind(kind), fields))
    }

    const CHOOSES_GROUPS: bool = true;

    fn receive_groups(&self, addresses: &[[u8; 6]], all: bool, _rtnl: &Rtnl) {
        self.groups.lock().want(addresses, all);
        self.frontend.groups_changed();
    }

    const RUNS_PROGRAMS: bool = true;

    fn set_program(&self, offer: xdp::Offer<'_>, rtnl: &Rtnl) -> Result<(), xdp::Refusal> {
        if let Some(program) = offer.program() {
            if self.untrusted.load(Acquire) {
                return Err(xdp::Refusal {
                    errno: EOPNOTSUPP,
                    message: c"what programs leave in pages is not for an untrusted backend",
                });
            }
            if !program.has_frags() && self.netdev.mtu() > most_program_mtu(xdp::room()) {
                return Err(xdp::Refusal {
                    errno: EOPNOTSUPP,
                    message: c"packets of this MTU take several pages, so that the program must support frags",
                });
            }
        }
        offer.take(&self.program, rtnl);
        self.frontend.program_changed();
        Ok(())
    }

    fn transmit_frames(&self, processor: u32, frames: &mut xdp::Frames<'_>) {
        let queue = processor.checked_rem(self.used()).unwrap_or(0);
        if let Some(queue) = self.queue(queue) {
            queue.transmit_frames(frames);
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
