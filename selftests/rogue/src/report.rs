// SPDX-License-Identifier: GPL-2.0

//! Progress lines for the script that drives the test.

use std::fmt;
use std::io::Write;

/// Prints one line on standard output and flushes it.
///
/// A reader that went away is no reason to stop: the device has to be taken down all the same, so
/// errors are dropped.
pub fn line(args: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{args}").and_then(|()| out.flush());
}

/// Prints one progress line; see [`line`].
#[macro_export]
macro_rules! report {
    ($($arg:tt)*) => {
        $crate::report::line(format_args!($($arg)*))
    };
}
