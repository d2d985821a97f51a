// SPDX-License-Identifier: GPL-2.0

//! The life of a device, from its directories to their removal.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::attack::Step;
use super::disk::Disk;
use super::options::Options;
use super::pages::Mode;
use super::queue::{Queue, Setup};
use super::shared::Shared;
use crate::blkif::Abi;
use crate::xenbus::{Device, End, State};
use crate::xenstore::{Client, Tx};
use crate::{report, sys};

mod misstep;

/// How often to look whether there is something to do.
const TICK: Duration = Duration::from_millis(50);

/// How often to read the frontend's state although no watch fired.
const LOOK: Duration = Duration::from_secs(1);

/// How long a frontend may take to close, as the toolstack has it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest order of ring pages and largest number of rings that are accepted.
const MAX_RING_ORDER: u32 = 4;
const MAX_QUEUES: u32 = 64;

/// The read-only bit of the `info` key; C: `VDISK_READONLY`.
const READ_ONLY: u32 = 4;

/// How a run ended; the numbers are exit statuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// All that was asked for happened.
    Done = 0,
    /// An attack did not take place.
    Missing = 2,
    /// The frontend did not close in time.
    NotClosed = 3,
    /// The frontend did not connect in time.
    NotConnected = 4,
}

/// What to do after an attack on the life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Go on.
    Continue,
    /// Detach the device.
    Detach,
}

/// A device and what this process holds of it.
pub struct Backend {
    xs: Client,
    device: Device,
    shared: Arc<Shared>,
    /// Our state, as written last.
    state: State,
    /// The frontend's state, as read last.
    front: State,
    /// When it was read.
    looked: Option<Instant>,
    /// Since when we wait for the frontend to connect.
    waiting: Instant,
    queues: Vec<JoinHandle<Queue>>,
    /// Rings that were stopped but are still mapped, for attacks that keep them.
    remains: Vec<Queue>,
    /// Whether the attacks of [`Step::Serving`] had their turn.
    served: bool,
}

/// Runs a device from beginning to end.
pub fn run(options: Options) -> io::Result<Outcome> {
    let device = Device::new(
        options.domid,
        "vbd",
        "qdisk",
        options.vdev,
        options.overrides.clone(),
    );
    let mut xs = Client::connect()?;
    if options.cleanup {
        device.remove_both(&mut xs)?;
        report!("removed");
        return Ok(Outcome::Done);
    }

    let disk = match &options.file {
        Some(path) => Disk::file(path, options.sectors)?,
        None => Disk::memory(options.sectors),
    };
    let mut backend = Backend {
        xs,
        device,
        shared: Arc::new(Shared::new(options, disk)),
        state: State::Initialising,
        front: State::Initialising,
        looked: None,
        waiting: Instant::now(),
        queues: Vec::new(),
        remains: Vec::new(),
        served: false,
    };
    let result = backend.live();
    if result.is_err() {
        // Whatever failed, leave no half device behind.
        backend.stop_queues();
        backend.device.remove_both(&mut backend.xs)?;
    }
    result
}

impl Backend {
    fn options(&self) -> &Options {
        &self.shared.options
    }

    fn live(&mut self) -> io::Result<Outcome> {
        let vdev = self.options().vdev.to_string();
        let front = [("virtual-device", vdev.as_str()), ("device-type", "disk")];
        self.device.create(&mut self.xs, &front)?;
        report!("created {}", self.device.path(End::Back));
        self.note_keys();

        let mut flow = self.missteps(Step::Created)?;
        if flow == Flow::Continue && self.state == State::Initialising {
            flow = self.wait_for_front()?;
        }
        if flow == Flow::Continue {
            self.xs.watch(&self.device.key(End::Front, "state"))?;
            flow = self.follow()?;
        }
        let in_time = flow == Flow::Detach || self.never_connects();

        let closed = self.detach()?;
        report!("served {}", self.shared.served());
        report!("detached frontend={}", self.front.number());
        let missing = self.shared.missing();
        for attack in &missing {
            report!("attack {} missing", attack.name());
        }
        Ok(match (in_time, closed, missing.is_empty()) {
            (false, _, _) => Outcome::NotConnected,
            (_, false, _) => Outcome::NotClosed,
            (_, _, false) => Outcome::Missing,
            _ => Outcome::Done,
        })
    }

    /// Offers the limits that the frontend has to know first, and goes to InitWait.
    fn wait_for_front(&mut self) -> io::Result<Flow> {
        self.waiting = Instant::now();
        self.offer_limits()?;
        self.switch(State::InitWait)?;
        self.missteps(Step::InitWait)
    }

