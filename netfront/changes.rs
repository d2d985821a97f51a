// SPDX-License-Identifier: GPL-2.0

//! What changes while a device is connected: by another connection, or by what both ends say to each other.
//!
//! Users want these changes with the lock of rtnl held, with which nobody may wait for the backend: they are
//! made by work of the device's own.

use crate::{
    connection,
    frontend::{
        Frontend,
        Life,
        GROUPS,
        SETTLE, //
    },
    groups::Step,
    interface::Interface,
    WORK, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Full,
            Release, //
        },
        Arc, //
    },
    workqueue::WorkItem, //
};
use xen::xenbus::State;

/// How long a backend that is connected has to leave another room before packets, in milliseconds. Some do not say
/// when they have.
const SETTLE_TIME: u32 = 1_000;

/// When it is looked again whether the backend has taken what it was told of multicast packets, in milliseconds, and
/// how often.
const GROUP_INTERVAL: u32 = 20;
const MOST_LOOKS: u32 = 250;

impl WorkItem<SETTLE> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.settle();
    }
}

impl WorkItem<GROUPS> for Frontend {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.tell_groups();
    }
}

impl Frontend {
    /// Has the connection end and another one made, as after a restore. It takes as long as the backend does,
    /// and nobody waits for it. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the backend has broken the protocol, `EBUSY` if there is no connection, or if this one is
    /// about to end.
    pub(crate) fn renew(self: &Arc<Self>) -> Result {
        if self.is_broken() {
            return Err(ENODEV);
        }
        if self.dev.state() != State::Connected || self.renewing.xchg(true, Full) {
            return Err(EBUSY);
        }
        self.kick();
        Ok(())
    }

    /// A program has come, or gone: the backend is to leave room for it, or not. Any context.
    pub(crate) fn program_changed(self: &Arc<Self>) {
        self.kick();
    }

    /// Other multicast packets are wanted. Any context.
    pub(crate) fn groups_changed(self: &Arc<Self>) {
        WORK.enqueue_delayed::<Arc<Self>, GROUPS>(self.clone(), 0);
    }

    /// Tells the backend which multicast packets are wanted, as far as there is room for that.
    fn tell_groups(self: &Arc<Self>) {
        let life = self.life.lock();
        let Life::Live {
            interface,
            connection: Some(_),
            ..
        } = &*life
        else {
            return;
        };
        let Some(queue) = interface.queue(0) else {
            return;
        };
        if self.dev.state() != State::Connected {
            // It does so when it is.
            return;
        }
        // Each step but the last two brings it nearer.
        loop {
            let (answered, refused) = queue.changes_answered();
            let step = {
                let mut groups = interface.groups().lock();
                if refused > self.refused_groups.xchg(refused, Full) {
                    groups.give_up();
                }
                groups.next(answered)
            };
            match step {
                Step::Tell(change) => {
                    if !queue.send_change(change) {
                        break;
                    }
                    interface.groups().lock().told(change);
                }
                Step::Filter(on) => {
                    if let Err(errno) = connection::announce_groups(&self.dev, on) {
                        self.dev
                            .error(errno, fmt!("writing request-multicast-control"));
                        return;
                    }
                    interface.groups().lock().set_filtering(on);
                }
                Step::Wait => break,
                Step::Done => {
                    self.looks.store(0, Release);
                    return;
                }
            }
        }
        // There is no room, or no answer yet.
        if self.looks.fetch_add(1, Full) < MOST_LOOKS {
            WORK.enqueue_delayed::<Arc<Self>, GROUPS>(self.clone(), GROUP_INTERVAL);
        } else {
            self.looks.store(0, Release);
            interface.groups().lock().give_up();
            self.groups_changed();
        }
    }

    /// The reconfiguration has come to its end.
    pub(crate) fn settle(self: &Arc<Self>) {
        if self.dev.state() == State::Reconfiguring {
            self.settled.store(true, Release);
            self.kick();
        }
    }

    /// Has the backend leave another room before packets. Those that are on their way are as before, and are
    /// understood as well.
    pub(crate) fn reconfigure(self: &Arc<Self>, interface: &Interface) {
        let Some(headroom) = interface.changed_headroom() else {
            return;
        };
        match connection::announce_headroom(&self.dev, headroom) {
            Ok(()) => {
                self.settled.store(false, Release);
                self.dev.switch_state(State::Reconfiguring);
                WORK.enqueue_delayed::<Arc<Self>, SETTLE>(self.clone(), SETTLE_TIME);
            }
            // Packets are moved then.
            Err(errno) => self.dev.error(errno, fmt!("writing xdp-headroom")),
        }
    }
}
