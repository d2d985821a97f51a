// SPDX-License-Identifier: GPL-2.0

//! Generated bindings of Xen's headers, on top of the kernel crate's.
//!
//! Types that the kernel crate defines in full are its own, so that pointers go back and forth
//! without casts; everything else is generated from `bindings/bindings_helper.h`. Only the
//! abstractions of this crate may use it, drivers may not: `make style` checks that.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    improper_ctypes,
    dead_code,
    unused_imports
)]

pub use kernel::bindings::*;
use kernel::ffi;
use pin_init::MaybeZeroable;

type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(concat!(env!("XEN_GENERATED"), "/bindings_generated.rs"));
include!(concat!(
    env!("XEN_GENERATED"),
    "/bindings_helpers_generated.rs"
));
