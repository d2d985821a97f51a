// SPDX-License-Identifier: GPL-2.0

//! A block frontend in dom0, which asks a backend for what no frontend should: each request in turn,
//! with the answer that a right backend gives.

use std::fmt;
use std::io;
use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use crate::blkif::Abi;
use crate::evtchn::Channel;
use crate::gntalloc::Granted;
use crate::report;
use crate::ring::{self, Memory};
use crate::sys::PAGE_SIZE;
use crate::xenbus::State;
use crate::xenstore::{Client, Tx};

/// How long the backend may take for a step or an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A grant reference that nobody has.
const NO_GREF: u32 = 0x7fff_fff0;

/// What the backend is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `BLKIF_RSP_OKAY`.
    Okay = 0,
    /// `BLKIF_RSP_ERROR`.
    Error = -1,
    /// `BLKIF_RSP_EOPNOTSUPP`.
    NotSupported = -2,
}

/// The device to be made.
pub struct Options {
    /// Major and minor number of the block device, in hexadecimal: `fd:0`.
    pub device: String,
    /// Number of the device in xenstore.
    pub number: u32,
    /// How requests are laid out.
    pub abi: Abi,
    /// Size of the disk in sectors of 512 bytes.
    pub sectors: u64,
    /// Sectors of 512 bytes in one of the disk's.
    pub sector: u64,
    /// Break the protocol of the ring at the end.
    pub break_ring: bool,
}

fn name(abi: Abi) -> &'static str {
    match abi {
        Abi::X86_64 => "x86_64-abi",
        Abi::X86_32 => "x86_32-abi",
    }
}

/// A segment on the wire: reference, first and last sector.
type Segment = (u32, u8, u8);

/// A request, field by field, whatever they are.
struct Request {
    bytes: [u8; 112],
    narrow: bool,
}

impl Request {
    fn new(abi: Abi, operation: u8, second: u8, sector: u64) -> Self {
        let narrow = matches!(abi, Abi::X86_32);
        let mut request = Self {
            bytes: [0; 112],
            narrow,
        };
        request.put(0, &[operation, second]);
        request.put(if narrow { 12 } else { 16 }, &sector.to_le_bytes());
        request
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Where what follows the first sector is.
    fn rest(&self) -> usize {
        if self.narrow {
            20
        } else {
            24
        }
    }

    fn id(mut self, id: u64) -> Self {
        let at = if self.narrow { 4 } else { 8 };
        self.put(at, &id.to_le_bytes());
        self
    }

    fn segments(mut self, segments: &[Segment]) -> Self {
        let at = self.rest();
        for (index, segment) in segments.iter().enumerate() {
            self.put(at + index * 8, &descriptor(*segment));
        }
        self
    }

    fn discard(mut self, sectors: u64) -> Self {
        let at = self.rest();
        self.put(at, &sectors.to_le_bytes());
        self
    }

    fn indirect(mut self, count: u16, grefs: &[u32]) -> Self {
        self.put(2, &count.to_le_bytes());
        let at = self.rest() + 4;
        for (index, gref) in grefs.iter().enumerate() {
            self.put(at + index * 4, &gref.to_le_bytes());
        }
        self
    }
}

fn descriptor((gref, first, last): Segment) -> [u8; 8] {
    let gref = gref.to_le_bytes();
    [gref[0], gref[1], gref[2], gref[3], first, last, 0, 0]
}

/// A connected device.
struct Front {
    xs: Client,
    front: String,
    back: String,
    ring: Granted,
    channel: Channel,
    abi: Abi,
    produced: u32,
    consumed: u32,
    failures: u32,
}

const REQ_PROD: usize = 0;
const RSP_PROD: usize = 2;
const RSP_EVENT: usize = 3;

impl Front {
    fn new(options: &Options) -> io::Result<Self> {
        let mut xs = Client::connect()?;
        let front = format!("/local/domain/0/rogue/vbd/{}", options.number);
        let back = format!("/local/domain/0/backend/vbd/0/{}", options.number);
        let ring = Granted::new(0)?;
        let channel = Channel::bind_unbound(0)?;
        for (key, value) in [
            ("ring-ref", ring.gref().to_string()),
            ("event-channel", channel.port().to_string()),
            ("protocol", name(options.abi).to_string()),
            ("state", "1".to_string()),
        ] {
            xs.write(Tx::NONE, &format!("{front}/{key}"), &value)?;
        }
        for (key, value) in [
            ("frontend", front.clone()),
            ("frontend-id", "0".to_string()),
            ("online", "1".to_string()),
            ("mode", "w".to_string()),
            ("dev", format!("rogue{}", options.number)),
            ("physical-device", options.device.clone()),
            ("state", "1".to_string()),
        ] {
            xs.write(Tx::NONE, &format!("{back}/{key}"), &value)?;
        }
        // As a frontend leaves a ring: it wants an event for the first answer.
        ring.words()[1].store(1, Ordering::Relaxed);
        ring.words()[RSP_EVENT].store(1, Ordering::Relaxed);
        let mut this = Self {
            xs,
            front,
            back,
            ring,
            channel,
            abi: options.abi,
            produced: 0,
            consumed: 0,
            failures: 0,
        };
        this.wait_for(&[State::InitWait])?;
        this.set_state(State::Initialised)?;
        this.wait_for(&[State::Connected])?;
        this.set_state(State::Connected)?;
        Ok(this)
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

    fn wait_for(&mut self, states: &[State]) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let state = self.back_state()?;
            if states.contains(&state) {
                return Ok(());
            }
            if Instant::now() > end {
                let message = format!("the backend is in state {state:?}, not in {states:?}");
                return Err(io::Error::other(message));
            }
            // Nothing tells of the event channel and of xenstore at once.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn slot_words(&self) -> usize {
        if matches!(self.abi, Abi::X86_32) {
            108 / 4
        } else {
            112 / 4
        }
    }

