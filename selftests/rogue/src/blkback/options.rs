// SPDX-License-Identifier: GPL-2.0

//! The command line of the block backend.

use std::path::PathBuf;
use std::time::Duration;

use super::attack::{Attack, Set, Step, When};
use crate::blkif::SECTOR;
use crate::xenbus::Overrides;

/// Text for `--help`.
pub const HELP: &str = "\
Usage: rogue-blkback --domid D --vdev NAME|NUMBER [OPTION]...

Serves a block device to domain D from this process, and misbehaves on request.

Device:
  --domid D            domain that gets the device
  --vdev V             xvdb, sda1, hdc or a number such as 51728
  --size N[K|M|G]      size of the disk (64M); it is in memory and starts as zeroes
  --file PATH          keep the data in a file instead
  --sector-size N      logical sector size (512)
  --read-only          offer a read-only disk
  --delay MS           wait before each answer
  --map                map granted pages, rather than let the hypervisor copy them (persistent
                       grants are always mapped)
Features:
  --flush 0|1          flushes (1)           --barrier 0|1   barriers (0)
  --discard 0|1        discards (0)          --persistent    persistent grants
  --indirect N         indirect segments (0: none offered)
  --ring-order N       order of pages in a ring (0: none offered)
  --queues N           rings (1: none offered)
Store:
  --key NAME=VALUE     write VALUE for a key of the backend, or of the frontend as front:NAME
  --omit NAME          leave a key out
Misbehaviour:
  --attack NAME[,...]  see --list-attacks
  --after N            serve N requests first (0)
  --at STEP            created, initwait, initialised, connected, serving or closing, for attacks on
                       the life cycle
  --hold S             seconds of attacks that hold something (5)
  --seed N             seed of all random choices (1)
Run:
  --once               detach when the frontend has closed
  --cleanup            only remove the directories of such a device
  --timeout S          limit for the frontend to connect (60) and, up to 10 s, to close
  --lifetime S         detach after so many seconds (3600)
  --log                print each request
  --list-attacks       name, moment, what a right frontend does, and what it is, one a line

SIGTERM and SIGINT detach the device. Progress is printed line by line on standard output.

Exit status: 0 all that was asked for happened; 1 error; 2 an attack did not take place;
3 the frontend did not close in time; 4 the frontend did not connect in time.
";

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Domain of the frontend.
    pub domid: u16,
    /// Number of the device.
    pub vdev: u32,
    /// Size in sectors of the protocol.
    pub sectors: u64,
    /// File with the data, or none for memory.
    pub file: Option<PathBuf>,
    /// Logical sector size in bytes.
    pub sector_size: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Pause before each answer.
    pub delay: Duration,
    /// Whether granted pages are mapped rather than copied.
    pub map: bool,
    /// Whether flushes are offered.
    pub flush: bool,
    /// Whether barriers are offered.
    pub barrier: bool,
    /// Whether discards are offered.
    pub discard: bool,
    /// Whether persistent grants are offered.
    pub persistent: bool,
    /// Segments of indirect requests, or 0.
    pub indirect: u32,
    /// Order of ring pages, or 0.
    pub ring_order: u32,
    /// Number of rings.
    pub queues: u32,
    /// Keys written otherwise, or not at all.
    pub overrides: Overrides,
    /// Misbehaviours.
    pub attacks: Set,
    /// Requests to serve before.
    pub after: u64,
    /// When attacks on the life cycle act, if not at their usual step.
    pub at: Option<Step>,
    /// How long some attacks last.
    pub hold: Duration,
    /// Seed of all random choices.
    pub seed: u64,
    /// Whether to detach when the frontend closes.
    pub once: bool,
    /// Whether only to remove directories.
    pub cleanup: bool,
    /// Limit for the frontend to connect.
    pub timeout: Duration,
    /// Limit for the whole run.
    pub lifetime: Duration,
    /// Whether to print requests.
    pub log: bool,
}

