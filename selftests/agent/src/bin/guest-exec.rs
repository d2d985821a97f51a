// SPDX-License-Identifier: GPL-2.0

//! Runs a command in a guest from dom0.

use std::io::{self, Write};
use std::process::ExitCode;

use agent::dom0::{self, Answer, Handle};
use agent::TIMED_OUT;

const HELP: &str = "\
Usage: guest-exec run NAME [SECONDS] COMMAND...
       guest-exec start NAME [SECONDS] COMMAND...
       guest-exec wait HANDLE [SECONDS]

Runs a shell command in a guest: `run` prints its output and has its exit status; `start` prints a
handle for `wait`. The guest kills it after so many seconds (60). Limits are stretched by
$XENVM_SLOW percent.

Exit status: 124 the command took longer, or the guest does not answer; 125 it was not started.
";

/// Exit status of what could not be started.
const NOT_STARTED: u8 = 125;

fn finish(handle: &Handle, seconds: Option<u64>) -> io::Result<u8> {
    match dom0::wait(handle, seconds)? {
        Answer::Ended(output, status) => {
            // A reader that went away has seen what it wanted.
            let _ = io::stdout()
                .write_all(&output)
                .and_then(|()| io::stdout().flush());
            Ok(status)
        }
        Answer::Late(seconds) => {
            eprintln!(
                "# guest-exec {}: no answer within {seconds} seconds",
                handle.text()
            );
            Ok(TIMED_OUT)
        }
        Answer::Dead => {
            eprintln!("# guest-exec {}: the guest is dead", handle.text());
            Ok(TIMED_OUT)
        }
    }
}

/// Starts the command that the words after the verb describe.
fn start(words: &[String]) -> io::Result<Handle> {
    let usage = || io::Error::other("no guest or no command given");
    let (name, rest) = words.split_first().ok_or_else(usage)?;
    let (seconds, command) = match rest.split_first() {
        Some((first, command))
            if !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit()) =>
        {
            (first.parse().map_err(io::Error::other)?, command)
        }
        _ => (60, rest),
    };
    if command.is_empty() {
        return Err(usage());
    }
    dom0::start(name, seconds, &command.join(" "))
}

fn act(words: &[String]) -> io::Result<u8> {
    let (verb, rest) = words
        .split_first()
        .ok_or_else(|| io::Error::other("nothing to do given, see --help"))?;
    match (verb.as_str(), rest) {
        ("--help", _) => print!("{HELP}"),
        ("start", rest) => println!("{}", start(rest)?.text()),
        ("run", rest) => return finish(&start(rest)?, None),
        ("wait", [handle, seconds @ ..]) => {
            let handle = Handle::parse(handle)
                .ok_or_else(|| io::Error::other(format!("{handle} is no handle of a command")))?;
            let seconds = seconds
                .first()
                .map(|text| text.parse())
                .transpose()
                .map_err(io::Error::other)?;
            return finish(&handle, seconds);
        }
        _ => return Err(io::Error::other(format!("{verb} is not known, see --help"))),
    }
    Ok(0)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match act(&words) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("# guest-exec: {error}");
            ExitCode::from(NOT_STARTED)
        }
    }
}
