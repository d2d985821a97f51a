// SPDX-License-Identifier: GPL-2.0

//! Events of a queue: the backend has sent packets, or has received some.

use crate::poller::{
    Directions,
    Poller, //
};
use kernel::sync::{
    Arc,
    ArcBorrow, //
};
use xen::{
    evtchn::{
        Handler,
        Outcome, //
    },
    net::Napi,
};

/// Receiver of a channel's events. All that there is to do is done by polling, which also says when the
/// next event may come.
pub(crate) struct Events {
    napi: Arc<Napi<Poller>>,
    directions: Directions,
}

impl Events {
    /// For a channel that is for these directions.
    pub(crate) fn new(napi: Arc<Napi<Poller>>, directions: Directions) -> Self {
        Self { napi, directions }
    }
}

impl Handler for Events {
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome {
        this.napi.poller().owe(this.directions);
        this.napi.schedule();
        Outcome::Later
    }
}
