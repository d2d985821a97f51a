// SPDX-License-Identifier: GPL-2.0

//! A network frontend in dom0: honest at first, and then not.
//!
//! The interface that it makes, `vif0.N`, is dom0's at both ends, so that what goes in at one end can be
//! compared with what comes out at the other.

use std::fs;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::evtchn::Channel;
use crate::gntalloc::Granted;
use crate::netif::{self, RxResponse, TxRequest};
use crate::tap::{Tap, ETHERTYPE};
use crate::xenbus::State;
use crate::xenstore::{Client, Tx};

pub mod attack;
mod control;
mod keys;
mod receive;
mod ring;
mod states;
mod transmit;

use ring::FrontRing;

/// How long the backend may take for a step or an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages for data to be sent.
const PAGES: usize = 24;

/// A grant reference that nobody has.
const NO_GREF: u32 = 0x7fff_fff0;

/// The address of each backend's interface.
const THEIRS: [u8; 6] = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff];
const OURS: [u8; 6] = [0x00, 0x16, 0x3e, 0x00, 0x00, 0x01];

/// What is to be made, and what is to be written instead of what would be right.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of the device in xenstore.
    pub number: u32,
    /// Queues.
    pub queues: u32,
    /// Pages that each of them offers for receiving.
    pub buffers: u16,
    /// Whether packets may have several slots, and be cut up.
    pub scatter: bool,
    /// Whether there is a control ring.
    pub control: bool,
    /// Keys of the frontend's directory, or of the backend's (`back:NAME`), with other values or none. `@KEY` is
    /// the value of another one.
    pub keys: Vec<(&'static str, Option<String>)>,
}

impl Options {
    /// An honest device.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            queues: 1,
            buffers: 32,
            scatter: true,
            control: false,
            keys: Vec::new(),
        }
    }

    /// Writes another value.
    fn set(&mut self, key: &'static str, value: impl ToString) {
        self.keys.push((key, Some(value.to_string())));
    }

    /// Leaves a key out.
    fn omit(&mut self, key: &'static str) {
        self.keys.push((key, None));
    }
}

fn wrong(message: impl ToString) -> io::Error {
    io::Error::other(message.to_string())
}

/// Whether something holds, or else what was wrong.
fn ensure(holds: bool, otherwise: impl ToString) -> io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(wrong(otherwise))
    }
}

/// The value of a key in a list.
fn value_of(keys: &[(String, String)], key: &str) -> String {
    let found = keys.iter().find(|(known, _)| known == key);
    found.map_or(String::new(), |(_, value)| value.clone())
}

/// The rings and channels of a queue.
struct Queue {
    tx: FrontRing,
    rx: FrontRing,
    tx_channel: Channel,
    rx_channel: Channel,
    /// The pages that it offers; a request's id is the place of its page.
    buffers: Vec<Granted>,
}

impl Queue {
    fn new(buffers: u16) -> io::Result<Self> {
        let pages = (0..buffers).map(|_| Granted::new(0));
        let mut queue = Self {
            tx: FrontRing::new(3)?,
            rx: FrontRing::new(2)?,
            tx_channel: Channel::bind_unbound(0)?,
            rx_channel: Channel::bind_unbound(0)?,
            buffers: pages.collect::<io::Result<_>>()?,
        };
        for id in 0..buffers {
            queue.offer(id);
        }
        queue.rx.publish();
        Ok(queue)
    }

    /// Offers a page, which the backend does not see yet.
    fn offer(&mut self, id: u16) {
        let gref = self.buffers[usize::from(id)].gref();
        self.rx.put(&netif::rx_request(id, gref));
    }
}

/// A device.
pub struct Front {
    xs: Client,
    front: String,
    back: String,
    number: u32,
    queues: Vec<Queue>,
    control: Option<(FrontRing, Channel)>,
    pages: Vec<Granted>,
    tap: Option<Tap>,
    sent: u32,
}

