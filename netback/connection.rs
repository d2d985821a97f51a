// SPDX-License-Identifier: GPL-2.0

//! The connection to a frontend: what it has written, its rings mapped, its channels bound.

use crate::{
    backend::Backend,
    control_ring::ControlRing,
    delivery::{
        Delivery,
        Description, //
    },
    failure::Failure,
    features::{
        self,
        ChannelKeys,
        ControlKeys,
        FrontendKeys,
        QueueChoice,
        QueueLayout, //
    },
    files::Files,
    guest_rx::GuestRx,
    guest_tx::GuestTx,
    interface::Interface,
    poller::Poller,
    queue::Rings,
    rules::Rules,
    transmit::Limits,
    FATAL_SKB_SLOTS,
    RX_DRAIN_TIMEOUT_MSECS,
    RX_STALL_TIMEOUT_MSECS, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    evtchn::Channel,
    io::netif::{
        self,
        parse_address,
        RX_SLOTS,
        TX_SLOTS, //
    },
    moderation::RX_KEYS,
    net::{
        Directions,
        Features,
        Line,
        Napi,
        NapiGuard,
        NoSoftirqs,
        PagePool,
        Rtnl, //
    },
    ring::{
        AttachError,
        Back,
        Protocol, //
    },
    xenbus::{
        store,
        DeviceRef,
        MappedPages, //
    },
};

/// Bytes of headers that can be before what an MTU counts.
const HEADERS: u32 = 18;

/// Bytes of the largest packet that TCP makes.
const MOST_TCP: u32 = 65_536 + 14;

/// What the frontend has written.
pub(crate) struct Agreement {
    layout: QueueLayout,
    features: features::Features,
    control: Option<features::ControlRing>,
    /// Bytes that a packet is to have at most, without the Ethernet header, if the toolstack has said so.
    mtu: Option<u32>,
}

impl Agreement {
    /// Reads what a frontend has written that could choose among `max_queues` queues.
    pub(crate) fn read(dev: &DeviceRef, otherend: &CStr, max_queues: u32) -> Result<Self, Failure> {
        let own = dev.nodename();
        let number = |key| store::read::<u32>(otherend, key);
        let choice = QueueChoice {
            queues: number(c"multi-queue-num-queues")?,
            max_queues,
        };
        let layout = choice.check()?;
        let mac = store::read_text(own, c"mac")
            .map_err(|errno| Failure::Errno("reading mac", errno))?
            .ok_or(features::FeatureError::Missing("mac"))?;
        if parse_address(mac.as_bytes()).is_none() {
            return Err(Failure::Address(mac));
        }
        let keys = FrontendKeys {
            request_rx_copy: number(c"request-rx-copy")?,
            feature_rx_notify: number(c"feature-rx-notify")?,
            offloads: netif::OffloadKeys::read(number)?,
            request_multicast_control: number(c"request-multicast-control")?,
            xdp_headroom: number(c"xdp-headroom")?,
        };
        let control = ControlKeys {
            gref: number(c"ctrl-ring-ref")?,
            port: number(c"event-channel-ctrl")?,
        };
        Ok(Self {
            layout,
            features: keys.check()?,
            control: control.check()?,
            mtu: store::read(own, c"mtu")?,
        })
    }

    /// What the interface can do.
    fn offered(&self) -> Features {
        let offloads = self.features.offloads;
        Features::from(offloads).and_if(offloads.sg, Features::FRAG_LIST)
    }

    /// How many requests the largest packet can need.
    fn most_slots(&self, mtu: u32) -> u32 {
        let features = &self.features;
        let (length, gso) = if features.offloads.gso_v4 || features.offloads.gso_v6 {
            let gso = netif::Gso {
                size: 1,
                kind: netif::GsoKind::TcpV4,
            };
            (MOST_TCP, Some(gso))
        } else {
            (mtu.saturating_add(HEADERS), None)
        };
        let what = Description {
            length,
            checksum: netif::Checksum::Unknown,
            gso,
            hash: None,
        };
        let slots = Delivery::new(what, features.xdp_headroom.into()).slots();
        slots.min(RX_SLOTS)
    }
}

/// What the frontend has written of a queue.
struct QueueKeys {
    tx_gref: u32,
    rx_gref: u32,
    channels: features::Channels,
}

