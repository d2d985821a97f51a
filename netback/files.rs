// SPDX-License-Identifier: GPL-2.0

//! What a device shows in debugfs, in `xen-netback/<interface>/`.

use crate::{
    interface::Interface,
    queue::{
        Portrait,
        Queue, //
    },
    rules::Rules, //
};
use core::fmt;
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    debugfs::{
        Dir,
        File,
        Show, //
    },
    io::netif::control::{
        HashAlgorithm,
        HashKind, //
    },
    net::Rtnl,
    ring::Snapshot, //
};

/// The files of a device that is connected. Dropping them removes them.
pub(crate) struct Files {
    _queues: KVec<File<QueueFile>>,
    _control: Option<File<ControlFile>>,
}

impl Files {
    /// Makes a file for each queue in use, and one for what has been set by the control ring if there is
    /// `has_control`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. That debugfs does not work is none.
    pub(crate) fn new(
        interface: &Interface,
        rules: &Arc<Rules>,
        has_control: bool,
    ) -> Result<Self> {
        let name = CString::try_from(interface.netdev().name(&Rtnl::lock()))?;
        let dir = Dir::new(&name)?;
        let mut queues = KVec::new();
        for (index, queue) in (0..).zip(interface.used_queues()) {
            let name = CString::try_from_fmt(fmt!("io_ring_q{index}"))?;
            let file = QueueFile {
                index,
                queue: queue.clone(),
                rules: rules.clone(),
            };
            queues.push(dir.file(&name, true, file)?, GFP_KERNEL)?;
        }
        let control = if has_control {
            Some(dir.file(c"ctrl", false, ControlFile(rules.clone()))?)
        } else {
            None
        };
        Ok(Self {
            _queues: queues,
            _control: control,
        })
    }
}

/// The rings of a queue.
struct QueueFile {
    index: u32,
    queue: Arc<Queue>,
    rules: Arc<Rules>,
}

/// Indices, and how far they are from the last response that is published.
fn show_indices(f: &mut fmt::Formatter<'_>, indices: &Snapshot) -> fmt::Result {
    // CAST: Differences of indices have a sign.
    let from_base = |index: xen::ring::Index| index.since(indices.rsp_prod) as i32;
    let pair = |index| (xen::ring::Index::raw(index), from_base(index));
    let (req_prod, consumed) = (pair(indices.req_prod), pair(indices.consumed));
    let (req_event, filled) = (pair(indices.req_event), pair(indices.filled));
    let rsp_event = pair(indices.rsp_event);
    writeln!(
        f,
        "req prod {} ({}) cons {} ({}) event {} ({})",
        req_prod.0, req_prod.1, consumed.0, consumed.1, req_event.0, req_event.1
    )?;
    writeln!(
        f,
        "rsp prod {} (base) pvt {} ({}) event {} ({})",
        indices.rsp_prod.raw(),
        filled.0,
        filled.1,
        rsp_event.0,
        rsp_event.1
    )
}

impl Show for QueueFile {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(portrait) = self.queue.portrait() else {
            return Ok(());
        };
        let Portrait {
            tx: (tx, unanswered),
            rx,
            stalled,
            waiting: (packets, bytes),
            stopped,
        } = portrait;
        writeln!(f, "Queue {}", self.index)?;
        writeln!(f, "TX: nr_ents {}", xen::io::netif::TX_SLOTS)?;
        show_indices(f, &tx)?;
        writeln!(f, "nr_pending_reqs {unanswered}")?;
        writeln!(f)?;
        writeln!(f, "RX: nr_ents {}", xen::io::netif::RX_SLOTS)?;
        show_indices(f, &rx)?;
        writeln!(f, "{}", if stalled { "stalled" } else { "ready" })?;
        writeln!(f)?;
        for (name, meter) in [
            ("transmit", &self.rules.from_guest),
            ("receive", &self.rules.to_guest),
        ] {
            match meter.bytes_left() {
                Some(bytes) => writeln!(f, "Credit to {name}: remaining {bytes}")?,
                None => writeln!(f, "Credit to {name}: unlimited")?,
            }
        }
        writeln!(f)?;
        writeln!(
            f,
            "Rx internal queue: len {bytes} max {} pkts {packets} {}",
            crate::backlog::MOST_BYTES,
            if stopped { "stopped" } else { "running" }
        )
    }

    fn command(&self, text: &[u8]) -> Result {
        if text.starts_with(b"kick") {
            self.queue.kick();
            return Ok(());
        }
        pr_warn!(
            "Unknown command to io_ring_q{}. Available: kick\n",
            self.index
        );
        Err(EINVAL)
    }
}

/// What the frontend has set by its control ring.
struct ControlFile(Arc<Rules>);

impl Show for ControlFile {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The lock cannot be held while somebody is written to.
        let hashing = self.0.with_hashing(|hashing| hashing.clone());
        let algorithm = match hashing.algorithm() {
            HashAlgorithm::None => "NONE",
            HashAlgorithm::Toeplitz => "TOEPLITZ",
        };
        writeln!(f, "Hash Algorithm: {algorithm}")?;
        if hashing.algorithm() == HashAlgorithm::None {
            return Ok(());
        }
        if hashing.flags() != 0 {
            writeln!(f, "\nHash Flags:")?;
            for kind in HashKind::ALL {
                let name = match kind {
                    HashKind::Ipv4 => "IPv4",
                    HashKind::Ipv4Tcp => "IPv4 + TCP",
                    HashKind::Ipv6 => "IPv6",
                    HashKind::Ipv6Tcp => "IPv6 + TCP",
                };
                if hashing.flags() & kind.flag() != 0 {
                    writeln!(f, "- {name}")?;
                }
            }
        }
        writeln!(f, "\nHash Key:")?;
        for (row, bytes) in hashing.key().chunks(8).enumerate() {
            write!(f, "[{:2} - {:2}]: ", row * 8, row * 8 + bytes.len() - 1)?;
            for byte in bytes {
                write!(f, "{byte:02x} ")?;
            }
            writeln!(f)?;
        }
        if !hashing.mapping().is_empty() {
            writeln!(f, "\nHash Mapping:")?;
            for (row, entries) in hashing.mapping().chunks(8).enumerate() {
                write!(f, "[{:4} - {:4}]: ", row * 8, row * 8 + entries.len() - 1)?;
                for entry in entries {
                    write!(f, "{entry:4} ")?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
