// SPDX-License-Identifier: GPL-2.0

//! dom0's part.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rogue::xenstore::{Client, Tx};

use crate::{read_pair, read_pieces, write_pieces};

/// How often is looked for what xenstore does not report.
const LOOK: Duration = Duration::from_millis(300);

/// Longest time that a guest is waited for that is being saved or migrates.
const MOVE_LIMIT: u64 = 120;

/// What an answer may take beyond the time of its command.
const ANSWER_LIMIT: u64 = 15;

/// A limit in seconds, for a machine as slow as this one.
fn stretch(seconds: u64) -> u64 {
    let percent = std::env::var("XENVM_SLOW")
        .ok()
        .and_then(|text| text.parse().ok());
    seconds.saturating_mul(percent.unwrap_or(100)) / 100
}

/// A guest that the tests have made.
struct Guest {
    name: String,
    folder: PathBuf,
}

impl Guest {
    fn new(name: &str) -> Self {
        let guests = std::env::var_os("XENVM_GUESTS").unwrap_or_else(|| "/run/guests".into());
        Self {
            name: name.to_owned(),
            folder: PathBuf::from(guests).join(name),
        }
    }

    /// Whether it is on its way to another domain.
    fn moving(&self) -> bool {
        self.folder.join("moving").exists()
    }

    /// Its home in xenstore, which changes when it moves.
    fn home(&self) -> io::Result<String> {
        let id = fs::read_to_string(self.folder.join("domid")).map_err(|error| {
            io::Error::other(format!("there is no guest {}: {error}", self.name))
        })?;
        Ok(format!("/local/domain/{}", id.trim()))
    }
}

/// A command that was started.
pub struct Handle {
    guest: Guest,
    number: String,
    limit: u64,
}

impl Handle {
    /// Understands what [`Handle::text`] makes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(':');
        let handle = Self {
            guest: Guest::new(words.next()?),
            number: words.next()?.to_owned(),
            limit: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(handle)
    }

    /// Its form for scripts.
    pub fn text(&self) -> String {
        format!("{}:{}:{}", self.guest.name, self.number, self.limit)
    }
}

/// Starts a command, which the guest kills after so many seconds.
///
/// # Errors
///
/// Fails when there is no such guest or xenstore cannot be used.
pub fn start(name: &str, seconds: u64, command: &str) -> io::Result<Handle> {
    let guest = Guest::new(name);
    let end = Instant::now() + Duration::from_secs(stretch(MOVE_LIMIT));
    while guest.moving() && Instant::now() < end {
        thread::sleep(LOOK);
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let handle = Handle {
        // No two of a process start at once, and no other process has this number now.
        number: format!("{}-{}", std::process::id(), now.as_micros()),
        limit: stretch(seconds),
        guest,
    };
    let mut client = Client::connect()?;
    let place = format!("{}/data/cmd/{}", handle.guest.home()?, handle.number);
    let pieces = write_pieces(&mut client, &place, command.as_bytes())?;
    let go = format!("{pieces} {}", handle.limit);
    client.write(Tx::NONE, &format!("{place}/go"), &go)?;
    Ok(handle)
}

/// What came of waiting for a command.
pub enum Answer {
    /// Its output and its exit status.
    Ended(Vec<u8>, u8),
    /// The guest did not answer in so many seconds.
    Late(u64),
    /// The guest is not there any more.
    Dead,
}

/// Waits for a command, for so many seconds or as long as it may take.
///
/// # Errors
///
/// Fails when xenstore cannot be used.
pub fn wait(handle: &Handle, seconds: Option<u64>) -> io::Result<Answer> {
    let limit = match seconds {
        Some(seconds) => stretch(seconds),
        None => handle.limit + stretch(ANSWER_LIMIT),
    };
    let end = Instant::now() + Duration::from_secs(limit);
    let mut client = Client::connect()?;
    let mut watched = String::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Answer::Late(limit));
        }
        if handle.guest.moving() {
            thread::sleep(LOOK.min(left));
            continue;
        }
        let home = handle.guest.home()?;
        let place = format!("{home}/data/out/{}", handle.number);
        let status = format!("{place}/status");
        if watched != home {
            client.watch(&status)?;
            watched.clone_from(&home);
        }
        if let Some((code, pieces)) = read_pair(&mut client, &status)? {
            // CAST: The guest says how many it wrote; one that is not there ends the loop.
            match read_pieces(&mut client, &place, pieces as usize) {
                // A guest that moved in the middle of an answer gives it again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    thread::sleep(LOOK.min(left));
                    continue;
                }
                output => {
                    client.rm(Tx::NONE, &format!("{home}/data/cmd/{}", handle.number))?;
                    client.rm(Tx::NONE, &place)?;
                    // CAST: The agent writes numbers of eight bits.
                    return Ok(Answer::Ended(output?, code as u8));
                }
            }
        }
        let there = client.read_opt(Tx::NONE, &format!("{home}/data/agent-ready"))?;
        if there.is_none() && !handle.guest.moving() && handle.guest.home()? == home {
            return Ok(Answer::Dead);
        }
        client.next_event(LOOK.min(left))?;
    }
}
