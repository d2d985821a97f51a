// SPDX-License-Identifier: GPL-2.0

//! The connection to a backend: agreed on, made, and announced.

use crate::{
    control_ring::ControlRing,
    fault::Failure,
    features::{
        self,
        BackendKeys,
        MulticastControl,
        Queues, //
    },
    frontend::Frontend,
    interface::{
        self,
        Interface,
        Terms, //
    },
    poller::Poller,
    queue::Rings,
    receiver::Receiver,
    sender::Sender,
    MAX_QUEUES,
    TRUSTED, //
};
use core::ffi::CStr;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    domain,
    evtchn::Channel,
    io::netif,
    net::{
        self,
        xdp::RxQueue,
        Features,
        Line,
        Napi,
        NapiGuard,
        PagePool,
        Rtnl, //
    },
    xenbus::{
        self,
        store,
        DeviceRef, //
    },
};

/// What is known before the connection is made.
pub(crate) struct Offer {
    /// The interface's address.
    pub(crate) address: [u8; 6],
    /// Bytes that a packet is to have at most, without the Ethernet header, if the toolstack has said so.
    pub(crate) mtu: Option<u32>,
    untrusted: bool,
    features: features::Features,
}

impl Offer {
    /// Reads what both ends have written.
    pub(crate) fn read(dev: &DeviceRef, otherend: &CStr) -> Result<Self, Failure> {
        let own = dev.nodename();
        let number = |key| store::read::<u32>(otherend, key);
        let keys = BackendKeys {
            multi_queue_max_queues: number(c"multi-queue-max-queues")?,
            feature_split_event_channels: number(c"feature-split-event-channels")?,
            feature_rx_copy: number(c"feature-rx-copy")?,
            offloads: netif::OffloadKeys::read(number)?,
            feature_xdp_headroom: number(c"feature-xdp-headroom")?,
            feature_ctrl_ring: number(c"feature-ctrl-ring")?,
            feature_multicast_control: number(c"feature-multicast-control")?,
            feature_dynamic_multicast_control: number(c"feature-dynamic-multicast-control")?,
            ..Default::default()
        };
        let features = keys.check(MAX_QUEUES.get())?;
        let mac =
            store::read_text(own, c"mac").map_err(|errno| Failure::Errno("reading mac", errno))?;
        Ok(Self {
            address: features::address(mac.as_ref().map(|text| text.as_bytes()))?,
            mtu: wanted_mtu(dev, otherend, features.offloads.sg),
            untrusted: !features::is_trusted(store::read(own, c"trusted")?, TRUSTED.get()),
            features,
        })
    }
}

/// The MTU that the toolstack wants. It writes it for both ends; what makes no sense is no reason to do
/// without the interface.
fn wanted_mtu(dev: &DeviceRef, otherend: &CStr, sg: bool) -> Option<u32> {
    let ignored = |why: Failure| {
        let dev: &xenbus::Device = dev;
        dev_warn!(dev.as_ref(), "{why}, which is ignored\n");
        None
    };
    for dir in [dev.nodename(), otherend] {
        match store::read::<u32>(dir, c"mtu") {
            Ok(None) => {}
            Ok(key) => {
                return features::mtu(key, sg).map_or_else(|error| ignored(error.into()), Some)
            }
            Err(error) => return ignored(error.into()),
        }
    }
    None
}

/// Makes the interface of a device, which nobody sees yet.
pub(crate) fn make_interface(
    frontend: &Arc<Frontend>,
    dev: &DeviceRef,
    offer: &Offer,
) -> Result<Arc<Interface>, Failure> {
    let changeable = interface::CHANGEABLE
        .into_iter()
        .fold(Features::NONE, |sum, feature| sum | feature);
    let netdev = net::Builder {
        parent: dev,
        name: fmt!("eth%d"),
        address: offer.address,
        queues: MAX_QUEUES.get().clamp(1, features::MAX_QUEUES),
        fixed: Features::CHECKSUM_RECEIVED | Features::ROBUST,
        changeable,
        mtu: (features::LEAST_MTU, features::MOST_MTU),
    }
    .build()
    .map_err(|errno| Failure::Errno("allocating the interface", errno))?;
    Interface::new(frontend.clone(), netdev)
        .map_err(|errno| Failure::Errno("allocating queues", errno))
}

/// A restored guest may be told another address.
pub(crate) fn set_address(interface: &Interface, rtnl: &Rtnl, address: [u8; 6]) {
    if let Err(errno) = interface.netdev().set_address(rtnl, address) {
        pr_warn!("cannot change the address: error {}\n", errno.to_errno());
    }
}

