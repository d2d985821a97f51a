// SPDX-License-Identifier: GPL-2.0

//! What is done with the bytes of a fuzzer, or of a file of the corpora in `selftests/fuzz/corpus`.
//!
//! Each target plays a peer that may do anything, hands what it has written to the code of a driver, and looks at
//! what comes out: whether that is within the limits, and whether somebody who was written independently of
//! it makes the same of these bytes. Any bytes are an input; those that are missing are zeros.

mod blkback;
mod blkfront;
mod control;
mod input;
mod netback_rx;
mod netback_tx;
mod netfront_rx;
mod netfront_tx;
pub(crate) mod page;
mod ring;
mod xenstore;
mod xenstore_blk;
mod xenstore_net;

#[cfg(test)]
mod corpora;

/// Something that is fuzzed.
pub struct Target {
    /// The name of its folder in the corpora, and of its program.
    pub name: &'static str,
    /// Panics if the drivers do something wrong with these bytes.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident: $run:path,)*) => {
        $(
            /// See [`Target::run`].
            pub fn $name(bytes: &[u8]) {
                $run(bytes);
            }
        )*

        /// All of them.
        pub const TARGETS: &[Target] = &[$(Target {
            name: stringify!($name),
            run: $name,
        }),*];
    };
}

targets! {
    blkback_native: blkback::native,
    blkback_x86_32: blkback::x86_32,
    blkback_x86_64: blkback::x86_64,
    blkfront_responses: blkfront::responses,
    netback_tx: netback_tx::requests,
    netback_rx: netback_rx::requests,
    netfront_tx: netfront_tx::responses,
    netfront_rx: netfront_rx::responses,
    control_requests: control::requests,
    control_responses: control::responses,
    xenstore_values: xenstore::values,
    xenstore_blk: xenstore_blk::keys,
    xenstore_net: xenstore_net::keys,
}
