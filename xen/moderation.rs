// SPDX-License-Identifier: GPL-2.0

//! Fewer events for the same messages.
//!
//! All drivers have the same five settings, for each device and for both directions of its rings: see
//! [`Setting`]. They work against any peer, for all that they change is when this end asks for events:
//!
//! | what                | how                                                                    |
//! |---------------------|------------------------------------------------------------------------|
//! | [`HoldOff`]         | how far ahead the next event is asked for, learnt from recent history  |
//! | [`packets`]         | the same for packets, of several slots each                           |
//! | [`Backstop`]        | the timer that ends a hold-off in any case                             |
//! | [`Polling`]         | how long a ring is looked at before events are asked for               |
//! | [`Histogram`]       | how many messages were found at a time                                 |
//! | [`Live`]            | the settings of a device, which can change at any time                 |
//!
//! A consumer does three things when it has found no more messages, in this order: it asks for an event
//! so far [ahead](HoldOff::ahead); if that is not at the next message, it has the backstop
//! [hold](Backstop::hold); and it looks at the ring once more. After a look that has found nothing since
//! the last event, nothing is held off.

mod backstop;
pub mod histogram;
mod hold_off;
mod live;
pub mod packets;
mod polling;
pub mod settings;

pub use self::{
    backstop::{
        Backstop,
        Expire, //
    },
    histogram::Histogram,
    hold_off::HoldOff,
    live::{
        files,
        Defaults,
        Keys,
        Live,
        Moderated, //
    },
    polling::Polling,
    settings::{
        Setting,
        Settings, //
    },
};

/// Keys of what an interface receives.
pub const RX_KEYS: Keys = [
    c"moderation-rx_frames",
    c"moderation-rx_usecs",
    c"moderation-rx_adaptive",
];
/// The same of what it sends.
pub const TX_KEYS: Keys = [
    c"moderation-tx_frames",
    c"moderation-tx_usecs",
    c"moderation-tx_adaptive",
];

/// Value of a module parameter that is the default of [`Setting::Frames`].
pub type Frames = crate::param::Ranged<{ settings::MIN_FRAMES }, { settings::MAX_FRAMES }>;
/// The same of [`Setting::Usecs`] and [`Setting::PollUsecs`].
pub type Usecs = crate::param::Ranged<0, { settings::MAX_USECS }>;
/// The same of [`Setting::Priority`].
pub type Priority = crate::param::Ranged<0, { settings::MIN_PRIORITY }>;
