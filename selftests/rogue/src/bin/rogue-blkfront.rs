// SPDX-License-Identifier: GPL-2.0

//! Asks the block backend of dom0 for what no frontend should.

use std::process::ExitCode;

use rogue::blkfront::{self, Options};
use rogue::blkif::Abi;
use rogue::report;

const HELP: &str = "rogue-blkfront DEVICE NUMBER ABI SECTORS [SECTOR-SIZE]

DEVICE is a block device's major and minor number in hexadecimal (fd:0), NUMBER that of the virtual
device to be made, ABI x86_64-abi or x86_32-abi, SECTORS the size in sectors of 512 bytes. Data on the
device is lost. The last thing is to break the protocol of the ring.

Each line of output begins with ok or wrong; the exit status is 0 if none is wrong.";

fn options() -> Option<Options> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [device, number, abi, sectors, rest @ ..] = words.as_slice() else {
        return None;
    };
    let sector_size: u64 = rest.first().map_or(Some(512), |text| text.parse().ok())?;
    Some(Options {
        device: device.clone(),
        number: number.parse().ok()?,
        abi: Abi::parse(Some(abi))?,
        sectors: sectors.parse().ok()?,
        sector: sector_size / 512,
        break_ring: true,
    })
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        report!("{HELP}");
        return ExitCode::FAILURE;
    };
    match blkfront::run(&options) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            report!("error {error}");
            ExitCode::FAILURE
        }
    }
}