impl Front {
    /// Makes the device and the rings, and says that it is connected.
    pub fn new(options: &Options) -> io::Result<Self> {
        let queues = (0..options.queues).map(|_| Queue::new(options.buffers));
        let pages = (0..PAGES).map(|_| Granted::new(0));
        let control = if options.control {
            Some((FrontRing::new(4)?, Channel::bind_unbound(0)?))
        } else {
            None
        };
        let mut this = Self {
            xs: Client::connect()?,
            front: format!("/local/domain/0/rogue/vif/{}", options.number),
            back: format!("/local/domain/0/backend/vif/0/{}", options.number),
            number: options.number,
            queues: queues.collect::<io::Result<_>>()?,
            control,
            pages: pages.collect::<io::Result<_>>()?,
            tap: None,
            sent: 0,
        };
        let result = this.announce(options);
        if let Err(error) = result {
            this.remove()?;
            return Err(error);
        }
        Ok(this)
    }

    /// The interface in dom0.
    fn interface(&self) -> String {
        format!("vif0.{}", self.number)
    }

    fn announce(&mut self, options: &Options) -> io::Result<()> {
        let front = self.front.clone();
        let mut back_keys = vec![
            ("frontend", front.clone()),
            ("frontend-id", "0".to_string()),
            ("online", "1".to_string()),
            ("script", "none".to_string()),
            ("handle", options.number.to_string()),
            ("mac", "00:16:3e:00:00:01".to_string()),
            ("hotplug-status", "connected".to_string()),
        ];
        for (key, value) in &options.keys {
            if let Some(name) = key.strip_prefix("back:") {
                back_keys.retain(|(known, _)| *known != name);
                back_keys.extend(value.clone().map(|value| (name, value)));
            }
        }
        self.xs.write(Tx::NONE, &format!("{front}/state"), "1")?;
        for (key, value) in back_keys {
            self.xs
                .write(Tx::NONE, &format!("{}/{key}", self.back), &value)?;
        }
        self.xs
            .write(Tx::NONE, &format!("{}/state", self.back), "1")?;
        self.wait_for(&[State::InitWait])?;
        self.bring_up()?;

        let mut keys: Vec<(String, String)> = Vec::new();
        for (key, value) in [
            ("request-rx-copy", 1),
            ("feature-rx-notify", 1),
            ("feature-sg", options.scatter.into()),
            ("feature-gso-tcpv4", options.scatter.into()),
            ("multi-queue-num-queues", options.queues),
        ] {
            keys.push((key.into(), value.to_string()));
        }
        for (index, queue) in self.queues.iter().enumerate() {
            let dir = if options.queues > 1 {
                format!("queue-{index}/")
            } else {
                String::new()
            };
            for (key, value) in [
                ("tx-ring-ref", queue.tx.gref()),
                ("rx-ring-ref", queue.rx.gref()),
                ("event-channel-tx", queue.tx_channel.port()),
                ("event-channel-rx", queue.rx_channel.port()),
            ] {
                keys.push((format!("{dir}{key}"), value.to_string()));
            }
        }
        if let Some((ring, channel)) = &self.control {
            keys.push(("ctrl-ring-ref".into(), ring.gref().to_string()));
            keys.push(("event-channel-ctrl".into(), channel.port().to_string()));
        }
        for (key, value) in &options.keys {
            if !key.starts_with("back:") {
                let value = value.clone().map(|value| match value.strip_prefix('@') {
                    Some(other) => value_of(&keys, other),
                    None => value,
                });
                keys.retain(|(known, _)| known != key);
                keys.extend(value.map(|value| (key.to_string(), value)));
            }
        }
        for (key, value) in keys {
            self.xs.write(Tx::NONE, &format!("{front}/{key}"), &value)?;
        }
        self.set_state(State::Connected)
    }

    /// Brings the interface up, with no packet on it but those of a test.
    fn bring_up(&mut self) -> io::Result<()> {
        let interface = self.interface();
        let quiet = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
        fs::write(quiet, "1")?;
        let status = Command::new("ip")
            .args(["link", "set", &interface, "arp", "off", "up"])
            .status()?;
        ensure(status.success(), "the interface does not come up")?;
        self.tap = Some(Tap::new(&interface)?);
        Ok(())
    }

    fn set_state(&mut self, state: State) -> io::Result<()> {
        let path = format!("{}/state", self.front);
        self.xs.write(Tx::NONE, &path, &state.number().to_string())
    }

