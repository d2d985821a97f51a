// SPDX-License-Identifier: GPL-2.0

//! Printing.

/// Lets the kernel's printing macros take types that implement [`core::fmt::Display`].
///
/// Types of the pure logic implement that one only, so that they also build on the host.
#[macro_export]
macro_rules! printable {
    ($($type:ty),* $(,)?) => {
        $(
            impl ::kernel::fmt::Display for $type {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    ::core::fmt::Display::fmt(self, f)
                }
            }
        )*
    };
}
