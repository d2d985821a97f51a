// SPDX-License-Identifier: GPL-2.0

//! From the ring to the block device: requests are taken, checked, given their data, and begun.

use super::{
    Ring,
    BUDGET,
    PATIENCE, //
};
use crate::{
    job::{
        failed,
        write,
        Held,
        Job,
        Kind,
        Ready,
        SegmentList,
        Wrong, //
    },
    mover::{
        Trouble,
        MAX_SEGMENTS, //
    },
};
use kernel::prelude::*;
use xen::{
    blk::bio::{
        self,
        plugged,
        Action, //
    },
    io::blkif::{
        back::{
            decode,
            Answer,
            Malformed,
            Request,
            Transfer,
            Wire,
            Wish, //
        },
        Status, //
    },
};

impl<W: Wire + 'static> Ring<W> {
    /// Takes requests from the ring and begins them. Says whether there was one.
    pub(super) fn serve(&mut self) -> bool {
        plugged(|| {
            let mut worked = self.retry();
            for _ in 0..BUDGET {
                if self.held.is_some() || self.barrier || self.broken {
                    break;
                }
                match self.parts.back.next_request() {
                    Ok(Some(request)) => {
                        worked = true;
                        self.found = true;
                        self.busy = true;
                        if let Some(begun) = self.idle.take() {
                            let gap = xen::thread::now().saturating_sub(begun);
                            self.polling.learn(gap, self.settings.poll_nanoseconds());
                        }
                        self.taken = self.taken.saturating_add(1);
                        self.depth = self.depth.max(self.parts.back.unanswered());
                        match decode::<W>(&request) {
                            Ok(request) => self.consider(request),
                            Err((answer, malformed)) => {
                                self.refuse(answer, Wrong::Malformed(malformed));
                            }
                        }
                        if matches!(self.held, Some((Held::Descriptors(_) | Held::Memory(_), _))) {
                            self.parts.counters.oo_req.add(1);
                        }
                    }
                    Ok(None) => break,
                    Err(impossible) => self.break_off(impossible),
                }
            }
            worked
        })
    }

    /// Tries once more to begin the request that is held. Says whether it is not held any more.
    fn retry(&mut self) -> bool {
        let Some((held, since)) = self.held.take() else {
            return false;
        };
        // Patience is for those that are in want of something that nobody is going to give back. It
        // begins when the last one that did has ended.
        let since = match held {
            Held::Drain(_) => self.now,
            Held::Descriptors(_) | Held::Memory(_) if !self.is_alone() => self.now,
            Held::Descriptors(_) | Held::Memory(_) => since,
        };
        let late = self.now.saturating_sub(since) > PATIENCE;
        match held {
            Held::Descriptors(request) if late => {
                self.refuse(failed(request.id, request.operation), Wrong::TooLong);
            }
            Held::Memory(ready) if late => {
                self.refuse(failed(ready.job.id, ready.job.operation), Wrong::TooLong);
            }
            Held::Descriptors(request) => self.consider(request),
            Held::Memory(ready) | Held::Drain(ready) => self.begin(ready),
        }
        // It was not taken from the ring just now.
        if let Some((_, new)) = &mut self.held {
            *new = since;
            return false;
        }
        true
    }

    fn hold(&mut self, held: Held) {
        self.held = Some((held, self.now));
    }

    /// Finds out whether a request makes sense, and begins it.
    fn consider(&mut self, request: Request) {
        let answer = failed(request.id, request.operation);
        self.parts.mover.set_alone(self.is_alone());
        let (transfer, segments) = match request.wish {
            Wish::Direct(transfer, segments) => (transfer, SegmentList::Direct(segments)),
            Wish::Indirect {
                transfer,
                count,
                grefs,
            } => {
                if count > MAX_SEGMENTS {
                    let malformed = Malformed::SegmentCount(count);
                    return self.refuse(answer, Wrong::Malformed(malformed));
                }
                match self.parts.mover.segments(count, &grefs) {
                    Ok(segments) => (transfer, SegmentList::Indirect(segments)),
                    Err(Trouble::Short) => return self.hold(Held::Descriptors(request)),
                    Err(trouble) => return self.refuse(answer, Wrong::Trouble(trouble)),
                }
            }
            Wish::Discard { sectors, secure } => {
                return self.consider_discard(request, sectors, secure);
            }
        };
        let bounds = self.parts.disk.bounds();
        let checked = bounds.check_segments(request.sector, segments.as_slice(), transfer.writes());
        let sectors = match checked {
            Ok(sectors) => sectors,
            Err(unsuitable) => return self.refuse(answer, Wrong::Unsuitable(unsuitable)),
        };
        let (kind, action) = match transfer {
            Transfer::Read => (Kind::Read, Action::Read),
            Transfer::Write => (Kind::Write, write(false, false)),
            Transfer::FlushDiskcache if sectors == 0 => (Kind::Flush, Action::Flush),
            Transfer::WriteBarrier if sectors == 0 => (Kind::Barrier, Action::Flush),
            Transfer::FlushDiskcache => (Kind::Flush, write(true, false)),
            Transfer::WriteBarrier => (Kind::Barrier, write(true, true)),
        };
        self.begin(Ready {
            job: Job {
                id: request.id,
                operation: request.operation,
                kind,
            },
            action,
            // Where a request without data starts means nothing.
            sector: if sectors == 0 { 0 } else { request.sector },
            sectors,
            segments,
        });
    }

    fn consider_discard(&mut self, request: Request, sectors: u64, secure: bool) {
        let answer = failed(request.id, request.operation);
        let able = match self.parts.disk.device.discard() {
            Some(discard) => self.parts.disk.may_discard() && (discard.secure || !secure),
            None => false,
        };
        if !able {
            self.answer(Answer {
                status: Status::NotSupported,
                ..answer
            });
            return;
        }
        let bounds = self.parts.disk.bounds();
        if let Err(unsuitable) = bounds.check_range(request.sector, sectors, true) {
            return self.refuse(answer, Wrong::Unsuitable(unsuitable));
        }
        if sectors == 0 {
            self.answer(Answer {
                status: Status::Okay,
                ..answer
            });
            return;
        }
        self.begin(Ready {
            job: Job {
                id: request.id,
                operation: request.operation,
                kind: Kind::Discard,
            },
            action: Action::Discard { sectors, secure },
            sector: request.sector,
            sectors,
            segments: SegmentList::Indirect(KVec::new()),
        });
    }

    /// Begins a request.
    fn begin(&mut self, ready: Ready) {
        let alone = self.is_alone();
        if ready.job.kind == Kind::Barrier && !alone {
            return self.hold(Held::Drain(ready));
        }
        self.parts.mover.set_alone(alone);
        let segments = ready.segments.as_slice();
        let count = segments.len();
        let Ok(mut transfer) = bio::Transfer::new(count, ready.job) else {
            return self.hold(Held::Memory(ready));
        };
        if count > 0 {
            let parts = &mut self.parts;
            let writes = ready.action != Action::Read;
            let loaded =
                parts
                    .mover
                    .load(&mut transfer, segments, writes, self.now, &parts.counters);
            match loaded {
                Ok(()) if transfer.parts.len() == count => {}
                // There was room for all parts, so they are all there.
                Ok(()) => return self.hold(Held::Memory(ready)),
                Err(Trouble::Short) => return self.hold(Held::Memory(ready)),
                Err(trouble) => {
                    let answer = failed(ready.job.id, ready.job.operation);
                    return self.refuse(answer, Wrong::Trouble(trouble));
                }
            }
        }
        self.count(&ready);
        self.barrier = ready.job.kind == Kind::Barrier;
        self.under_way += 1;
        transfer.submit(
            &self.parts.disk.device,
            &self.parts.mailbox,
            ready.action,
            ready.sector,
        );
    }

    fn count(&self, ready: &Ready) {
        let counters = &self.parts.counters;
        match ready.job.kind {
            Kind::Read => {
                counters.rd_req.add(1);
                counters.rd_sect.add(ready.sectors);
            }
            Kind::Write => {
                counters.wr_req.add(1);
                counters.wr_sect.add(ready.sectors);
            }
            Kind::Flush | Kind::Barrier => {
                counters.f_req.add(1);
                counters.wr_sect.add(ready.sectors);
            }
            Kind::Discard => {
                counters.ds_req.add(1);
                counters.ds_sect.add(ready.sectors);
            }
        }
    }
}