    fn back_state(&mut self) -> io::Result<State> {
        let path = format!("{}/state", self.back);
        Ok(self
            .xs
            .read_opt(Tx::NONE, &path)?
            .map_or(State::Unknown, |text| State::parse(&text)))
    }

    /// Waits until something has come.
    fn wait<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            if Instant::now() > end {
                return Err(wrong(format!("{what} does not come")));
            }
            // Nothing tells of event channels and of xenstore at once.
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn wait_for(&mut self, states: &[State]) -> io::Result<()> {
        self.wait(&format!("one of {states:?}"), |this| {
            Ok(states.contains(&this.back_state()?).then_some(()))
        })
    }

    /// Waits until the backend has connected.
    fn connected(&mut self) -> io::Result<()> {
        self.wait_for(&[State::Connected])
    }

    /// Waits until the backend has given the device up, and has said why.
    fn given_up(&mut self) -> io::Result<()> {
        self.wait_for(&[State::Closing, State::Closed])?;
        let path = format!("/local/domain/0/error/backend/vif/0/{}/error", self.number);
        let said = self.wait("an error node", |this| this.xs.read_opt(Tx::NONE, &path))?;
        crate::report!("# {said}");
        Ok(())
    }

    // --- packets --------------------------------------------------------------------------------

    /// A packet of so many bytes that is like no other.
    fn packet(&mut self, length: usize) -> Vec<u8> {
        self.sent = self.sent.wrapping_add(1);
        let number = self.sent.to_be_bytes();
        let body = (0..).map(|at: usize| (at.wrapping_mul(31) ^ at >> 8) as u8);
        let mut packet: Vec<u8> = THEIRS.into_iter().chain(OURS).collect();
        packet.extend(ETHERTYPE.to_be_bytes());
        packet.extend(number);
        packet.extend(body.take(length));
        packet.truncate(length);
        packet
    }

    /// Puts the pieces of a packet, of these sizes, into pages, each at the end of its own, and makes the
    /// requests of that.
    fn lay_out(&self, packet: &[u8], sizes: &[usize]) -> Vec<TxRequest> {
        let mut at = 0;
        let mut requests = Vec::new();
        for (index, &size) in sizes.iter().enumerate() {
            let offset = 4096 - size;
            let mut bytes = vec![0; offset];
            bytes.extend(&packet[at..at + size]);
            at += size;
            let page = &self.pages[index];
            page.write(&bytes);
            requests.push(TxRequest {
                gref: page.gref(),
                offset: offset as u16,
                flags: if index + 1 < sizes.len() {
                    netif::MORE_DATA
                } else {
                    0
                },
                id: 1000 + index as u16,
                size: if index == 0 { packet.len() } else { size } as u16,
            });
        }
        requests
    }

    /// Transmits slots: the first request, extra infos, the other requests.
    fn transmit(&mut self, requests: &[TxRequest], extras: &[[u32; 3]]) -> io::Result<()> {
        let queue = &mut self.queues[0];
        let mut requests = requests.to_vec();
        if !extras.is_empty() {
            requests[0].flags |= netif::EXTRA_INFO;
        }
        let mut slots: Vec<[u32; 3]> = requests.iter().map(|request| request.words()).collect();
        slots.splice(1..1, extras.iter().copied());
        for slot in slots {
            queue.tx.put(&slot);
        }
        queue.tx.publish();
        queue.tx_channel.notify()
    }

    /// Waits for the answers to these requests and so many extra infos: one for each request, with this
    /// status.
    fn answered(&mut self, requests: &[TxRequest], extras: usize, status: i16) -> io::Result<()> {
        let mut left: Vec<u16> = requests.iter().map(|request| request.id).collect();
        let mut nulls = extras;
        while !left.is_empty() || nulls > 0 {
            let words = self.wait("an answer", |this| Ok(this.queues[0].tx.take()))?;
            match netif::tx_response(&words) {
                (_, netif::NULL) if nulls > 0 => nulls -= 1,
                (id, got) => {
                    let place = left.iter().position(|known| *known == id);
                    let place = place.ok_or_else(|| wrong(format!("an answer to {id}")))?;
                    left.swap_remove(place);
                    ensure(
                        got == status,
                        format!("{id} is answered with {got}, not {status}"),
                    )?;
                }
            }
        }
        ensure(
            self.queues[0].tx.take().is_none(),
            "more answers than slots",
        )
    }

