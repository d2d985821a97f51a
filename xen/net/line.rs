// SPDX-License-Identifier: GPL-2.0

//! The event channels of a queue, whose events are dealt with by polling.

use super::{
    owed::{
        Account,
        Settled, //
    },
    Directions,
    Napi,
    Poll, //
};
use crate::evtchn::{
    Channel,
    Handler,
    Outcome,
    Place, //
};
use core::fmt;
use kernel::{
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc,
        ArcBorrow, //
    },
};

/// Events of a queue that have come and were not dealt with. Any context.
pub struct Owed(Atomic<u32>);

impl Default for Owed {
    /// None has come.
    fn default() -> Self {
        Self(Atomic::new(Account::default().word()))
    }
}

impl Owed {
    fn change(&self, to: impl Fn(Account) -> Account) -> Account {
        let mut old = self.0.load(Relaxed);
        loop {
            let account = Account::from_word(old);
            match self.0.cmpxchg(old, to(account).word(), Full) {
                Ok(_) => return account,
                Err(seen) => old = seen,
            }
        }
    }

    /// An event has come. It is dealt with when there is nothing left to do.
    #[inline]
    fn owe(&self, directions: Directions) {
        self.change(|account| account.owe(directions));
    }

    /// There was something to do in these directions.
    #[inline]
    pub fn worked(&self, directions: Directions) {
        if directions != Directions::NONE {
            self.change(|account| account.worked(directions));
        }
    }

    /// There is nothing left to do: says which events have been dealt with, for
    /// [`Line::dealt_with`]. Those of directions that are `held` have not been.
    #[inline]
    pub fn settle(&self, held: Directions) -> Settled {
        let (_, settled) = self.change(|account| account.settle(held).0).settle(held);
        settled
    }
}

/// What is polled because of events.
pub trait Owing: Poll {
    /// Its events that have not been dealt with.
    fn owed(&self) -> &Owed;
}

/// Receiver of a channel's events. All that there is to do is done by polling, which also says when the
/// next event may come.
pub struct Events<P: Owing> {
    napi: Arc<Napi<P>>,
    directions: Directions,
}

impl<P: Owing> Handler for Events<P> {
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome {
        this.napi.poller().owed().owe(this.directions);
        this.napi.schedule();
        Outcome::Later
    }
}

/// Where a queue's channels have been, by direction.
#[derive(Default)]
pub struct Places {
    tx: Place,
    rx: Place,
}

/// The channels of a queue: one for each direction, or one for both.
pub struct Line<P: Owing> {
    tx: Arc<Channel<Events<P>>>,
    rx: Option<Arc<Channel<Events<P>>>>,
}

impl<P: Owing> Clone for Line<P> {
    fn clone(&self) -> Self {
        Self {
            tx: self.tx.clone(),
            rx: self.rx.clone(),
        }
    }
}

impl<P: Owing> Line<P> {
    /// Makes the channels of the queue `index` of `interface`, one for each direction if they are `split`,
    /// under names by which tools know what they are for. `make` makes one. Process context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `make` says.
    pub fn new(
        napi: &Arc<Napi<P>>,
        (interface, index): (fmt::Arguments<'_>, u32),
        split: bool,
        make: impl Fn(Directions, CString, Arc<Events<P>>) -> Result<Channel<Events<P>>>,
    ) -> Result<Self> {
        let channel = |directions: Directions| -> Result<Arc<Channel<Events<P>>>> {
            let suffix = directions.suffix();
            let name = CString::try_from_fmt(fmt!("{interface}-q{index}{suffix}"))?;
            let events = Events {
                napi: napi.clone(),
                directions,
            };
            let channel = make(directions, name, Arc::new(events, GFP_KERNEL)?)?;
            Ok(Arc::new(channel, GFP_KERNEL)?)
        };
        Ok(if split {
            Self {
                tx: channel(Directions::TX)?,
                rx: Some(channel(Directions::RX)?),
            }
        } else {
            Self {
                tx: channel(Directions::BOTH)?,
                rx: None,
            }
        })
    }

    /// Whether one channel is for both directions.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.rx.is_none()
    }

    /// That for what the guest transmits.
    #[inline]
    pub fn for_transmitting(&self) -> &Channel<Events<P>> {
        &self.tx
    }

    /// That for what it receives.
    #[inline]
    pub fn for_receiving(&self) -> &Channel<Events<P>> {
        self.rx.as_ref().unwrap_or(&self.tx)
    }

    /// Has one processor handle the events of both directions, which are polled together, unless users have
    /// chosen others before. See [`Channel::prefer_cpu`].
    pub fn prefer_cpu(&self, nth: u32, places: &Places) {
        self.tx.prefer_cpu(nth, &places.tx);
        if let Some(channel) = &self.rx {
            channel.prefer_cpu(nth, &places.rx);
        }
    }

    /// Has `places` remember which processors do. Process context.
    pub fn remember_cpu(&self, places: &Places) {
        self.tx.remember_cpu(&places.tx);
        if let Some(channel) = &self.rx {
            channel.remember_cpu(&places.rx);
        }
    }

    /// Tells the kernel of events that have been dealt with. Any context.
    pub fn dealt_with(&self, settled: Settled) {
        let end = |channel: &Channel<Events<P>>, directions| {
            if let Some(useful) = settled.of(directions) {
                channel.dealt_with(if useful {
                    Outcome::Handled
                } else {
                    Outcome::Spurious
                });
            }
        };
        match &self.rx {
            Some(rx) => {
                end(rx, Directions::RX);
                end(&self.tx, Directions::TX);
            }
            None => end(&self.tx, Directions::BOTH),
        }
    }
}
