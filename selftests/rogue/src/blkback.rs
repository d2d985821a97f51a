// SPDX-License-Identifier: GPL-2.0

//! A block backend: life cycle in [`backend`], one thread for each ring in [`queue`], the data in
//! [`disk`], and what it can do wrong in [`attack`].

pub mod attack;
pub mod backend;
pub mod disk;
pub mod options;
pub mod pages;
pub mod queue;
pub mod shared;