    /// Waits for the next packet in dom0, which must be this one.
    fn arrived(&mut self, packet: &[u8]) -> io::Result<()> {
        let tap = self.tap.as_ref().ok_or_else(|| wrong("no interface"))?;
        let got = tap.receive(PATIENCE)?;
        let got = got.ok_or_else(|| wrong("the packet does not arrive"))?;
        ensure(
            got == packet,
            format!(
                "a packet of {} bytes arrives, not the one of {}",
                got.len(),
                packet.len()
            ),
        )
    }

    /// Transmits a packet in pieces of these sizes, which must arrive as it is.
    fn deliver(&mut self, sizes: &[usize], extras: &[[u32; 3]]) -> io::Result<()> {
        let packet = self.packet(sizes.iter().sum());
        let requests = self.lay_out(&packet, sizes);
        self.transmit(&requests, extras)?;
        self.answered(&requests, extras.len(), netif::OKAY)?;
        self.arrived(&packet)
    }

    /// What dom0 sends is received, in as many frames as it takes.
    fn receive(&mut self, length: usize) -> io::Result<()> {
        let packet = self.packet(length);
        let tap = self.tap.as_ref().ok_or_else(|| wrong("no interface"))?;
        tap.send(&packet)?;
        let got = self.received()?;
        ensure(
            got == packet,
            format!("{} bytes are received, not the {length} sent", got.len()),
        )
    }

    /// The next packet that is received, if nothing is wrong with it.
    fn received(&mut self) -> io::Result<Vec<u8>> {
        let mut packet = Vec::new();
        loop {
            let response = self.response()?;
            ensure(
                response.status > 0,
                format!("a frame has status {}", response.status),
            )?;
            let start = usize::from(response.offset);
            // CAST: It was found to be positive.
            let end = start + response.status as usize;
            let page = self.queues[0].buffers[usize::from(response.id)].read();
            ensure(end <= page.len(), "more bytes than a frame has")?;
            packet.extend(&page[start..end]);
            self.offer_again(response.id)?;
            if response.flags & netif::MORE_DATA == 0 {
                return Ok(packet);
            }
        }
    }

    /// The next response of the receive ring.
    fn response(&mut self) -> io::Result<RxResponse> {
        let words = self.wait("a packet", |this| Ok(this.queues[0].rx.take()))?;
        Ok(RxResponse::new(&words))
    }

    fn offer_again(&mut self, id: u16) -> io::Result<()> {
        let queue = &mut self.queues[0];
        queue.offer(id);
        queue.rx.publish();
        queue.rx_channel.notify()
    }

    /// Whether the device still does what it is there for.
    fn works(&mut self) -> io::Result<()> {
        self.deliver(&[200], &[])?;
        self.deliver(&[100, 4096, 1000], &[])?;
        self.receive(1000)
    }

    // --- the end ---------------------------------------------------------------------------------

    /// Closes the device, and waits until the interface has gone.
    fn close(&mut self) -> io::Result<()> {
        self.tap = None;
        self.xs
            .write(Tx::NONE, &format!("{}/online", self.back), "0")?;
        self.set_state(State::Closing)?;
        self.set_state(State::Closed)?;
        self.gone()
    }

    /// Waits until the interface has gone.
    fn gone(&mut self) -> io::Result<()> {
        let path = format!("/sys/class/net/{}", self.interface());
        self.wait("the end of the interface", |_| {
            Ok((!fs::exists(&path)?).then_some(()))
        })
    }

    /// Removes all that there is in xenstore.
    fn remove(&mut self) -> io::Result<()> {
        let error = format!("/local/domain/0/error/backend/vif/0/{}", self.number);
        for path in [self.front.clone(), self.back.clone(), error] {
            self.xs.rm(Tx::NONE, &path)?;
        }
        Ok(())
    }
}