/// What to do.
#[derive(Debug)]
pub enum Command {
    /// Run a device.
    Run(Box<Options>),
    /// Print [`HELP`].
    Help,
    /// Print the attacks.
    ListAttacks,
}

/// Translates the name of a disk to its number.
fn parse_vdev(name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let (prefix, rest) = name.split_at_checked(2 + usize::from(name.starts_with("xvd")))?;
    let letters = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let partition = match &rest[letters.len()..] {
        "" => 0,
        digits => digits.parse::<u32>().ok()?,
    };
    if letters.is_empty() || letters.len() > 3 {
        return None;
    }
    // a to z, then aa and so on, from 0.
    let disk = letters.bytes().try_fold(0u32, |sum, letter| {
        letter
            .is_ascii_lowercase()
            .then(|| sum * 26 + u32::from(letter - b'a') + 1)
    })? - 1;
    match prefix {
        "xvd" if disk < 16 && partition < 16 => Some((202 << 8) | (disk << 4) | partition),
        "xvd" if partition < 256 => Some((1 << 28) | (disk << 8) | partition),
        "sd" if disk < 16 && partition < 16 => Some((8 << 8) | (disk << 4) | partition),
        "hd" if disk < 2 && partition < 64 => Some((3 << 8) | (disk << 6) | partition),
        "hd" if disk < 4 && partition < 64 => Some((22 << 8) | ((disk - 2) << 6) | partition),
        _ => None,
    }
}

/// Reads a size with an optional unit.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()? {
        'K' | 'k' => (&text[..text.len() - 1], 10),
        'M' | 'm' => (&text[..text.len() - 1], 20),
        'G' | 'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Reads a flag of 0 or 1.
fn parse_flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_secs)
}

/// Reads the command line, without the name of the program.
///
/// # Errors
///
/// Returns the sentence to print.
pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut options = Options {
        domid: 0,
        vdev: 0,
        sectors: (64 << 20) / SECTOR,
        file: None,
        sector_size: 512,
        read_only: false,
        delay: Duration::ZERO,
        map: false,
        flush: true,
        barrier: false,
        discard: false,
        persistent: false,
        indirect: 0,
        ring_order: 0,
        queues: 1,
        overrides: Overrides::default(),
        attacks: Set::default(),
        after: 0,
        at: None,
        hold: Duration::from_secs(5),
        seed: 1,
        once: false,
        cleanup: false,
        timeout: Duration::from_secs(60),
        lifetime: Duration::from_secs(3600),
        log: false,
    };
    let mut domid = None;
    let mut vdev = None;

    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--list-attacks" => return Ok(Command::ListAttacks),
            "--read-only" => options.read_only = true,
            "--map" => options.map = true,
            "--persistent" => options.persistent = true,
            "--once" => options.once = true,
            "--cleanup" => options.cleanup = true,
            "--log" => options.log = true,
            _ => {
                let value = args.next().ok_or(format!("{arg}: unknown, or no value"))?;
                let known = match arg.as_str() {
                    "--domid" => value.parse().ok().map(|value| domid = Some(value)),
                    "--vdev" => parse_vdev(&value).map(|value| vdev = Some(value)),
                    "--at" => Step::parse(&value).map(|value| options.at = Some(value)),
                    _ => set(&mut options, &arg, &value),
                };
                known.ok_or(format!("{arg} {value}: not understood"))?;
            }
        }
    }

    options.domid = domid.ok_or("--domid is missing")?;
    options.vdev = vdev.ok_or("--vdev is missing")?;
    if options.at == Some(Step::Serving) && options.after == 0 {
        // So that 'serving' means that something was served.
        options.after = 1;
    }
    Ok(Command::Run(Box::new(options)))
}

