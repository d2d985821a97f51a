// SPDX-License-Identifier: GPL-2.0

//! Asks the network backend of dom0 for what no frontend should.

use std::process::ExitCode;

use rogue::netfront::attack;
use rogue::report;

const HELP: &str = "rogue-netfront --list
rogue-netfront NUMBER NAME...

Makes an interface of dom0's own, vif0.NUMBER, for each of the attacks, connects, carries it out, looks
at what becomes of the interface, and removes it. --list prints one attack a line, in three columns with
tabs between them: its name, what a right backend makes of it (works, closes, refuses or gone), and what
it is.

Each attack has a line of output that begins with ok or wrong; the exit status is 0 if none is wrong.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--list"] {
        for attack in attack::all() {
            report!("{}\t{}\t{}", attack.name, attack.expected, attack.what);
        }
        return ExitCode::SUCCESS;
    }
    let number = words.first().and_then(|word| word.parse().ok());
    let (Some(number), Some(names)) = (number, words.get(1..)) else {
        report!("{HELP}");
        return ExitCode::FAILURE;
    };
    let mut good = !names.is_empty();
    for name in names {
        let Some(attack) = attack::all().find(|attack| attack.name == name) else {
            report!("wrong {name}: no such attack");
            good = false;
            continue;
        };
        match attack::run(attack, number) {
            Ok(()) => report!("ok {name}"),
            Err(error) => {
                report!("wrong {name}: {error}");
                good = false;
            }
        }
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