/// A queue of a connection.
struct Member {
    guard: NapiGuard<Poller>,
    napi: Arc<Napi<Poller>>,
}

/// The connection to a backend: rings, channels, and the polling of them.
///
/// Dropping it ends it: what the backend still has is lost, and the queues have no rings any more. Process
/// context, without the lock of rtnl.
pub(crate) struct Connection {
    interface: Arc<Interface>,
    members: KVec<Member>,
}

impl Connection {
    /// Makes it, and tells the backend of it.
    pub(crate) fn new(
        frontend: &Arc<Frontend>,
        dev: &DeviceRef,
        interface: &Arc<Interface>,
        offer: &Offer,
    ) -> Result<Self, Failure> {
        let most = offer
            .features
            .queues
            .count
            .min(interface.netdev().most_queues());
        let count = interface
            .wanted_queues()
            .map_or(most, |wanted| wanted.min(most));
        interface.read_moderation(dev.nodename())?;
        let mut connection = Self {
            interface: interface.clone(),
            members: KVec::new(),
        };
        let announced = connection.make(frontend, dev, offer, count)?;
        {
            let rtnl = Rtnl::lock();
            interface
                .netdev()
                .set_queues(&rtnl, count)
                .map_err(|errno| Failure::Errno("setting the number of queues", errno))?;
            for member in &mut connection.members {
                // The first thing that it does is to offer pages, before the backend can want them.
                member.guard.enable(&rtnl);
            }
        }
        interface.agree(&Terms {
            queues: count,
            most_queues: most,
            features: offer.features.offloads.into(),
            untrusted: offer.untrusted,
            headroom: offer.features.xdp_headroom,
            groups: offer.features.multicast_control == MulticastControl::Dynamic,
        });
        // Without the lock of rtnl: everybody who changes an interface would have to wait for xenstore.
        let headroom = interface.tell_headroom();
        let control = if offer.features.control_ring {
            // Nothing depends on it.
            ControlRing::new(dev).ok()
        } else {
            None
        };
        announce(dev, &announced, offer, headroom, control.as_deref())?;
        interface.set_control_ring(control);
        Ok(connection)
    }

    /// Makes the queues, which are not polled yet.
    fn make(
        &mut self,
        frontend: &Arc<Frontend>,
        dev: &DeviceRef,
        offer: &Offer,
        count: u32,
    ) -> Result<KVec<Announced>, Failure> {
        let interface = &self.interface;
        let terms = Features::from(offer.features.offloads);
        let failed = |what| move |errno| Failure::Errno(what, errno);
        let lacking = |what, resource| move |errno| Failure::of(what, resource, errno);
        let mut announced = KVec::new();
        for index in 0..count {
            let queue = interface
                .queue(index)
                .ok_or(Failure::Errno("a ring without a queue", EINVAL))?;
            let poller = Poller::new(queue.clone(), frontend.clone());
            let (napi, guard) = Napi::new(interface.netdev().clone(), index, poller)
                .map_err(failed("adding a queue"))?;
            // Nothing is polled before everything is there: from then on the pages and rings go only after
            // the end of polling.
            let member = Member {
                guard,
                napi: napi.clone(),
            };
            self.members.push(member, GFP_KERNEL)?;
            let pool = PagePool::new(napi.clone(), index, netif::RX_SLOTS)
                .map_err(failed("making a page pool"))?;
            let sender = Sender::new(dev, terms, offer.untrusted)
                .map_err(lacking("making a transmit ring", "grant references"))?;
            let pages = RxQueue::new(pool, index).map_err(failed("registering a queue"))?;
            let receiver = Receiver::new(dev, pages)
                .map_err(lacking("making a receive ring", "grant references"))?;
            let id = dev.id();
            let line = Line::new(
                &napi,
                (fmt!("vif{id}"), index),
                offer.features.split_channels,
                |_, name, events| Channel::named(dev, name, events),
            )
            .map_err(lacking("making an event channel", "event channels"))?;
            line.prefer_cpu(index, &queue.places);
            announced.push(
                Announced {
                    tx_gref: sender.gref(),
                    rx_gref: receiver.gref(),
                    tx_port: line.for_transmitting().port(),
                    rx_port: (!line.is_shared()).then(|| line.for_receiving().port()),
                },
                GFP_KERNEL,
            )?;
            queue
                .connect(Rings { sender, receiver }, line, &napi)
                .map_err(failed("allocating memory"))?;
        }
        Ok(announced)
    }

    /// Has the backend look at the rings.
    pub(crate) fn wake_backend(&self) {
        for member in &self.members {
            member.napi.poller().queue().wake_backend();
        }
    }

