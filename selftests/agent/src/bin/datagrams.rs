// SPDX-License-Identifier: GPL-2.0

//! Sends datagrams whose contents follow from their numbers, or receives them and says what has become of each.
//!
//! `datagrams send ADDRESS PORT SIZE NUMBER`, `datagrams receive PORT SIZE NUMBER SECONDS`

use std::{
    env,
    io,
    net::UdpSocket,
    process::ExitCode,
    str::FromStr,
    time::Duration, //
};

/// What a datagram begins with: its number.
const HEADER: usize = 8;

/// The datagram of a number.
fn datagram(number: u64, size: usize) -> Vec<u8> {
    // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    let mut state = number;
    let mut data = number.to_be_bytes().to_vec();
    while data.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        data.extend_from_slice(&(word ^ (word >> 31)).to_be_bytes());
    }
    data.truncate(size.max(HEADER));
    data
}

fn send(address: &str, port: u16, size: usize, number: u64) -> io::Result<()> {
    let socket = UdpSocket::bind(if address.contains(':') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    })?;
    socket.connect((address, port))?;
    for one in 0..number {
        socket.send(&datagram(one, size))?;
    }
    Ok(())
}

/// What was received.
#[derive(Default)]
struct Tally {
    good: u64,
    damaged: u64,
    twice: u64,
    overtaken: u64,
}

/// Receives until all are there, or none has come for so many seconds.
fn receive(port: u16, size: usize, number: u64, seconds: u64) -> io::Result<Tally> {
    let socket = UdpSocket::bind(("::", port))?;
    socket.set_read_timeout(Some(Duration::from_secs(seconds)))?;
    let mut seen = vec![false; usize::try_from(number).unwrap_or(0)];
    let mut tally = Tally::default();
    let mut next = 0;
    let mut buffer = vec![0; 1 << 16];
    while tally.good < number {
        let length = match socket.recv(&mut buffer) {
            Ok(length) => length,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                break
            }
            Err(error) => return Err(error),
        };
        let data = &buffer[..length];
        let header = data.get(..HEADER).and_then(|header| header.try_into().ok());
        let one = header.map_or(u64::MAX, u64::from_be_bytes);
        let known = usize::try_from(one)
            .ok()
            .and_then(|index| seen.get_mut(index));
        match known {
            Some(known) if data == datagram(one, size) => {
                if *known {
                    tally.twice += 1;
                    continue;
                }
                *known = true;
                tally.good += 1;
                tally.overtaken += u64::from(one < next);
                next = next.max(one + 1);
            }
            _ => tally.damaged += 1,
        }
    }
    Ok(tally)
}

fn number<T: FromStr>(word: &str) -> io::Result<T> {
    word.parse()
        .map_err(|_| io::Error::other(format!("{word} is not a number, or too large")))
}

fn run(words: &[&str]) -> io::Result<bool> {
    match words {
        ["send", address, port, size, count] => {
            send(address, number(port)?, number(size)?, number(count)?)?;
            Ok(true)
        }
        ["receive", port, size, count, seconds] => {
            let count = number(count)?;
            let tally = receive(number(port)?, number(size)?, count, number(seconds)?)?;
            println!(
                "{} of {count} received, {} damaged, {} twice, {} overtaken",
                tally.good, tally.damaged, tally.twice, tally.overtaken
            );
            Ok(tally.good == count && tally.damaged == 0 && tally.twice == 0)
        }
        _ => Err(io::Error::other(
            "usage: datagrams send ADDRESS PORT SIZE NUMBER | receive PORT SIZE NUMBER SECONDS",
        )),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("datagrams: {error}");
            ExitCode::from(2)
        }
    }
}
