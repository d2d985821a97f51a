// SPDX-License-Identifier: GPL-2.0

//! Access to memory that another domain reads and writes at the same time.
//!
//! Nothing in such memory may be reached through a reference: the other domain can change it at
//! any moment. Single words are read and written as atomics, whole slots are copied once, and the
//! order of accesses is made by the barriers below. They are real barriers on a uniprocessor kernel
//! too, because the other domain runs on another processor.
//!
//! The ring code uses nothing else to touch shared memory, so that the host's unit tests can put
//! their own module of this name in its place.
//!
//! C header: [`arch/x86/include/asm/barrier.h`](srctree/arch/x86/include/asm/barrier.h)

use crate::bindings;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// Reads a word that the other domain may be writing.
///
/// # Safety
///
/// `ptr` must be aligned and valid for reads, and everything in this kernel that writes the word
/// must do so with [`store`].
#[inline]
pub unsafe fn load(ptr: *const u32) -> u32 {
    // SAFETY: The pointer is valid and aligned by this function's requirements, and every other
    // access is atomic. The other domain's accesses are outside of this machine's memory model
    // but are single words as well.
    unsafe { Atomic::from_ptr(ptr.cast_mut()) }.load(Relaxed)
}

/// Writes a word that the other domain may be reading.
///
/// # Safety
///
/// `ptr` must be aligned and valid for writes, and everything in this kernel that reads the word
/// must do so with [`load`].
#[inline]
pub unsafe fn store(ptr: *mut u32, value: u32) {
    // SAFETY: As in `load`.
    unsafe { Atomic::from_ptr(ptr) }.store(value, Relaxed);
}

/// Copies a value out of shared memory, reading every byte once.
///
/// The compiler can neither repeat the read nor read the shared memory again later, so what was
/// checked in the copy stays checked.
///
/// # Safety
///
/// `ptr` must be aligned and valid for reads, and every bit pattern must be a valid `T`.
#[inline]
pub unsafe fn copy_out<T: Copy>(ptr: *const T) -> T {
    // SAFETY: By this function's requirements. A volatile read is done exactly once.
    unsafe { ptr.read_volatile() }
}

/// Copies a value into shared memory, writing every byte once.
///
/// # Safety
///
/// `ptr` must be aligned and valid for writes, and `T` must have no padding (whose bytes would be
/// whatever this kernel had on its stack).
#[inline]
pub unsafe fn copy_in<T: Copy>(ptr: *mut T, value: &T) {
    // SAFETY: By this function's requirements.
    unsafe { ptr.write_volatile(*value) };
}

/// Full barrier: orders all earlier accesses before all later ones.
#[inline]
pub fn barrier() {
    // SAFETY: A barrier has no requirement.
    unsafe { bindings::virt_mb() };
}

/// Orders earlier reads before later reads.
#[inline]
pub fn read_barrier() {
    // SAFETY: A barrier has no requirement.
    unsafe { bindings::virt_rmb() };
}

/// Orders earlier writes before later writes.
#[inline]
pub fn write_barrier() {
    // SAFETY: A barrier has no requirement.
    unsafe { bindings::virt_wmb() };
}