impl QueueKeys {
    fn read(otherend: &CStr, layout: QueueLayout, index: u32) -> Result<Self, Failure> {
        let own;
        let dir = if layout.own_directories {
            own = CString::try_from_fmt(fmt!("{otherend}/queue-{index}"))
                .map_err(|errno| Failure::Errno("allocating memory", errno))?;
            &*own
        } else {
            otherend
        };
        let channels = ChannelKeys {
            tx: store::read(dir, c"event-channel-tx")?,
            rx: store::read(dir, c"event-channel-rx")?,
            shared: store::read(dir, c"event-channel")?,
        };
        Ok(Self {
            tx_gref: store::require(dir, c"tx-ring-ref")?,
            rx_gref: store::require(dir, c"rx-ring-ref")?,
            channels: channels.check()?,
        })
    }

    /// The failure to use what they name.
    fn failed(&self, errno: Error) -> Failure {
        Failure::Rings {
            grefs: (self.tx_gref, self.rx_gref),
            ports: match self.channels {
                features::Channels::Split { tx, rx } => (tx, rx),
                features::Channels::Shared(port) => (port, port),
            },
            errno,
        }
    }

    fn map<P: Protocol>(
        &self,
        dev: &DeviceRef,
        gref: u32,
    ) -> Result<Back<P, MappedPages>, Failure> {
        let pages = MappedPages::new(dev, &[gref]).map_err(|errno| self.failed(errno))?;
        Back::attach(pages).map_err(|error| match error {
            AttachError::TooSmall => self.failed(EINVAL),
            AttachError::Impossible(impossible) => Failure::Ring(impossible),
        })
    }

    /// Binds the channels.
    fn bind(
        &self,
        dev: &DeviceRef,
        napi: &Arc<Napi<Poller>>,
        interface: &CStr,
        index: u32,
    ) -> Result<Line<Poller>> {
        let (tx, rx, split) = match self.channels {
            features::Channels::Split { tx, rx } => (tx, rx, true),
            features::Channels::Shared(port) => (port, port, false),
        };
        let port = |directions| match directions {
            Directions::RX => rx,
            _ => tx,
        };
        Line::new(
            napi,
            (fmt!("{interface}"), index),
            split,
            |directions, name, events| Channel::to_remote(dev, port(directions), name, events),
        )
    }
}

/// A queue of a connection.
struct Member {
    guard: NapiGuard<Poller>,
    napi: Arc<Napi<Poller>>,
}

/// The connection to a frontend: rings, channels, and the polling of them.
///
/// Dropping it ends it: the interface has no carrier, what waits for the guest is lost, and nothing of the guest
/// is mapped any more. Process context, without the lock of rtnl.
pub(crate) struct Connection {
    interface: Arc<Interface>,
    members: KVec<Member>,
    control: Option<ControlRing>,
    files: Option<Files>,
}

impl Connection {
    /// Makes it. The interface has no carrier, and none of its queues a ring.
    ///
    /// The lock of rtnl is held only for what needs it: whoever changes any interface of this domain waits for
    /// that lock, and xenstore, or a guest that has paged out its rings, can take a long time.
    pub(crate) fn new(
        backend: &Arc<Backend>,
        dev: &DeviceRef,
        otherend: &CStr,
        interface: &Arc<Interface>,
        rules: &Arc<Rules>,
        agreement: &Agreement,
    ) -> Result<Self, Failure> {
        let count = agreement.layout.queues;
        let mut keys = KVec::new();
        for index in 0..count {
            let queue = QueueKeys::read(otherend, agreement.layout, index)?;
            keys.push(queue, GFP_KERNEL)?;
        }
        let control = agreement.control.map(|ring| ring.gref);
        let grefs = keys.iter().flat_map(|keys| [keys.tx_gref, keys.rx_gref]);
        features::check_rings(Iterator::chain(grefs, control))?;
        rules.follow(
            &agreement.features,
            RX_DRAIN_TIMEOUT_MSECS.get(),
            RX_STALL_TIMEOUT_MSECS.get(),
            agreement.most_slots(interface.netdev().mtu()),
        );
        rules.moderation.read_keys_of(dev.nodename(), &RX_KEYS)?;
        let mut connection = Self {
            interface: interface.clone(),
            members: KVec::new(),
            control: None,
            files: None,
        };
        if let Some(control) = agreement.control {
            let ring = ControlRing::new(backend, dev, rules, control, count)?;
            connection.control = Some(ring);
        }
        connection.make(backend, dev, &keys)?;
        connection.enable(dev, agreement)?;
        // Nothing depends on them.
        connection.files = Files::new(interface, rules, connection.control.is_some()).ok();
        Ok(connection)
    }