    /// Has all queues look for something to do. Any context.
    pub(crate) fn poll_all(&self) {
        for member in &self.members {
            member.napi.schedule();
        }
    }

    /// Gives back what has not been needed for a while, and says whether there may be more to give back
    /// later.
    #[must_use]
    pub(crate) fn trim(&self) -> bool {
        self.members.iter().fold(false, |more, member| {
            member.napi.poller().queue().trim() | more
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.interface.set_control_ring(None);
        let mut members = core::mem::take(&mut self.members);
        {
            let rtnl = Rtnl::lock();
            for member in &mut members {
                member.guard.disable(&rtnl);
            }
        }
        for (index, member) in (0..).zip(members) {
            drop(member.guard);
            if let Some(queue) = self.interface.queue(index) {
                drop(queue.disconnect());
            }
        }
    }
}

/// What the backend must know of a queue.
struct Announced {
    tx_gref: u32,
    rx_gref: u32,
    tx_port: u32,
    rx_port: Option<u32>,
}

/// Writes all that the backend must know, at once.
fn announce(
    dev: &DeviceRef,
    queues: &[Announced],
    offer: &Offer,
    headroom: Option<u16>,
    control: Option<&ControlRing>,
) -> Result<(), Failure> {
    store::Transaction::run(|transaction| {
        let own = dev.nodename();
        let Queues { announce, .. } = offer.features.queues;
        if announce {
            transaction.write(own, c"multi-queue-num-queues", fmt!("{}", queues.len()))?;
        } else {
            transaction.remove(own, c"multi-queue-num-queues")?;
        }
        match queues {
            // The layout that backends knew before there were several queues.
            [queue] => announce_queue(transaction, own, queue)?,
            _ => {
                for (index, queue) in queues.iter().enumerate() {
                    let dir = CString::try_from_fmt(fmt!("{own}/queue-{index}"))?;
                    announce_queue(transaction, &dir, queue)?;
                }
            }
        }
        for key in [
            c"request-rx-copy",
            c"feature-rx-notify",
            c"feature-sg",
            c"feature-gso-tcpv4",
            c"feature-gso-tcpv6",
            c"feature-ipv6-csum-offload",
        ] {
            transaction.write(own, key, fmt!("1"))?;
        }
        match control {
            Some(ring) => {
                transaction.write(own, c"ctrl-ring-ref", fmt!("{}", ring.gref()))?;
                transaction.write(own, c"event-channel-ctrl", fmt!("{}", ring.port()))?;
            }
            None => {
                transaction.remove(own, c"ctrl-ring-ref")?;
                transaction.remove(own, c"event-channel-ctrl")?;
            }
        }
        // It is told otherwise when it knows what is wanted.
        transaction.write(own, c"request-multicast-control", fmt!("0"))?;
        if let Some(headroom) = headroom {
            transaction.write(own, c"xdp-headroom", fmt!("{headroom}"))?;
        }
        Ok(())
    })
    .map_err(|error| Failure::Errno("writing to xenstore", error))
}

fn announce_queue(transaction: &store::Transaction, dir: &CStr, queue: &Announced) -> Result {
    transaction.write(dir, c"tx-ring-ref", fmt!("{}", queue.tx_gref))?;
    transaction.write(dir, c"rx-ring-ref", fmt!("{}", queue.rx_gref))?;
    // An earlier connection may have left the other keys.
    match queue.rx_port {
        Some(rx_port) => {
            transaction.remove(dir, c"event-channel")?;
            transaction.write(dir, c"event-channel-tx", fmt!("{}", queue.tx_port))?;
            transaction.write(dir, c"event-channel-rx", fmt!("{rx_port}"))
        }
        None => {
            transaction.remove(dir, c"event-channel-tx")?;
            transaction.remove(dir, c"event-channel-rx")?;
            transaction.write(dir, c"event-channel", fmt!("{}", queue.tx_port))
        }
    }
}

/// Asks for so many bytes to be left free before packets.
pub(crate) fn announce_headroom(dev: &DeviceRef, headroom: u16) -> Result {
    store::Transaction::run(|transaction| {
        transaction.write(dev.nodename(), c"xdp-headroom", fmt!("{headroom}"))
    })
}

/// Asks for those multicast packets only that the backend was told of, or for all.
pub(crate) fn announce_groups(dev: &DeviceRef, filtering: bool) -> Result {
    store::Transaction::run(|transaction| {
        let value = u8::from(filtering);
        transaction.write(
            dev.nodename(),
            c"request-multicast-control",
            fmt!("{value}"),
        )
    })
}

/// Queues that an interface has at most if the user has not said how many.
pub(crate) fn default_queues() -> u32 {
    domain::online_cpus().min(8)
}
