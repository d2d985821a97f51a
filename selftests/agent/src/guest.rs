// SPDX-License-Identifier: GPL-2.0

//! The guest's part.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rogue::sys;
use rogue::xenstore::{Client, Tx};

use crate::{read_pair, read_pieces, write_pieces, PIECE, PIECES_MAX, TIMED_OUT};

/// Commands and their outputs, for the time that they are not answered.
const FOLDER: &str = "/run/agent";

/// A command with this line runs in the RAM root even when the guest has its root on a disk.
const RAM_ROOT: &[u8] = b"# ram-root";

/// Where commands run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    Ram,
    Disk,
}

fn shell(script: &Path, root: Root) -> Command {
    let mut command = match root {
        Root::Ram => Command::new("bash"),
        Root::Disk => {
            let mut command = Command::new("chroot");
            command.args(["/sysroot", "bash"]);
            command
        }
    };
    command.arg(script).process_group(0);
    command
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        // CAST: Exit statuses have eight bits.
        (Some(code), _) => code as u8,
        // CAST: There are 64 signals.
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => u8::MAX,
    }
}

/// Runs a command to its end, or kills it when its time is over.
fn execute(folder: &Path, text: &[u8], limit: Duration, root: Root) -> io::Result<u8> {
    let script = folder.join("command");
    let output = File::create(folder.join("output"))?;
    fs::write(folder.join("command.part"), text)?;
    fs::rename(folder.join("command.part"), &script)?;
    let own_root = text
        .split(|&byte| byte == b'\n')
        .any(|line| line == RAM_ROOT);
    let mut child = shell(&script, if own_root { Root::Ram } else { root })
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()?;
    let group = child.id();
    let (ended, end) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more when the time is over.
        let _ = ended.send(child.wait());
    });
    match end.recv_timeout(limit) {
        Ok(status) => Ok(code(status?)),
        // A command stuck in the kernel does not end, so its end is not waited for.
        Err(_) => {
            sys::kill_group(group)?;
            Ok(TIMED_OUT)
        }
    }
}

/// Writes what a command that has ended printed, and then its exit status.
fn answer(client: &mut Client, number: &str) -> io::Result<()> {
    let folder = Path::new(FOLDER).join(number);
    let status = fs::read_to_string(folder.join("status"))?;
    let mut output = fs::read(folder.join("output"))?;
    let most = PIECE * PIECES_MAX;
    if output.len() > most {
        let note = format!("\n[output cut here: it was {} bytes]\n", output.len());
        output.truncate(most);
        output.extend(note.as_bytes());
    }
    let place = format!("data/out/{number}");
    let pieces = write_pieces(client, &place, &output)?;
    client.write(
        Tx::NONE,
        &format!("{place}/status"),
        &format!("{status} {pieces}"),
    )
}

/// Serves one command.
fn serve(number: &str, root: Root) -> io::Result<()> {
    let mut client = Client::connect()?;
    let place = format!("data/cmd/{number}");
    let Some((pieces, seconds)) = read_pair(&mut client, &format!("{place}/go"))? else {
        return Ok(());
    };
    let folder = Path::new(FOLDER).join(number);
    match fs::create_dir(&folder) {
        // A node may be reported twice.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        other => other?,
    }
    // CAST: As many pieces as were written.
    let text = read_pieces(&mut client, &place, pieces as usize).inspect_err(|_| {
        // Nobody is to wait for a command that is gone.
        let _ = fs::remove_dir_all(&folder);
    })?;
    let status = execute(&folder, &text, Duration::from_secs(seconds), root)?;
    fs::write(folder.join("status.part"), status.to_string())?;
    fs::rename(folder.join("status.part"), folder.join("status"))?;
    answer(&mut client, number)
}

/// Gives the answers again that dom0 has not fetched, in the xenstore of a new domain.
fn answer_again(client: &mut Client) -> io::Result<()> {
    for entry in fs::read_dir(FOLDER)? {
        let path: PathBuf = entry?.path();
        let Some(number) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.join("status").exists() {
            client.write(Tx::NONE, &format!("data/cmd/{number}/again"), "1")?;
            answer(client, number)?;
        }
    }
    Ok(())
}

/// Serves commands for ever.
///
/// # Errors
///
/// Fails when xenstore cannot be used.
pub fn run() -> io::Result<()> {
    let root = match std::env::var("XENVM_ROOT").as_deref() {
        Ok("ram") | Err(_) => Root::Ram,
        Ok(_) => Root::Disk,
    };
    fs::create_dir_all(FOLDER)?;
    let mut client = Client::connect()?;
    client.watch("data/cmd")?;
    loop {
        let Some(path) = client.next_event(Duration::from_secs(3600))? else {
            continue;
        };
        if path == "data/cmd" {
            // Reported when the watch is set, and when it is set again in a new domain.
            answer_again(&mut client)?;
            client.write(Tx::NONE, "data/agent-ready", "1")?;
            continue;
        }
        let Some(rest) = path.strip_prefix("data/cmd/") else {
            continue;
        };
        match rest.split_once('/') {
            Some((number, "go")) => {
                let number = number.to_owned();
                thread::spawn(move || {
                    if let Err(error) = serve(&number, root) {
                        eprintln!("agent: command {number}: {error}");
                    }
                });
            }
            Some(_) => {}
            // Removed by dom0. It need not have been known here.
            None => drop(fs::remove_dir_all(Path::new(FOLDER).join(rest))),
        }
    }
}
