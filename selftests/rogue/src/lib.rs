// SPDX-License-Identifier: GPL-2.0

//! Userspace ends of Xen PV devices, for tests.
//!
//! A driver that must survive a hostile peer can only be tested against one. The programs of this
//! crate run in dom0 as ordinary processes, take the part of one end of a PV device, serve it
//! correctly, and from a chosen moment on misbehave in a way chosen by name.
//!
//! The crate has no dependencies. It is built in three layers:
//!
//! * what every device needs: [`sys`] (the few system calls the standard library lacks),
//!   [`xenstore`], [`xenbus`] (states and the toolstack's part), [`gntdev`], [`gntalloc`], [`evtchn`],
//!   [`ring`];
//! * wire formats: [`blkif`], [`netif`]; packets of an interface: [`tap`];
//! * one module for each program: [`blkback`], [`blkfront`], [`netfront`].

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the ioctl numbers and wire layouts here are those of Linux on x86_64");

pub mod blkback;
pub mod blkfront;
pub mod blkif;
pub mod evtchn;
pub mod gntalloc;
pub mod gntdev;
pub mod netfront;
pub mod netif;
pub mod report;
pub mod ring;
pub mod rng;
pub mod sys;
pub mod tap;
pub mod xenbus;
pub mod xenstore;
