// SPDX-License-Identifier: GPL-2.0

//! Events of a ring: the backend has answered requests.

use crate::{
    queue::{
        Cause,
        Served, //
    },
    queues::Queues,
    EVENTS, //
};
use kernel::{
    new_work,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    workqueue::{
        impl_has_work,
        Work,
        WorkItem, //
    },
};
use xen::{
    evtchn::{
        self,
        Outcome, //
    },
    moderation::Expire, //
};

/// Receiver of a ring's events, and of the end of its hold-offs.
///
/// A backend that answers as fast as requests come could keep an interrupt's handler busy for ever, and
/// the processor with it. So the handler does only so much; what is left is work, which takes turns
/// with everything else that the processor has to do. Looking for responses without an event is work, too.
#[pin_data]
pub(crate) struct RingEvents {
    queues: Arc<Queues>,
    index: u32,
    #[pin]
    work: Work<RingEvents>,
}

impl_has_work! {
    impl HasWork<Self> for RingEvents { self.work }
}

impl RingEvents {
    /// For ring number `index`.
    pub(crate) fn new(queues: Arc<Queues>, index: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queues,
                index,
                work <- new_work!("blkfront::RingEvents::work"),
            }),
            GFP_KERNEL,
        )
    }
}

impl RingEvents {
    /// Has work go on with the ring. Any context.
    pub(crate) fn go_on(self: Arc<Self>) {
        EVENTS.enqueue::<Arc<Self>, 0>(self);
    }
}

impl evtchn::Handler for RingEvents {
    fn handle(this: ArcBorrow<'_, Self>) -> Outcome {
        let Some(queue) = this.queues.get(this.index) else {
            return Outcome::Silence;
        };
        match queue.serve(&this.queues, Cause::Event) {
            Served::All { worked: true } => Outcome::Handled,
            Served::All { worked: false } | Served::NoRing => Outcome::Spurious,
            Served::More => Outcome::Later,
            Served::Broken => Outcome::Silence,
        }
    }
}

impl Expire for RingEvents {
    fn expired(this: ArcBorrow<'_, Self>) {
        if let Some(queue) = this.queues.get(this.index) {
            queue.serve(&this.queues, Cause::Timer);
        }
    }
}

impl WorkItem for RingEvents {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if let Some(queue) = this.queues.get(this.index) {
            queue.look_out();
            queue.serve(&this.queues, Cause::Work);
        }
    }
}
