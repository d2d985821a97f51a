// SPDX-License-Identifier: GPL-2.0

//! What the rings of a device and its life cycle have in common.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::attack::{Attack, Set};
use super::disk::Disk;
use super::options::Options;
use crate::{report, sys};

/// State of all attacks.
#[derive(Default)]
struct Progress {
    claimed: Set,
    done: Set,
    since: Option<Instant>,
}

/// A device as seen by all its threads.
pub struct Shared {
    /// What the user asked for.
    pub options: Options,
    /// The data.
    pub disk: Disk,
    sectors: AtomicU64,
    served: AtomicU64,
    stop: AtomicBool,
    progress: Mutex<Progress>,
}

impl Shared {
    /// Creates the device's common part.
    pub fn new(options: Options, disk: Disk) -> Self {
        Self {
            sectors: AtomicU64::new(options.sectors),
            options,
            disk,
            served: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            progress: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the disk in sectors of the protocol.
    pub fn sectors(&self) -> u64 {
        self.sectors.load(Ordering::Acquire)
    }

    /// Changes the size; what is cut off can no longer be reached.
    pub fn resize(&self, sectors: u64) {
        self.disk.resize(sectors);
        self.sectors.store(sectors, Ordering::Release);
    }

    /// Returns the number of requests answered.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    /// Counts a request.
    pub fn count_served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether enough requests were served to begin.
    pub fn is_active(&self) -> bool {
        self.served() >= self.options.after
    }

    /// Whether an attack is to act on what happens now.
    pub fn wants(&self, attack: Attack) -> bool {
        self.options.attacks.contains(attack) && self.is_active()
    }

    /// Like [`Self::wants`], but true for one caller only, who has to carry it out.
    pub fn claim(&self, attack: Attack) -> bool {
        if !self.wants(attack) {
            return false;
        }
        let mut progress = self.progress();
        let free = !progress.claimed.contains(attack);
        progress.claimed.insert(attack);
        free
    }

    /// Notes, and prints the first time, that an attack took place.
    pub fn done(&self, attack: Attack) {
        let mut progress = self.progress();
        if !progress.done.contains(attack) {
            progress.done.insert(attack);
            progress.since.get_or_insert_with(Instant::now);
            report!("attack {} done", attack.name());
        }
    }

    /// Whether an attack took place.
    pub fn is_done(&self, attack: Attack) -> bool {
        self.progress().done.contains(attack)
    }

    /// Returns how long ago the first attack took place.
    pub fn since_first_attack(&self) -> Option<Duration> {
        self.progress().since.map(|since| since.elapsed())
    }

    /// Returns the attacks asked for that did not take place.
    pub fn missing(&self) -> Vec<Attack> {
        let done = self.progress().done;
        let asked = self.options.attacks.iter();
        asked.filter(|attack| !done.contains(*attack)).collect()
    }

    /// Tells all rings whether to stop.
    pub fn set_stop(&self, stop: bool) {
        self.stop.store(stop, Ordering::Release);
    }

    /// Whether the rings are to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits for `time`, or until the user wants the program to finish.
    pub fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while !sys::stop_requested() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::{parse, Command};
    use super::*;

    #[test]
    fn attacks_begin_after_n_requests_and_are_claimed_once() {
        let args = "--domid 1 --vdev xvda --attack id-free,hang --after 2";
        let Ok(Command::Run(options)) = parse(args.split(' ').map(String::from)) else {
            panic!("not understood");
        };
        let shared = Shared::new(*options, Disk::memory(8));
        assert!(!shared.claim(Attack::IdFree));
        shared.count_served();
        shared.count_served();
        assert!(shared.claim(Attack::IdFree) && !shared.claim(Attack::IdFree));
        assert!(!shared.wants(Attack::Reverse));
        shared.done(Attack::IdFree);
        assert_eq!(shared.missing(), [Attack::Hang]);
    }
}
