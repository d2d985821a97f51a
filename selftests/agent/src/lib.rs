// SPDX-License-Identifier: GPL-2.0

//! Runs commands in a guest for dom0.
//!
//! They come and go through xenstore, so neither a disk nor the network nor the console is involved.
//! Below the guest's home in xenstore:
//!
//! ```text
//! data/agent-ready      the agent listens
//! data/cmd/N/0, 1, ...  dom0 writes the command, in pieces
//! data/cmd/N/go         "PIECES SECONDS": the command is complete and may take so long
//! data/out/N/0, 1, ...  the agent writes the output, in pieces
//! data/out/N/status     "EXIT-STATUS PIECES": the command has ended, or was killed (124)
//! ```
//!
//! dom0 removes `data/cmd/N` when it has the answer. Until then the agent keeps it, because a guest
//! that is restored from a file or has migrated is a new domain with an empty xenstore.
//!
//! These are programs and not scripts because each program that a script starts takes a tenth of a
//! second on an emulated CPU, and a test runs many commands.

use std::io;

use rogue::xenstore::{Client, Tx};

pub mod dom0;
pub mod guest;

/// Exit status of a command that took too long, or whose guest does not answer, as `timeout` has it.
pub const TIMED_OUT: u8 = 124;

/// Bytes in one node. The daemon allows guests 2 KiB.
const PIECE: usize = 2000;

/// Pieces of one output. The daemon allows a guest about 1000 nodes.
const PIECES_MAX: usize = 400;

fn write_pieces(client: &mut Client, folder: &str, data: &[u8]) -> io::Result<usize> {
    let mut number = 0;
    for piece in data.chunks(PIECE) {
        client.write_bytes(Tx::NONE, &format!("{folder}/{number}"), piece)?;
        number += 1;
    }
    Ok(number)
}

fn read_pieces(client: &mut Client, folder: &str, number: usize) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    for index in 0..number {
        data.extend(client.read_bytes(Tx::NONE, &format!("{folder}/{index}"))?);
    }
    Ok(data)
}

/// Reads a node of two numbers.
fn read_pair(client: &mut Client, path: &str) -> io::Result<Option<(u64, u64)>> {
    Ok(client.read_opt(Tx::NONE, path)?.and_then(|text| {
        let (first, second) = text.split_once(' ')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    }))
}
