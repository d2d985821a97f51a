// SPDX-License-Identifier: GPL-2.0

//! Serves a block device to a guest from dom0, and misbehaves on request.

use std::process::ExitCode;

use rogue::blkback::attack::{Attack, When};
use rogue::blkback::backend;
use rogue::blkback::options::{self, Command};
use rogue::{report, sys};

/// Prints all attacks, with tabs between the columns.
fn list_attacks() {
    for attack in Attack::ALL {
        let when = match attack.when() {
            When::Ring => "ring",
            When::At(_) => "states",
            When::Keys(_) => "keys",
            When::Teardown => "teardown",
        };
        let (name, expect) = (attack.name(), attack.expect().word());
        report!("{name}\t{when}\t{expect}\t{}", attack.help());
    }
}

fn main() -> ExitCode {
    let command = match options::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(message) => {
            eprintln!("rogue-blkback: {message}");
            return ExitCode::FAILURE;
        }
    };
    match command {
        Command::Help => report!("{}", options::HELP),
        Command::ListAttacks => list_attacks(),
        Command::Run(options) => {
            sys::catch_stop_signals();
            match backend::run(*options) {
                // CAST: The outcome's numbers are exit statuses.
                Ok(outcome) => return ExitCode::from(outcome as u8),
                Err(error) => {
                    report!("error {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
