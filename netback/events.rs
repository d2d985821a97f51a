// SPDX-License-Identifier: GPL-2.0

//! Events of a queue: the guest has transmitted packets, or has offered frames.

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
        Channel,
        Handler,
        Outcome, //
    },
    net::Napi, //
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

/// The channels of a queue: one for each ring, or one for both.
#[derive(Clone)]
pub(crate) struct Line {
    /// For what the guest transmits.
    pub(crate) tx: Arc<Channel<Events>>,
    /// For what it receives; [`None`] if the other one is for that, too.
    pub(crate) rx: Option<Arc<Channel<Events>>>,
}

impl Line {
    /// That for what the guest receives.
    pub(crate) fn for_receiving(&self) -> &Channel<Events> {
        self.rx.as_ref().unwrap_or(&self.tx)
    }

    /// Events of these directions have been dealt with.
    pub(crate) fn dealt_with(&self, tx: Option<Outcome>, rx: Option<Outcome>) {
        if let Some(channel) = &self.rx {
            if let Some(outcome) = rx {
                channel.dealt_with(outcome);
            }
            if let Some(outcome) = tx {
                self.tx.dealt_with(outcome);
            }
            return;
        }
        // Each of its events is for both.
        let outcome = match (tx, rx) {
            (Some(Outcome::Handled), _) | (_, Some(Outcome::Handled)) => Outcome::Handled,
            (Some(outcome), _) | (None, Some(outcome)) => outcome,
            (None, None) => return,
        };
        self.tx.dealt_with(outcome);
    }
}