    fn offer_limits(&mut self) -> io::Result<()> {
        let options = &self.shared.options;
        let mut keys = Vec::new();
        if options.ring_order > 0 {
            keys.push(("max-ring-page-order", options.ring_order.to_string()));
        }
        if options.queues > 1 {
            keys.push(("multi-queue-max-queues", options.queues.to_string()));
        }
        if options.indirect > 0 {
            keys.push((
                "feature-max-indirect-segments",
                options.indirect.to_string(),
            ));
        }
        self.device.offer(&mut self.xs, &keys)
    }

    /// Offers what the frontend needs to make a disk.
    fn offer_disk(&mut self) -> io::Result<()> {
        let options = &self.shared.options;
        let flag = |on: bool| u32::from(on).to_string();
        let info = if options.read_only { READ_ONLY } else { 0 };
        let mut keys = vec![
            ("sectors", self.shared.sectors().to_string()),
            ("info", info.to_string()),
            ("sector-size", options.sector_size.to_string()),
            ("physical-sector-size", options.sector_size.to_string()),
            ("feature-flush-cache", flag(options.flush)),
            ("feature-barrier", flag(options.barrier)),
            ("feature-persistent", flag(options.persistent)),
            ("feature-discard", flag(options.discard)),
        ];
        if options.discard {
            keys.push(("discard-granularity", options.sector_size.to_string()));
            keys.push(("discard-alignment", "0".into()));
            keys.push(("discard-secure", "0".into()));
        }
        self.device.offer(&mut self.xs, &keys)
    }

    fn switch(&mut self, state: State) -> io::Result<()> {
        self.state = state;
        self.device.set_back_state(&mut self.xs, state)?;
        report!("state backend={}", state.number());
        Ok(())
    }

    /// Follows the frontend until it is time to detach.
    ///
    /// Returns [`Flow::Continue`] if that is because the frontend did not connect in time.
    fn follow(&mut self) -> io::Result<Flow> {
        let start = Instant::now();
        let mut shown = (start, 0);
        loop {
            let lifetime_over = start.elapsed() > self.options().lifetime;
            if sys::stop_requested() || lifetime_over || self.is_time_to_vanish() {
                return Ok(Flow::Detach);
            }
            let waited = self.waiting.elapsed();
            if self.state < State::Connected && waited > self.options().timeout {
                report!("timeout connect frontend={}", self.front.number());
                return Ok(Flow::Continue);
            }

            if self.front_changed()? && self.react()? == Flow::Detach {
                return Ok(Flow::Detach);
            }

            let both = self.state == State::Connected && self.front == State::Connected;
            if both && !self.served && self.shared.is_active() {
                self.served = true;
                if self.missteps(Step::Serving)? == Flow::Detach {
                    return Ok(Flow::Detach);
                }
            }

            let served = self.shared.served();
            if served != shown.1 && shown.0.elapsed() > Duration::from_secs(1) {
                shown = (Instant::now(), served);
                report!("served {served}");
            }
        }
    }

    /// Waits a moment for the frontend's state to change; returns whether it did.
    fn front_changed(&mut self) -> io::Result<bool> {
        let event = self.xs.next_event(TICK)?.is_some();
        // Look from time to time even so: a test must not hang because a watch was lost.
        if !event && self.looked.is_some_and(|looked| looked.elapsed() < LOOK) {
            return Ok(false);
        }
        self.looked = Some(Instant::now());
        let front = self.device.state(&mut self.xs, End::Front)?;
        if front == self.front {
            return Ok(false);
        }
        self.front = front;
        report!("state frontend={}", front.number());
        Ok(true)
    }

    /// Does what a new state of the frontend asks for.
    fn react(&mut self) -> io::Result<Flow> {
        match self.front {
            State::Initialising if self.state == State::Closed => return self.wait_for_front(),
            State::Initialised | State::Connected if self.queues.is_empty() => {
                if self.state <= State::Connected {
                    return self.connect();
                }
            }
            State::Closing if self.state < State::Closing => self.switch(State::Closing)?,
            State::Closed => {
                self.stop_queues();
                if self.state != State::Closed {
                    self.switch(State::Closed)?;
                }
                if self.options().once {
                    return Ok(Flow::Detach);
                }
            }
            State::Unknown => return Ok(Flow::Detach),
            _ => (),
        }
        Ok(Flow::Continue)
    }

