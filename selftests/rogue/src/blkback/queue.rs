// SPDX-License-Identifier: GPL-2.0

//! The thread that serves one ring.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::attack::Attack;
use super::pages::{Granted, Mode, Pages};
use super::shared::Shared;
use crate::blkif::{self, op, status, Abi, Body, Request, Response, Segment, SECTOR};
use crate::evtchn::Channel;
use crate::gntdev::{Gntdev, Mapping, Piece};
use crate::report;
use crate::ring::{BackRing, ImpossibleProducer};
use crate::rng::Rng;
use crate::sys::Access;

mod tamper;

/// How long to sleep before looking whether to stop.
const TICK: Duration = Duration::from_millis(50);

/// How a frontend set up one ring.
#[derive(Debug, PartialEq, Eq)]
pub struct Setup {
    /// Number of the ring.
    pub index: u32,
    /// Layout of requests.
    pub abi: Abi,
    /// Grants of the ring's pages.
    pub refs: Vec<u32>,
    /// The frontend's port.
    pub port: u32,
    /// How to get at the pages of requests.
    pub mode: Mode,
}

/// One ring, its event channel, and the pages of its requests.
pub struct Queue {
    index: u32,
    abi: Abi,
    shared: Arc<Shared>,
    ring: BackRing<Mapping>,
    channel: Arc<Channel>,
    pages: Pages,
    rng: Rng,
    /// Pages that should have been unmapped.
    kept: Vec<Granted>,
    /// Whether an attack, or a broken frontend, left nothing to go on with.
    quiet: bool,
}

/// Why a request fails.
type Failure = (i16, String);

fn failed(what: impl ToString) -> Failure {
    (status::ERROR, what.to_string())
}

impl Queue {
    /// Maps a ring and binds its event channel.
    pub fn connect(setup: &Setup, shared: Arc<Shared>) -> io::Result<Self> {
        let domid = shared.options.domid;
        let device = Gntdev::open()?;
        let mapping = device.map(domid, &setup.refs, Access::ReadWrite)?;
        let ring = BackRing::attach(mapping, setup.abi.slot())
            .map_err(|error| io::Error::other(format!("ring with {} requests open", error.open)))?;
        let channel = Channel::bind_interdomain(domid, setup.port)?;
        Ok(Self {
            index: setup.index,
            abi: setup.abi,
            ring,
            channel: Arc::new(channel),
            pages: Pages::new(device, domid, setup.mode),
            rng: Rng::new(shared.options.seed.wrapping_add(setup.index.into())),
            kept: Vec::new(),
            quiet: false,
            shared,
        })
    }

    /// Serves the ring until it is told to stop; what it has mapped stays so until it is dropped.
    pub fn run(mut self) -> Self {
        while !self.shared.is_stopping() {
            if self.quiet {
                std::thread::sleep(TICK);
                continue;
            }
            if let Err(error) = self.serve_open().and_then(|()| self.sleep()) {
                self.on_impossible(error);
            }
        }
        self
    }

    /// Looks at a producer that cannot be, which may be of our own making.
    fn on_impossible(&mut self, error: ImpossibleProducer) {
        if self.shared.is_done(Attack::ScribbleFront) {
            // The next request will put it right.
            let _ = self.channel.wait(TICK);
            return;
        }
        report!("broken-ring queue={} open={}", self.index, error.open);
        self.quiet = true;
    }

    /// Takes and answers requests as long as there are any.
    fn serve_open(&mut self) -> Result<(), ImpossibleProducer> {
        let mut words = [0; blkif::MAX_REQUEST / 4];
        let words = &mut words[..self.abi.slot() / 4];
        let mut batch = Vec::new();
        let mut waited = false;
        loop {
            while !self.quiet && !self.shared.is_stopping() && self.ring.take(words)? {
                let request = self.parse(words);
                if self.hangs() {
                    continue;
                }
                if self.reorders() {
                    batch.push(request);
                } else {
                    self.serve(request);
                }
            }
            // One request alone cannot be answered out of order: give another a chance to come.
            if batch.len() != 1 || waited {
                break;
            }
            waited = true;
            if !self.ring.arm()? {
                let _ = self.channel.wait(TICK);
            }
        }
        self.reorder(&mut batch);
        for request in batch {
            self.serve(request);
        }
        Ok(())
    }

    fn parse(&self, words: &[u32]) -> Request {
        let mut bytes = [0; blkif::MAX_REQUEST];
        for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Request::parse(self.abi, &bytes)
    }

    /// Waits for an event, unless requests are there.
    fn sleep(&mut self) -> Result<(), ImpossibleProducer> {
        if self.quiet || self.tamper_sleep() || self.ring.arm()? {
            return Ok(());
        }
        self.tamper_idle();
        if let Err(error) = self.channel.wait(TICK) {
            report!("error event channel: {error}");
            self.quiet = true;
        }
        Ok(())
    }

