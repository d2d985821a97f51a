// SPDX-License-Identifier: GPL-2.0

//! Events of one direction of a queue, held off until polling is worth while.

use super::{
    Napi,
    Poll, //
};
use crate::moderation::{
    packets::Before,
    settings::Settings,
    Backstop,
    Expire, //
};
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

impl<P: Poll> Expire for Napi<P> {
    fn expired(this: ArcBorrow<'_, Self>) {
        this.schedule();
    }
}

/// Sees to it that a queue is polled in time while events of one of its directions are held off. `H` knows how
/// far: [`Arrivals`](crate::moderation::packets::Arrivals) or
/// [`Answers`](crate::moderation::packets::Answers).
///
/// Dropping it waits for its timer. Process context, and without the lock of its ring.
pub struct Moderator<P: Poll, H> {
    /// What has been learnt.
    pub history: H,
    backstop: Backstop<Napi<P>>,
    napi: Arc<Napi<P>>,
    /// The next event is not at the next message, and nobody has looked since.
    held: bool,
    /// The timer has come since it was last asked for an event.
    expired: bool,
}

impl<P: Poll, H> Moderator<P, H> {
    /// Nothing is held off yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(napi: &Arc<Napi<P>>, history: H) -> Result<Self> {
        Ok(Self {
            history,
            backstop: Backstop::new(napi.clone())?,
            napi: napi.clone(),
            held: false,
            expired: false,
        })
    }

    /// The queue is being polled: messages that are there have waited long enough. Any context.
    #[inline]
    pub fn end(&mut self) {
        if core::mem::replace(&mut self.held, false) {
            self.expired |= self.backstop.release();
        }
    }

    /// It is about to be asked for the next event: how hold-offs since this was last called have ended. Any
    /// context.
    #[inline]
    pub fn before(&mut self) -> Before {
        // One may have begun while the queue was being polled.
        self.end();
        if core::mem::replace(&mut self.expired, false) {
            Before::Expired
        } else {
            Before::Ended
        }
    }

    /// Whether an event is held off.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The next event is not at the next message: the queue is polled in time even so. To be called before the
    /// last look at the ring, or after messages of this end have been published that are to be answered. Any
    /// context.
    #[inline]
    pub fn hold(&mut self, settings: &Settings) {
        self.held = true;
        self.backstop.hold(settings.nanoseconds());
    }

    /// Has the queue polled. Any context.
    #[inline]
    pub fn poll(&self) {
        self.napi.schedule();
    }
}
