// SPDX-License-Identifier: GPL-2.0

//! The disk of a device while there is one.

use crate::{
    disk::{
        self,
        Offer, //
    },
    fault::Failure,
    features::DIRECT_SEGMENTS,
    queues::Queues,
    Blkfront, //
};
use core::{
    ffi::CStr,
    fmt, //
};
use kernel::{
    prelude::*,
    str::CString,
    sync::Arc, //
};
use xen::{
    blk::Disk,
    debugfs, moderation, sysfs,
    xenbus::{
        DeviceRef,
        State, //
    },
};

/// How many lines in the log, and errors in xenstore, a connected backend is worth in a minute: it can
/// cause them as often as it likes, but is not to fill the log.
const MOST_LINES: u32 = 10;
const MINUTE: u64 = 60_000_000_000;

/// The queues' numbers, as a file.
struct Statistics(Arc<Queues>);

impl debugfs::Show for Statistics {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for index in 0..self.0.count() {
            if let Some(table) = self.0.table(index) {
                fmt::Display::fmt(&table, f)?;
            }
        }
        Ok(())
    }
}

/// A disk, which is there for the guest.
pub(crate) struct Live {
    disk: Disk<Blkfront>,
    /// What the backend has last said of it.
    offer: Offer,
    /// The toolstack has been told that the disk is in use.
    refused: bool,
    /// How many lines it has been worth since when, in nanoseconds since the machine was started.
    lines: u32,
    lines_since: u64,
    _statistics: Option<debugfs::File<Statistics>>,
    _moderation: Option<sysfs::Files<Queues>>,
}

impl Live {
    /// The backend has connected: makes the disk and opens its queues.
    pub(crate) fn new(queues: &Arc<Queues>, otherend: &CStr) -> Result<Self, Failure> {
        let offer = Offer::read(otherend)?;
        let disk = disk::make(&offer, queues)?;
        queues.open(offer.terms())?;
        Ok(Self {
            disk,
            offer,
            refused: false,
            lines: 0,
            lines_since: xen::thread::now(),
            _statistics: None,
            _moderation: None,
        })
    }

    /// Shows the disk to its users.
    pub(crate) fn add(&mut self, dev: &DeviceRef, queues: &Arc<Queues>) -> Result<(), Failure> {
        self.tell(queues);
        // The disk works without its statistics.
        self._statistics = CString::try_from_fmt(fmt!("{}", queues.number()))
            .and_then(|name| debugfs::file(&name, Statistics(queues.clone())))
            .ok();
        // ... and with what is set already.
        self._moderation = moderation::files(dev, queues.clone()).ok();
        self.disk
            .add(dev)
            .map_err(|errno| Failure::Errno("adding the disk", errno))
    }

    /// The guest has been restored: requests wait in the block layer until another backend has
    /// connected.
    pub(crate) fn wait(&mut self) {
        self.disk.pause();
    }

    /// Whether requests wait.
    pub(crate) fn is_waiting(&self) -> bool {
        self.disk.is_paused()
    }

    /// The backend is gone for good: what is not yet begun fails at once.
    pub(crate) fn lose(&mut self) {
        self.disk.go_on();
        self.disk.mark_dead();
    }

    /// Another backend has connected: has the disk go on with it.
    pub(crate) fn reconnect(
        &mut self,
        dev: &DeviceRef,
        queues: &Queues,
        otherend: &CStr,
    ) -> Result<(), Failure> {
        let old = self.offer.geometry.sector_size;
        let offer = Offer::read(otherend)?;
        let new = offer.geometry.sector_size;
        if new > old && self.disk.openers() > 0 {
            // Its users would read and write parts of sectors.
            return Err(Failure::SectorsGrown { old, new });
        }
        queues.open(offer.terms())?;
        let was_read_only = self.offer.info.is_read_only();
        self.offer = offer;
        dev.switch_state(State::Connected);
        self.tell(queues);
        self.disk.go_on();
        // This waits for the requests that were handed back. They, and those begun until then, go by
        // the old limits: the rings cut them into parts that suit the backend.
        self.disk
            .update_limits(self.offer.limits())
            .map_err(|errno| Failure::Errno("changing the disk's limits", errno))?;
        let is_read_only = self.offer.info.is_read_only();
        if is_read_only != was_read_only {
            self.disk.set_read_only(is_read_only);
        }
        self.set_capacity(dev, self.offer.geometry.sectors);
        Ok(())
    }

    fn tell(&self, queues: &Queues) {
        let terms = self.offer.terms();
        let enabled = |is: bool| if is { "enabled" } else { "disabled" };
        pr_info!(
            "{}: {} persistent grants: {}; indirect descriptors: {}; bounce buffer: {};\n",
            queues.number(),
            self.offer.flush.name(),
            enabled(terms.persistent && queues.is_persistent()),
            enabled(terms.segments > DIRECT_SEGMENTS),
            enabled(queues.is_untrusted()),
        );
    }

    /// The backend has written its state once more: the disk may have another size. Or a ring has
    /// found that the backend cannot do what it offered.
    pub(crate) fn refresh(&mut self, dev: &DeviceRef, queues: &Queues, otherend: &CStr) {
        self.refused = false;
        self.take_back(dev, queues);
        match disk::read_sectors(otherend) {
            Ok(sectors) => self.set_capacity(dev, sectors),
            // The disk is as good as it was.
            Err(failure) if self.may_log() => dev.error(failure.errno(), fmt!("{failure}")),
            Err(_) => {}
        }
    }

    /// Whether one more line may be written for something that the backend has done.
    fn may_log(&mut self) -> bool {
        let now = xen::thread::now();
        if now.saturating_sub(self.lines_since) > MINUTE {
            self.lines = 0;
            self.lines_since = now;
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= MOST_LINES
    }

    /// Has the disk's users know what the backend cannot do after all.
    fn take_back(&mut self, dev: &DeviceRef, queues: &Queues) {
        let offered = self.offer.terms();
        let terms = queues.without_lost(offered);
        if terms == offered {
            return;
        }
        let discard = terms.discard.is_none() && offered.discard.is_some();
        for (name, is_lost) in [
            ("flush", terms.flush != offered.flush),
            ("discard", discard),
            ("secure discard", terms.lost_secure(offered)),
        ] {
            if is_lost {
                pr_warn!(
                    "{}: {name} op failed: the backend does not support it after all, going on without\n",
                    queues.number()
                );
            }
        }
        self.offer.flush = terms.flush;
        self.offer.discard = terms.discard;
        if let Err(errno) = self.disk.update_limits(self.offer.limits()) {
            dev.error(errno, fmt!("changing the disk's limits"));
        }
    }

    fn set_capacity(&mut self, dev: &DeviceRef, sectors: u64) {
        if sectors != self.disk.capacity() {
            if self.may_log() {
                dev_info!(dev.as_ref(), "Setting capacity to {sectors}\n");
            }
            self.disk.set_capacity(sectors);
        }
    }

    /// The toolstack wants the disk back. Whether it is in use; the toolstack is told, once.
    pub(crate) fn refuses_to_close(&mut self, dev: &DeviceRef) -> bool {
        if self.disk.openers() == 0 {
            return false;
        }
        if !core::mem::replace(&mut self.refused, true) && self.may_log() {
            dev.error(EBUSY, fmt!("Device in use; refusing to close"));
        }
        true
    }
}