    fn serve(&mut self, request: Request) {
        let mut granted = Granted::default();
        let outcome = match self.execute(&request, &mut granted) {
            Ok(()) => status::OKAY,
            Err((status, why)) => {
                report!(
                    "failed queue={} operation={} id={} sector={}: {why}",
                    self.index,
                    request.operation,
                    request.id,
                    request.sector
                );
                status
            }
        };
        if self.shared.options.log {
            report!("request queue={} {request:?} status={outcome}", self.index);
        }
        if !self.shared.options.delay.is_zero() {
            std::thread::sleep(self.shared.options.delay);
        }

        let response = Response {
            id: request.id,
            operation: request.answered_operation(),
            status: outcome,
        };
        if self.shared.is_active() {
            self.answer_tampered(&request, response, granted);
        } else {
            // Pages must be unmapped before the frontend may take them back.
            drop(granted);
            self.ring.put(&response.words());
            if self.ring.publish() {
                self.notify();
            }
        }
        self.shared.count_served();
    }

    fn notify(&mut self) {
        if let Err(error) = self.channel.notify() {
            report!("error notify: {error}");
            self.quiet = true;
        }
    }

    /// Does what a request asks for; its pages are left in `granted`.
    fn execute(&mut self, request: &Request, granted: &mut Granted) -> Result<(), Failure> {
        let shared = self.shared.clone();
        let options = &shared.options;
        let sector = request.sector;
        match &request.body {
            Body::Malformed(why) => return Err(failed(why)),
            Body::Discard { .. } if !options.discard => {
                return Err((status::EOPNOTSUPP, "discard was not offered".into()));
            }
            Body::Discard { sectors } => {
                self.check_write()?;
                self.check_range(sector, *sectors)?;
                let (offset, len) = (sector * SECTOR, sectors * SECTOR);
                return shared.disk.discard(offset, len).map_err(failed);
            }
            Body::Indirect {
                inner,
                segments,
                pages,
            } => {
                if *segments > options.indirect as usize {
                    return Err(failed("more indirect segments than offered"));
                }
                let segments = self.read_segments(pages, *segments)?;
                return self.transfer(*inner, sector, &segments, granted);
            }
            Body::Direct(_) => (),
        }

        let Body::Direct(segments) = &request.body else {
            return Ok(());
        };
        match request.operation {
            op::FLUSH if !options.flush => {
                Err((status::EOPNOTSUPP, "flush was not offered".into()))
            }
            op::WRITE_BARRIER if !options.barrier => {
                Err((status::EOPNOTSUPP, "barrier was not offered".into()))
            }
            op::FLUSH | op::WRITE_BARRIER => {
                // One thread serves the ring in order, so everything before is done already.
                shared.disk.flush().map_err(failed)?;
                if !segments.is_empty() {
                    self.transfer(op::WRITE, sector, segments, granted)?;
                    shared.disk.flush().map_err(failed)?;
                }
                Ok(())
            }
            operation => self.transfer(operation, sector, segments, granted),
        }
    }

    /// Copies the segments of an indirect request once.
    fn read_segments(&mut self, refs: &[u32], count: usize) -> Result<Vec<Segment>, Failure> {
        let mut bytes = vec![0; count * blkif::SEGMENT];
        let per_page = blkif::SEGMENTS_PER_PAGE * blkif::SEGMENT;
        let pieces: Vec<_> = bytes
            .chunks(per_page)
            .zip(refs)
            .map(|(part, &gref)| Piece {
                gref,
                offset: 0,
                // CAST: Not more than a page.
                len: part.len() as u16,
            })
            .collect();
        self.pages.fetch(&pieces, &mut bytes).map_err(failed)?;
        let segments: Vec<_> = bytes
            .chunks_exact(blkif::SEGMENT)
            .map(Segment::parse)
            .collect();
        if !segments.iter().all(Segment::is_sane) {
            return Err(failed("bad indirect segment"));
        }
        Ok(segments)
    }

    fn check_write(&self) -> Result<(), Failure> {
        if self.shared.options.read_only {
            return Err(failed("write to a read-only disk"));
        }
        Ok(())
    }

    fn check_range(&self, sector: u64, sectors: u64) -> Result<(), Failure> {
        let end = sector.checked_add(sectors);
        if end.is_none_or(|end| end > self.shared.sectors()) {
            return Err(failed("beyond the end of the disk"));
        }
        let per_block = u64::from(self.shared.options.sector_size) / SECTOR;
        if per_block > 1 && (sector % per_block != 0 || sectors % per_block != 0) {
            return Err(failed("not aligned to the sector size"));
        }
        Ok(())
    }

    /// Moves data between the disk and granted pages.
    fn transfer(
        &mut self,
        operation: u8,
        sector: u64,
        segments: &[Segment],
        granted: &mut Granted,
    ) -> Result<(), Failure> {
        let pieces: Vec<_> = segments.iter().map(Segment::piece).collect();
        let len: usize = pieces.iter().map(|piece| usize::from(piece.len)).sum();
        self.check_range(sector, len as u64 / SECTOR)?;

        let mut data = vec![0; len];
        let offset = sector * SECTOR;
        if operation == op::READ {
            self.shared.disk.read(offset, &mut data).map_err(failed)?;
            *granted = self.pages.store(&pieces, &data).map_err(failed)?;
        } else {
            self.check_write()?;
            *granted = self.pages.fetch(&pieces, &mut data).map_err(failed)?;
            self.shared.disk.write(offset, &data).map_err(failed)?;
        }
        Ok(())
    }
}