/// Sets an option that has a value.
fn set(options: &mut Options, name: &str, value: &str) -> Option<()> {
    match name {
        "--size" => options.sectors = parse_size(value)? / SECTOR,
        "--file" => options.file = Some(value.into()),
        "--sector-size" => options.sector_size = value.parse().ok()?,
        "--delay" => options.delay = Duration::from_millis(value.parse().ok()?),
        "--flush" => options.flush = parse_flag(value)?,
        "--barrier" => options.barrier = parse_flag(value)?,
        "--discard" => options.discard = parse_flag(value)?,
        "--indirect" => options.indirect = value.parse().ok()?,
        "--ring-order" => options.ring_order = value.parse().ok().filter(|order| *order <= 4)?,
        "--queues" => options.queues = value.parse().ok().filter(|queues| *queues > 0)?,
        "--after" => options.after = value.parse().ok()?,
        "--hold" => options.hold = seconds(value)?,
        "--seed" => options.seed = value.parse().ok()?,
        "--timeout" => options.timeout = seconds(value)?,
        "--lifetime" => options.lifetime = seconds(value)?,
        "--key" => {
            let (key, value) = value.split_once('=')?;
            options.overrides.set(key, value);
        }
        "--omit" => options.overrides.omit(value),
        "--attack" => {
            for name in value.split(',') {
                let attack = Attack::parse(name)?;
                options.attacks.insert(attack);
                if let When::Keys(keys) = attack.when() {
                    for (key, value) in keys {
                        options.overrides.set(key, value);
                    }
                }
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &str) -> Result<Box<Options>, String> {
        match parse(args.split_whitespace().map(String::from))? {
            Command::Run(options) => Ok(options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn names_of_disks() {
        let cases = [
            ("xvda", 51712),
            ("xvdb", 51728),
            ("xvdb1", 51729),
            ("xvdp", 51952),
            ("xvdq", (1 << 28) | (16 << 8)),
            ("xvdaa", (1 << 28) | (26 << 8)),
            ("sda1", 2049),
            ("hda", 768),
            ("hdc", 5632),
            ("hdd", 5696),
            ("51728", 51728),
        ];
        for (name, number) in cases {
            assert_eq!(parse_vdev(name), Some(number), "{name}");
        }
        for junk in ["", "x", "xvd", "xvd1", "xvdA", "vda", "xvdé", "sdz"] {
            assert_eq!(parse_vdev(junk), None, "{junk}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("64M"), Some(64 << 20));
        assert_eq!(parse_size("99999999999G"), None);
        assert_eq!(parse_size(""), None);
    }

    #[test]
    fn a_full_command_line() {
        let options = run(
            "--domid 3 --vdev xvdb --size 8M --sector-size 4096 --attack id-free,sectors-zero \
             --after 10 --key info=4 --omit online --ring-order 2 --queues 4 --persistent \
             --flush 0 --indirect 64 --seed 9 --once --at closing --timeout 7",
        )
        .unwrap();
        assert_eq!((options.domid, options.vdev), (3, 51728));
        assert_eq!(options.sectors, 16384);
        assert!(options.attacks.contains(Attack::IdFree));
        assert!(options.attacks.contains(Attack::SectorsZero));
        assert_eq!(options.at, Some(Step::Closing));
        assert!(options.persistent && options.once && !options.flush);
        assert_eq!((options.ring_order, options.queues), (2, 4));
        assert_eq!(options.timeout, Duration::from_secs(7));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(run("--vdev xvdb").unwrap_err().contains("--domid"));
        assert!(run("--domid 1 --vdev").unwrap_err().contains("--vdev"));
        for junk in [
            "--attack nothing",
            "--attack hang,",
            "--flush 2",
            "--key novalue",
            "--ring-order 5",
            "--queues 0",
            "--frobnicate 1",
            "--at noon",
        ] {
            let args = format!("--domid 1 --vdev xvda {junk}");
            assert!(run(&args).is_err(), "{junk}");
        }
        assert!(matches!(
            parse(["--list-attacks".into()]),
            Ok(Command::ListAttacks)
        ));
    }
}
