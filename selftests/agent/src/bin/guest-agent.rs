// SPDX-License-Identifier: GPL-2.0

//! Runs in a guest and serves the commands that dom0 gives it.

use std::process::ExitCode;

fn main() -> ExitCode {
    match agent::guest::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent: {error}");
            ExitCode::FAILURE
        }
    }
}