    /// Sends a request and returns the answer: its id, operation and status.
    fn ask(&mut self, request: &Request) -> io::Result<(u64, u8, i16)> {
        let words = self.slot_words();
        let size = ring::entries(PAGE_SIZE, words * 4);
        let at = |index: u32| 16 + (index % size) as usize * words;
        for (index, bytes) in request.bytes.chunks_exact(4).take(words).enumerate() {
            let word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            self.ring.words()[at(self.produced) + index].store(word, Ordering::Relaxed);
        }
        self.produced = self.produced.wrapping_add(1);
        self.ring.words()[RSP_EVENT].store(self.consumed.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.ring.words()[REQ_PROD].store(self.produced, Ordering::Release);
        self.channel.notify()?;

        let end = Instant::now() + PATIENCE;
        while self.ring.words()[RSP_PROD].load(Ordering::Acquire) == self.consumed {
            if Instant::now() > end {
                return Err(io::Error::other("there is no answer"));
            }
            self.channel.wait(Duration::from_millis(200))?;
        }
        let slot = &self.ring.words()[at(self.consumed)..];
        self.consumed = self.consumed.wrapping_add(1);
        let word = |index: usize| slot[index].load(Ordering::Relaxed);
        let id = u64::from(word(0)) | u64::from(word(1)) << 32;
        // CAST: Operation, padding and status share a word.
        Ok((id, word(2) as u8, (word(2) >> 16) as i16))
    }

    /// Asks, and says whether the answer is right.
    fn expect(
        &mut self,
        what: impl fmt::Display,
        request: Request,
        status: Status,
        operation: Option<u8>,
    ) -> io::Result<()> {
        let id = 0x8000_0000_0000_0000 | u64::from(self.produced);
        let operation = operation.unwrap_or(request.bytes[0]);
        let (got_id, got_operation, got_status) = self.ask(&request.id(id))?;
        if (got_id, got_operation, got_status) == (id, operation, status as i16) {
            report!("ok {what}");
        } else {
            self.failures += 1;
            report!(
                "wrong {what}: id {got_id:#x}, operation {got_operation}, status {got_status}, \
                 instead of {id:#x}, {operation}, {}",
                status as i16
            );
        }
        Ok(())
    }

    fn check(&mut self, what: &str, right: bool) {
        if right {
            report!("ok {what}");
        } else {
            self.failures += 1;
            report!("wrong {what}");
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.xs
            .write(Tx::NONE, &format!("{}/online", self.back), "0")?;
        self.set_state(State::Closing)?;
        self.set_state(State::Closed)?;
        self.wait_for(&[State::Closed, State::Unknown])
    }

    fn remove(&mut self) -> io::Result<()> {
        let (front, back) = (self.front.clone(), self.back.clone());
        self.xs.rm(Tx::NONE, &front)?;
        self.xs.rm(Tx::NONE, &back)
    }
}

/// Makes a device, asks for everything, and removes it. Returns how many answers were wrong.
pub fn run(options: &Options) -> io::Result<u32> {
    let mut front = Front::new(options)?;
    let result = ask_for_everything(&mut front, options);
    let closed = front.close();
    front.remove()?;
    result?;
    closed?;
    report!("closed");
    Ok(front.failures)
}

fn ask_for_everything(front: &mut Front, options: &Options) -> io::Result<()> {
    use Status::{Error, NotSupported, Okay};

    let (abi, sectors) = (options.abi, options.sectors);
    let page = Granted::new(0)?;
    let other = Granted::new(0)?;
    let gref = page.gref();
    let whole = [(gref, 0, 7)];
    let new = |operation, second, sector| Request::new(abi, operation, second, sector);

    // What an honest frontend does.
    let pattern: Vec<u8> = (0..PAGE_SIZE)
        .map(|byte| (byte * 7 + byte / 256) as u8)
        .collect();
    page.write(&pattern);
    front.expect("write", new(1, 1, 8).segments(&whole), Okay, None)?;
    let into = [(other.gref(), 0, 7)];
    front.expect("read", new(0, 1, 8).segments(&into), Okay, None)?;
    front.check("what was read is what was written", other.read() == pattern);
    front.expect("flush", new(3, 0, u64::MAX), Okay, None)?;
    front.expect("barrier", new(2, 0, u64::MAX), Okay, None)?;
    front.expect(
        "barrier with data",
        new(2, 1, 8).segments(&whole),
        Okay,
        None,
    )?;
    let eleven = [(gref, 0, 7); 11];
    front.expect(
        "eleven segments",
        new(0, 11, 0).segments(&eleven),
        Okay,
        None,
    )?;

    let table = Granted::new(0)?;
    // Xen maps a page no more than 255 times.
    let pages: Vec<Granted> = (0..8).map(|_| Granted::new(0)).collect::<io::Result<_>>()?;
    let grefs = pages.iter().cycle().map(Granted::gref);
    let descriptors: Vec<u8> = grefs
        .take(256)
        .flat_map(|gref| descriptor((gref, 0, 7)))
        .collect();
    table.write(&descriptors);
    let indirect = |operation, count| new(6, operation, 0).indirect(count, &[table.gref(); 8]);
    front.expect("indirect read", indirect(0, 40), Okay, Some(0))?;
    front.expect(
        "as many segments as offered",
        indirect(0, 256),
        Okay,
        Some(0),
    )?;

    // What none does.
    for operation in [4, 7, 100, 255] {
        let what = format!("operation {operation}");
        front.expect(
            what,
            new(operation, 1, 0).segments(&whole),
            NotSupported,
            None,
        )?;
    }
    for count in [0, 12, 255] {
        front.expect(format!("{count} segments"), new(0, count, 0), Error, None)?;
    }
    for (first, last) in [(7, 0), (0, 8), (8, 8), (0, 255), (255, 255), (3, 2)] {
        let what = format!("segment from {first} to {last}");
        let request = new(1, 1, 0).segments(&[(gref, first, last)]);
        front.expect(what, request, Error, None)?;
        let request = new(1, 2, 0).segments(&[(gref, 0, 7), (gref, first, last)]);
        front.expect("... behind a good one", request, Error, None)?;
    }
    for sector in [sectors, sectors - 1, u64::MAX, u64::MAX - 7, 1 << 63] {
        let what = format!("sector {sector:#x}");
        front.expect(what, new(0, 1, sector).segments(&whole), Error, None)?;
        front.expect(
            "... of a write",
            new(1, 1, sector).segments(&whole),
            Error,
            None,
        )?;
    }
    for bad in [NO_GREF, u32::MAX, 0] {
        let what = format!("reference {bad:#x}");
        front.expect(what, new(0, 1, 0).segments(&[(bad, 0, 7)]), Error, None)?;
        front.expect(
            "... of a write",
            new(1, 2, 0).segments(&[(gref, 0, 7), (bad, 0, 7)]),
            Error,
            None,
        )?;
        front.expect(
            "... of descriptors",
            new(6, 1, 0).indirect(16, &[bad]),
            Error,
            Some(1),
        )?;
    }
    for count in [0, 257, 512, 4096, 4097, 65535] {
        let what = format!("{count} indirect segments");
        front.expect(what, indirect(1, count), Error, Some(1))?;
    }
    for operation in [2, 3, 5, 6, 255] {
        let what = format!("indirect operation {operation}");
        front.expect(what, indirect(operation, 16), Error, Some(operation))?;
    }
    table.write(&descriptor((gref, 5, 4)));
    front.expect("a wrong descriptor", indirect(1, 16), Error, Some(1))?;
    table.write(&descriptor((NO_GREF, 0, 7)));
    front.expect("a wrong reference in one", indirect(0, 16), Error, Some(0))?;
    for (sector, count) in [
        (0, u64::MAX),
        (sectors, 8),
        (u64::MAX, 8),
        (8, u64::MAX - 7),
    ] {
        let what = format!("discard of {count:#x} from {sector:#x}");
        front.expect(what, new(5, 0, sector).discard(count), Error, None)?;
    }
    front.expect(
        "secure discard",
        new(5, 1, 8).discard(8),
        NotSupported,
        None,
    )?;
    if options.sector > 1 {
        front.expect(
            "part of a sector",
            new(0, 1, 8).segments(&[(gref, 0, 0)]),
            Error,
            None,
        )?;
        front.expect(
            "between sectors",
            new(0, 1, 1).segments(&whole),
            Error,
            None,
        )?;
    }

    // All of that has changed nothing.
    other.write(&[0; PAGE_SIZE]);
    front.expect("read again", new(0, 1, 8).segments(&into), Okay, None)?;
    front.check("it is still there", other.read() == pattern);

    if options.break_ring {
        front.ring.words()[REQ_PROD].store(front.produced.wrapping_add(1000), Ordering::Release);
        front.channel.notify()?;
        front.wait_for(&[State::Closing])?;
        report!("ok an impossible producer closes the device");
    }
    Ok(())
}
