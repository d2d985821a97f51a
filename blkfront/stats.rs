// SPDX-License-Identifier: GPL-2.0

//! What a hardware queue has done, counted.
//!
//! Pure logic, tested on the host and by KUnit. The counters belong to a queue, not to its rings: they
//! go on when the backend is another one. They are plain numbers, changed under the queue's lock.

use crate::moderation::histogram::Histogram;
use core::fmt;

/// Counters of one hardware queue's ring, from the beginning of the disk on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Reads sent to the backend.
    pub(crate) reads: u64,
    /// Writes, with and without a barrier, that have data.
    pub(crate) writes: u64,
    /// Flushes, and barriers without data.
    pub(crate) flushes: u64,
    /// Discards.
    pub(crate) discards: u64,
    /// Bytes that reads asked for.
    pub(crate) read_bytes: u64,
    /// Bytes of writes.
    pub(crate) write_bytes: u64,
    /// Pieces of memory of reads and writes.
    pub(crate) segments: u64,
    /// Reads and writes that list their segments in frames of their own.
    pub(crate) indirect: u64,
    /// Reads and writes that are only a part of what the block layer asked for.
    pub(crate) parts: u64,
    /// Segments copied to or from pages that stay granted.
    pub(crate) persistent: u64,
    /// Segments copied to or from bounce pages.
    pub(crate) bounced: u64,
    /// Requests that had to wait for a free slot of the ring.
    pub(crate) ring_full: u64,
    /// Requests that had to wait for a grant reference or a page.
    pub(crate) grant_waits: u64,
    /// Requests that the backend has answered with an error, or not as the protocol has it.
    pub(crate) errors: u64,
    /// Times that a request was found to be without an answer for as long as `io_timeout` says.
    pub(crate) timeouts: u64,
    /// Events sent to the backend.
    pub(crate) events_sent: u64,
    /// Events received from it.
    pub(crate) events_received: u64,
    /// Those of them that there was nothing to do for.
    pub(crate) events_spurious: u64,
    /// Events that brought so much to do that a worker went on with it.
    pub(crate) events_deferred: u64,
    /// Times that the next event was asked for later than at the next response.
    pub(crate) events_held: u64,
    /// Times that the timer then came before the event, and found responses.
    pub(crate) events_expired: u64,
    /// Times that responses were found by looking for them before an event was asked for.
    pub(crate) polls_found: u64,
    /// Times that none were.
    pub(crate) polls_empty: u64,
    /// How many responses were found at a time.
    pub(crate) batches: Histogram,
}

impl Stats {
    /// All counters and their names, in the order in which they are shown.
    fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let plain = [
            ("reads", self.reads),
            ("writes", self.writes),
            ("flushes", self.flushes),
            ("discards", self.discards),
            ("read_bytes", self.read_bytes),
            ("write_bytes", self.write_bytes),
            ("segments", self.segments),
            ("indirect", self.indirect),
            ("parts", self.parts),
            ("persistent", self.persistent),
            ("bounced", self.bounced),
            ("ring_full", self.ring_full),
            ("grant_waits", self.grant_waits),
            ("errors", self.errors),
            ("timeouts", self.timeouts),
            ("events_sent", self.events_sent),
            ("events_received", self.events_received),
            ("events_spurious", self.events_spurious),
            ("events_deferred", self.events_deferred),
            ("events_held", self.events_held),
            ("events_expired", self.events_expired),
            ("polls_found", self.polls_found),
            ("polls_empty", self.polls_empty),
        ];
        plain.into_iter().chain(self.batches.all())
    }
}

/// What a ring has at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// Requests that the backend has not answered yet.
    pub(crate) in_flight: u64,
    /// Grant references set aside or in use.
    pub(crate) references: u64,
    /// Pages that stay granted.
    pub(crate) granted_pages: u64,
}

/// A queue's numbers as `debugfs` shows them: one line each.
pub(crate) struct Table {
    /// Which queue.
    pub(crate) queue: u32,
    /// Its counters.
    pub(crate) stats: Stats,
    /// The gauges of its ring, if it has one.
    pub(crate) gauges: Option<Gauges>,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue;
        for (name, value) in self.stats.all() {
            writeln!(f, "queue{queue}.{name} {value}")?;
        }
        if let Some(gauges) = self.gauges {
            for (name, value) in [
                ("in_flight", gauges.in_flight),
                ("references", gauges.references),
                ("granted_pages", gauges.granted_pages),
            ] {
                writeln!(f, "queue{queue}.{name} {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkfront_stats))]
mod tests {
    use super::*;
    use fmt::Write;

    /// Takes text as long as it goes on as expected.
    struct Rest<'a>(&'a str);

    impl Write for Rest<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(text).ok_or(fmt::Error)?;
            Ok(())
        }
    }

    #[test]
    fn names_are_all_different() {
        let stats = Stats::default();
        for (index, (name, _)) in stats.all().enumerate() {
            assert!(stats.all().skip(index + 1).all(|(other, _)| other != name));
        }
    }

    #[test]
    fn a_line_for_each_number() {
        let table = Table {
            queue: 3,
            stats: Stats {
                reads: u64::MAX,
                events_deferred: 7,
                ..Stats::default()
            },
            gauges: Some(Gauges {
                in_flight: 1,
                references: 2,
                granted_pages: 4,
            }),
        };
        let mut rest = Rest(
            "queue3.reads 18446744073709551615\nqueue3.writes 0\nqueue3.flushes 0\n\
             queue3.discards 0\nqueue3.read_bytes 0\nqueue3.write_bytes 0\nqueue3.segments 0\n\
             queue3.indirect 0\nqueue3.parts 0\nqueue3.persistent 0\nqueue3.bounced 0\n\
             queue3.ring_full 0\nqueue3.grant_waits 0\nqueue3.errors 0\nqueue3.timeouts 0\n\
             queue3.events_sent 0\nqueue3.events_received 0\nqueue3.events_spurious 0\n\
             queue3.events_deferred 7\nqueue3.events_held 0\nqueue3.events_expired 0\n\
             queue3.polls_found 0\nqueue3.polls_empty 0\n\
             queue3.batch_1 0\nqueue3.batch_2_3 0\nqueue3.batch_4_7 0\nqueue3.batch_8_15 0\n\
             queue3.batch_16_31 0\nqueue3.batch_32_63 0\nqueue3.batch_64_127 0\n\
             queue3.batch_128_up 0\n\
             queue3.in_flight 1\nqueue3.references 2\nqueue3.granted_pages 4\n",
        );
        assert!(write!(rest, "{table}").is_ok());
        assert_eq!(rest.0, "");
    }
}