    /// Takes the frontend's rings and goes to Connected.
    fn connect(&mut self) -> io::Result<Flow> {
        let flow = self.missteps(Step::Initialised)?;
        if flow == Flow::Detach || self.state >= State::Closing || self.never_connects() {
            return Ok(flow);
        }
        let queues = match self
            .read_setups()
            .and_then(|setups| self.map_rings(&setups))
        {
            Ok(queues) => queues,
            Err(error) => {
                report!("error rings: {error}");
                self.switch(State::Closing)?;
                return Ok(Flow::Continue);
            }
        };

        self.shared.set_stop(false);
        self.queues = queues
            .into_iter()
            .map(|queue| std::thread::spawn(move || queue.run()))
            .collect();
        if self.state < State::Connected {
            self.offer_disk()?;
            self.switch(State::Connected)?;
        }
        self.missteps(Step::Connected)
    }

    fn map_rings(&self, setups: &[Setup]) -> io::Result<Vec<Queue>> {
        setups
            .iter()
            .map(|setup| Queue::connect(setup, self.shared.clone()))
            .collect()
    }

    /// Reads a number that the frontend wrote.
    fn front_number(&mut self, key: &str) -> io::Result<Option<u32>> {
        let path = self.device.key(End::Front, key);
        let text = self.xs.read_opt(Tx::NONE, &path)?;
        text.map(|text| {
            let bad = |_| io::Error::other(format!("{key}={text} is not a number"));
            text.trim().parse().map_err(bad)
        })
        .transpose()
    }

    /// Like [`Self::front_number`], for a key that must be there.
    fn need_number(&mut self, key: &str) -> io::Result<u32> {
        self.front_number(key)?
            .ok_or_else(|| io::Error::other(format!("{key} is missing")))
    }

    /// Reads what the frontend wrote about its rings.
    fn read_setups(&mut self) -> io::Result<Vec<Setup>> {
        let path = self.device.key(End::Front, "protocol");
        let protocol = self.xs.read_opt(Tx::NONE, &path)?;
        let abi = Abi::parse(protocol.as_deref())
            .ok_or_else(|| io::Error::other(format!("protocol {protocol:?}")))?;
        let order = self.front_number("ring-page-order")?;
        let count = self.front_number("multi-queue-num-queues")?.unwrap_or(1);
        let persistent = self.options().persistent;
        let mode = if persistent && self.front_number("feature-persistent")? == Some(1) {
            Mode::Persistent
        } else if self.options().map || self.keeps_grants() {
            Mode::Map
        } else {
            Mode::Copy
        };
        if order.is_some_and(|order| order > MAX_RING_ORDER) || !(1..=MAX_QUEUES).contains(&count) {
            return Err(io::Error::other("more rings or pages than accepted"));
        }
        report!(
            "rings queues={count} order={} protocol={abi:?} grants={mode:?}",
            order.unwrap_or(0)
        );

        let mut setups = Vec::new();
        for index in 0..count {
            let prefix = if count > 1 {
                format!("queue-{index}/")
            } else {
                String::new()
            };
            let names: Vec<_> = match order {
                None => vec![format!("{prefix}ring-ref")],
                Some(order) => (0..1 << order)
                    .map(|page| format!("{prefix}ring-ref{page}"))
                    .collect(),
            };
            let refs = names
                .iter()
                .map(|name| self.need_number(name))
                .collect::<io::Result<_>>()?;
            setups.push(Setup {
                index,
                abi,
                refs,
                port: self.need_number(&format!("{prefix}event-channel"))?,
                mode,
            });
        }
        Ok(setups)
    }

    /// Stops all rings and unmaps what they have mapped, unless an attack keeps it.
    fn stop_queues(&mut self) {
        self.shared.set_stop(true);
        for queue in self.queues.drain(..) {
            self.remains.extend(queue.join());
        }
        if !self.keeps_at_close() {
            self.remains.clear();
        }
    }

    /// Takes the device down as the toolstack does; returns whether the frontend closed in time.
    fn detach(&mut self) -> io::Result<bool> {
        let mut keys = vec![("online", "0")];
        if self.state < State::Closing {
            keys.push(("state", "5"));
            self.state = State::Closing;
            report!("state backend=5");
        }
        self.device.set_back_keys(&mut self.xs, &keys)?;
        self.missteps(Step::Closing)?;

        let deadline = Instant::now() + self.options().timeout.min(CLOSE_TIMEOUT);
        self.looked = None;
        while !self.front.is_gone() && Instant::now() < deadline {
            self.front_changed()?;
        }

        if self.front == State::Closed {
            self.stop_queues();
            if self.state != State::Closed {
                self.switch(State::Closed)?;
            }
            self.device.remove_both(&mut self.xs)?;
        } else {
            // The frontend may still be flushing what it has, so go on serving for a while.
            self.device.remove_both(&mut self.xs)?;
            if !self.queues.is_empty() {
                std::thread::sleep(self.options().hold);
            }
            self.stop_queues();
        }
        self.release_kept();
        Ok(self.front.is_gone())
    }
}
