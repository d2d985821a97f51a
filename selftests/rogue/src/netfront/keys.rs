// SPDX-License-Identifier: GPL-2.0

//! What a guest can write to xenstore.

use super::attack::{Attack, Expected};
use super::{Options, NO_GREF};
use crate::xenstore::Tx;

const fn refuses(name: &'static str, what: &'static str, options: fn(&mut Options)) -> Attack {
    Attack {
        name,
        expected: Expected::Refuses,
        what,
        options,
        act: |_| Ok(()),
    }
}

/// Two queues, with a key of the second one as in the first.
fn shared(options: &mut Options, key: &'static str, other: &'static str) {
    options.queues = 2;
    options.set(key, other);
}

pub(super) const ATTACKS: &[Attack] = &[
    refuses("queues-0", "no queue", |options| {
        options.set("multi-queue-num-queues", 0);
    }),
    refuses("queues-negative", "fewer than none", |options| {
        options.set("multi-queue-num-queues", -1);
    }),
    refuses("queues-257", "more than there may be", |options| {
        options.set("multi-queue-num-queues", 257);
    }),
    refuses("queues-64-bits", "more than a number has bits", |options| {
        options.set("multi-queue-num-queues", 1u64 << 32);
    }),
    refuses("queues-junk", "a number that is none", |options| {
        options.set("multi-queue-num-queues", "abc");
    }),
    refuses("queue-missing", "a queue without a directory", |options| {
        options.set("multi-queue-num-queues", 2);
    }),
    refuses("ring-twice", "two queues with one ring", |options| {
        shared(options, "queue-1/tx-ring-ref", "@queue-0/tx-ring-ref");
    }),
    refuses("ring-both", "one page for both rings", |options| {
        options.set("rx-ring-ref", "@tx-ring-ref");
    }),
    refuses("channel-twice", "two queues with one channel", |options| {
        let other = "@queue-0/event-channel-tx";
        shared(options, "queue-1/event-channel-tx", other);
    }),
    refuses("channel-none", "a channel that nobody has", |options| {
        options.set("event-channel-rx", 100_000);
    }),
    refuses("channel-junk", "a channel that is no number", |options| {
        options.set("event-channel-tx", "abc");
    }),
    refuses("channel-missing", "one channel of two", |options| {
        options.omit("event-channel-rx");
    }),
    refuses("ring-none", "a reference that nobody has", |options| {
        options.set("tx-ring-ref", NO_GREF);
    }),
    refuses("ring-junk", "a reference that is no number", |options| {
        options.set("rx-ring-ref", "abc");
    }),
    refuses("ring-missing", "a queue with one ring", |options| {
        options.omit("tx-ring-ref");
    }),
    refuses("control-channel", "a control ring without one", |options| {
        options.control = true;
        options.omit("event-channel-ctrl");
    }),
    refuses(
        "control-ring",
        "a control ring that is another",
        |options| {
            options.control = true;
            options.set("ctrl-ring-ref", "@tx-ring-ref");
        },
    ),
    refuses("no-copy", "pages are to change hands", |options| {
        options.omit("request-rx-copy");
    }),
    refuses("feature-junk", "a feature that is no number", |options| {
        options.set("feature-sg", "yes");
    }),
    refuses("address", "an address that is none", |options| {
        options.set("back:mac", "00:16:3e");
    }),
    Attack {
        name: "script",
        expected: Expected::Refuses,
        what: "the hotplug script fails",
        options: |options| options.omit("back:hotplug-status"),
        act: |front| {
            let path = format!("{}/hotplug-status", front.back);
            front.xs.write(Tx::NONE, &path, "error")
        },
    },
];