    /// Makes the queues, which are not polled yet.
    fn make(
        &mut self,
        backend: &Arc<Backend>,
        dev: &DeviceRef,
        keys: &[QueueKeys],
    ) -> Result<(), Failure> {
        let failed = |what| move |errno| Failure::Errno(what, errno);
        let interface = &self.interface;
        let name = CString::try_from(interface.netdev().name(&Rtnl::lock()))?;
        for (index, keys) in (0..).zip(keys) {
            let queue = interface
                .queue(index)
                .ok_or(Failure::Errno("a ring without a queue", EINVAL))?;
            let tx = keys.map(dev, keys.tx_gref)?;
            let rx = keys.map(dev, keys.rx_gref)?;
            let poller = Poller::new(queue.clone(), backend.clone());
            let (napi, guard) = Napi::new(interface.netdev().clone(), index, poller)
                .map_err(failed("adding a queue"))?;
            self.members.push(
                Member {
                    guard,
                    napi: napi.clone(),
                },
                GFP_KERNEL,
            )?;
            let pool = PagePool::new(napi.clone(), index, TX_SLOTS)
                .map_err(failed("making a page pool"))?;
            let limits = Limits::new(FATAL_SKB_SLOTS.get());
            let rings = Rings {
                tx: GuestTx::new(dev, tx, &napi, pool, limits)
                    .map_err(failed("allocating memory"))?,
                rx: GuestRx::new(dev, rx).map_err(failed("allocating memory"))?,
            };
            let line = keys
                .bind(dev, &napi, &name, index)
                .map_err(|errno| keys.failed(errno))?;
            // Guests begin with different processors, since many have interfaces of one queue.
            let nth = index.wrapping_add(dev.otherend_id().into());
            line.prefer_cpu(nth, &queue.places);
            queue
                .connect(rings, line, napi)
                .map_err(failed("allocating memory"))?;
        }
        Ok(())
    }

    /// Has the interface use the queues.
    fn enable(&mut self, dev: &DeviceRef, agreement: &Agreement) -> Result<(), Failure> {
        let rtnl = Rtnl::lock();
        let netdev = self.interface.netdev();
        let count = agreement.layout.queues;
        netdev
            .set_queues(&rtnl, count)
            .map_err(|errno| Failure::Errno("setting the number of queues", errno))?;
        self.interface.agree(&rtnl, count, agreement.offered());
        if let Some(mtu) = agreement.mtu {
            // What the toolstack wants is no reason to do without the interface.
            if netdev.mtu() != mtu && netdev.set_mtu(&rtnl, mtu).is_err() {
                dev_warn!(dev.as_ref(), "mtu is {mtu}, which cannot be\n");
            }
        }
        for member in &mut self.members {
            member.guard.enable(&rtnl);
        }
        netdev.set_carrier(&rtnl, true);
        if netdev.is_running() {
            netdev.wake_all();
        }
        Ok(())
    }

    /// Has all queues look for something to do. Process context.
    pub(crate) fn poll_all(&self) {
        let _scope = NoSoftirqs::new();
        for member in &self.members {
            member.napi.schedule();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        {
            let rtnl = Rtnl::lock();
            let netdev = self.interface.netdev();
            netdev.set_carrier(&rtnl, false);
            netdev.stop_all();
            for member in &mut self.members {
                member.guard.disable(&rtnl);
            }
        }
        self.files = None;
        self.control = None;
        for (index, member) in (0..).zip(core::mem::take(&mut self.members)) {
            // The NAPI itself goes last: rings and channels have references to it.
            drop(member.guard);
            if let Some(queue) = self.interface.queue(index) {
                queue.disconnect();
            }
        }
    }
}
