// SPDX-License-Identifier: GPL-2.0

//! The functions of the kernel's `xen/memory.rs`, over the atomics of `core`.
//!
//! Each access is a point at which a test can let another thread go on instead, or have the peer write.

use crate::{
    fuzz::page::disturb,
    schedule, //
};
use core::sync::atomic::{
    fence,
    AtomicU32,
    Ordering, //
};

/// Something may happen before an access.
#[inline]
fn access() {
    schedule::access();
    disturb();
}

/// Reads a word that another thread may be writing.
///
/// # Safety
///
/// `ptr` must be aligned and valid for reads, and all accesses to the word must be atomic.
#[inline]
pub unsafe fn load(ptr: *const u32) -> u32 {
    access();
    // SAFETY: By this function's requirements.
    unsafe { AtomicU32::from_ptr(ptr.cast_mut()) }.load(Ordering::Relaxed)
}

/// Writes a word that another thread may be reading.
///
/// # Safety
///
/// `ptr` must be aligned and valid for writes, and all accesses to the word must be atomic.
#[inline]
pub unsafe fn store(ptr: *mut u32, value: u32) {
    access();
    // SAFETY: By this function's requirements.
    unsafe { AtomicU32::from_ptr(ptr) }.store(value, Ordering::Relaxed);
}

/// Copies a value out of shared memory.
///
/// # Safety
///
/// `ptr` must be aligned and valid for reads, and every bit pattern must be a valid `T`.
#[inline]
pub unsafe fn copy_out<T: Copy>(ptr: *const T) -> T {
    access();
    // SAFETY: By this function's requirements.
    unsafe { ptr.read_volatile() }
}

/// Copies a value into shared memory.
///
/// # Safety
///
/// `ptr` must be aligned and valid for writes.
#[inline]
pub unsafe fn copy_in<T: Copy>(ptr: *mut T, value: &T) {
    access();
    // SAFETY: By this function's requirements.
    unsafe { ptr.write_volatile(*value) };
}

/// Full barrier: orders all earlier accesses before all later ones.
#[inline]
pub fn barrier() {
    fence(Ordering::SeqCst);
}

/// Orders earlier reads before later reads.
#[inline]
pub fn read_barrier() {
    fence(Ordering::Acquire);
}

/// Orders earlier writes before later writes.
#[inline]
pub fn write_barrier() {
    fence(Ordering::Release);
}
