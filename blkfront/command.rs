// SPDX-License-Identifier: GPL-2.0

//! What the backend is asked for a request, message by message, and what its answers mean.

use crate::{
    features::{
        Flush,
        Terms, //
    },
    stats::Stats,
    transfer::{
        Kind,
        Rest,
        Transfer, //
    },
    Blkfront, //
};
use xen::{
    blk::mq::{
        Op,
        Request,
        Status, //
    },
    io::blkif::{
        self,
        Operation, //
    },
};

/// Responses that are dealt with before the lock is let go.
const BATCH: usize = 16;

/// Pages that are copied before the lock is let go; a request's are not torn apart.
const BATCH_PAGES: usize = 256;

/// This driver's part of a request.
#[derive(Default)]
pub(crate) struct Command {
    /// What the backend was last asked for it.
    pub(crate) operation: u8,
    /// Bytes that the message to the backend is for.
    length: u32,
    /// Bytes that are done: a request that is too large for one message goes in parts, one after the
    /// other. This and what follows count only if [`Request::is_prepared`].
    done: u32,
    /// Data that must be durable was written to a backend which must be told to flush for that.
    flush_next: bool,
    /// ... and it is written.
    flush_now: bool,
    /// How long the block layer has found the message to be without an answer, in milliseconds.
    waited: u32,
}

impl Command {
    /// Where in the request the message begins, and how long it is, in bytes.
    pub(crate) fn window(&self) -> (u32, u32) {
        (self.done, self.length)
    }

    /// The block layer has found the message without an answer for so many more milliseconds. Says
    /// how long that is altogether.
    pub(crate) fn wait(&mut self, milliseconds: u32) -> u32 {
        self.waited = self.waited.saturating_add(milliseconds);
        self.waited
    }

    /// Whatever has been done of the request does not count any more: another backend gets it.
    pub(crate) fn start_over(&mut self) {
        self.done = 0;
        self.flush_now = false;
    }
}

/// A message to the backend that is to be sent for a request.
pub(crate) struct Message {
    pub(crate) operation: Operation,
    /// Secure, if it is a discard.
    pub(crate) secure: bool,
    /// Where in the request it begins, and how long it is, in bytes.
    pub(crate) window: (u32, u32),
    /// Pieces of memory that it has at most.
    pub(crate) segments: usize,
    /// Frames for its segments.
    pub(crate) frames: usize,
    flush_next: bool,
}

impl Message {
    fn without_data(operation: Operation) -> Self {
        Self {
            operation,
            secure: false,
            window: (0, 0),
            segments: 0,
            frames: 0,
            flush_next: false,
        }
    }

    /// What to send next for a request, or what status it ends with instead.
    pub(crate) fn plan(request: &Request<Blkfront>, terms: &Terms) -> Result<Self, Status> {
        let command = request.data();
        let prepared = request.is_prepared();
        let op = match prepared && command.flush_now {
            true => Op::Flush,
            false => request.op(),
        };
        let (read, durable) = match op {
            Op::Read => (true, false),
            Op::Write { fua } => (false, fua),
            Op::Flush => {
                return match terms.flush {
                    Flush::Diskcache => Ok(Self::without_data(Operation::FlushDiskcache)),
                    Flush::Barrier => Ok(Self::without_data(Operation::WriteBarrier)),
                    Flush::None => Err(Status::Okay),
                }
            }
            Op::Discard { secure } => {
                return match terms.discard {
                    Some(discard) if discard.secure || !secure => Ok(Self {
                        secure,
                        window: (0, request.bytes()),
                        ..Self::without_data(Operation::Discard)
                    }),
                    // Forgetting in a way that others may remember is not what was asked for.
                    _ => Err(Status::NotSupported),
                };
            }
            Op::Other => return Err(Status::NotSupported),
        };

        let done = if prepared { command.done } else { 0 };
        let rest = Rest {
            read,
            durable,
            bytes: request.bytes().saturating_sub(done),
            segments: (done == 0).then(|| request.segments()),
        };
        let transfer = Transfer::next(rest, terms, |most| {
            request.fitting(done, most, terms.sector_size)
        })
        .ok_or(Status::IoError)?;
        let (operation, frames) = match transfer.kind {
            Kind::Read => (Operation::Read, transfer.segments),
            Kind::Write => (Operation::Write, transfer.segments),
            // Its segments are in the message.
            Kind::Barrier => (Operation::WriteBarrier, 0),
        };
        Ok(Self {
            operation,
            secure: false,
            window: (done, transfer.bytes),
            segments: transfer.segments,
            frames: blkif::indirect_frames(frames),
            flush_next: transfer.flush_next,
        })
    }

