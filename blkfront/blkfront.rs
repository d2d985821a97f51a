// SPDX-License-Identifier: GPL-2.0
//! x
use kernel::prelude::*;
struct M;
impl kernel::Module for M { fn init(_m: &'static ThisModule) -> Result<Self> { Ok(M) } }
module! { type: M, name: "xen_blkfront", license: "GPL", }
