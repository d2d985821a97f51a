// SPDX-License-Identifier: GPL-2.0

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xen_pv_rust_host::fuzz::xenstore_values(bytes));