    /// It is in flight: what to remember of that.
    pub(crate) fn command(&self) -> Command {
        let (done, length) = self.window;
        Command {
            // CAST: The discriminant is the value on the wire.
            operation: self.operation as u8,
            length,
            done,
            flush_next: self.flush_next,
            flush_now: false,
            waited: 0,
        }
    }

    /// Counts it. It is for a request of `total` bytes, and has so many segments.
    pub(crate) fn count(&self, total: u32, segments: usize, stats: &mut Stats) {
        let length = self.window.1;
        match self.operation {
            Operation::Read => {
                stats.reads += 1;
                stats.read_bytes += u64::from(length);
            }
            Operation::Discard => stats.discards += 1,
            Operation::Write | Operation::WriteBarrier if length > 0 => {
                stats.writes += 1;
                stats.write_bytes += u64::from(length);
            }
            _ => stats.flushes += 1,
        }
        if segments > 0 {
            stats.segments += segments as u64;
            stats.indirect += u64::from(self.frames > 0);
            stats.parts += u64::from(length < total);
        }
    }
}

/// What is to become of a request once the lock is let go.
pub(crate) enum Verdict {
    End(Status),
    /// It must be sent again, in another way.
    Requeue,
}

impl Verdict {
    /// What a response means for the request, and for what may be asked of the backend.
    pub(crate) fn of(
        status: blkif::Status,
        request: &mut Request<Blkfront>,
        terms: &mut Terms,
        barrier_works: &mut bool,
    ) -> Self {
        let total = request.bytes();
        let secure = request.op() == Op::Discard { secure: true };
        let command = request.data_mut();
        let has_data = command.length > 0;
        let barrier = command.operation == Operation::WriteBarrier as u8;
        let flush = command.operation == Operation::FlushDiskcache as u8;
        let discard = command.operation == Operation::Discard as u8;
        match status {
            blkif::Status::Okay => {
                *barrier_works |= barrier;
                let whole = command.done.saturating_add(command.length) >= total;
                if !has_data || (whole && !command.flush_next) {
                    return Self::End(Status::Okay);
                }
                command.done = command.done.saturating_add(command.length);
                command.flush_now = whole;
                request.mark_prepared();
                Self::Requeue
            }
            blkif::Status::NotSupported if discard => {
                if let (true, Some(discard)) = (secure, &mut terms.discard) {
                    discard.secure = false;
                } else {
                    terms.discard = None;
                }
                Self::End(Status::NotSupported)
            }
            blkif::Status::NotSupported if barrier || flush => {
                terms.flush = Flush::None;
                Self::without_flush(has_data)
            }
            // Old backends that offer barriers but know none without data call that an error.
            blkif::Status::Error if barrier && !has_data && !*barrier_works => {
                terms.flush = Flush::None;
                Self::without_flush(has_data)
            }
            blkif::Status::NotSupported | blkif::Status::Error => Self::End(Status::IoError),
        }
    }

    fn without_flush(has_data: bool) -> Self {
        if has_data {
            // The data has not been written. It goes again, as a plain write.
            Self::Requeue
        } else {
            Self::End(Status::Okay)
        }
    }
}

/// Requests that have their responses.
pub(crate) struct Finished {
    list: [Option<(Request<Blkfront>, Verdict)>; BATCH],
    used: usize,
    /// Pages that were copied for them.
    copied: usize,
}

impl Finished {
    pub(crate) fn new() -> Self {
        Self {
            list: [const { None }; BATCH],
            used: 0,
            copied: 0,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.used
    }

    /// How much work they were: responses and copied pages.
    pub(crate) fn effort(&self) -> usize {
        self.used.saturating_add(self.copied)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used == BATCH || self.copied >= BATCH_PAGES
    }

    /// Keeps a request for which `copied` pages were copied.
    pub(crate) fn push(&mut self, request: Request<Blkfront>, verdict: Verdict, copied: usize) {
        self.copied = self.copied.saturating_add(copied);
        if let Some(place) = self.list.get_mut(self.used) {
            *place = Some((request, verdict));
            self.used += 1;
        }
    }

    /// Gives all requests back to the block layer. Not under a queue's lock.
    pub(crate) fn complete(&mut self) {
        for place in self.list.iter_mut().take(self.used) {
            match place.take() {
                Some((request, Verdict::End(status))) => request.complete(status),
                Some((request, Verdict::Requeue)) => request.requeue(),
                None => {}
            }
        }
        self.used = 0;
        self.copied = 0;
    }
}
