// SPDX-License-Identifier: GPL-2.0

//! Has the plugin `selftests/bench/count.c` write down what the machine has executed so far.

/// Executes the marker: a 7-byte NOP with a displacement that no compiler chooses. Without the plugin,
/// nothing happens.
fn main() {
    // SAFETY: This is `nopl 0x706e6578(%rax)`, which accesses no memory and changes no register.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x78, 0x65, 0x6e, 0x70",
            options(nomem, nostack, preserves_flags)
        )
    }
}
