// SPDX-License-Identifier: GPL-2.0

//! The misbehaviours, by name.
//!
//! Not all of them break the protocol: some are merely rare, and a frontend must go on as if nothing
//! had happened. [`Expect`] says which is which.

/// What a right frontend makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The device keeps working.
    Works,
    /// Requests fail, and the device keeps working.
    Errors,
    /// The device stops for good: requests fail without delay, and it can be detached.
    Stops,
    /// The device never becomes a disk, and can be detached.
    Refuses,
    /// Works, fails requests, stops or refuses, as the frontend likes; nothing hangs, and it can be
    /// detached.
    Either,
    /// Requests wait until the device is detached or re-made, and then fail or are done again.
    Waits,
}

impl Expect {
    /// Returns the word used in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Errors => "errors",
            Self::Stops => "stops",
            Self::Refuses => "refuses",
            Self::Either => "either",
            Self::Waits => "waits",
        }
    }
}

/// A moment in the life of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The directories were made.
    Created,
    /// The backend went to InitWait.
    InitWait,
    /// The frontend has written its rings, the backend has not looked at them.
    Initialised,
    /// The backend went to Connected.
    Connected,
    /// The frontend is connected, and so many requests were served.
    Serving,
    /// The device is to be detached; the frontend was just told.
    Closing,
}

impl Step {
    /// All steps with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("created", Self::Created),
        ("initwait", Self::InitWait),
        ("initialised", Self::Initialised),
        ("connected", Self::Connected),
        ("serving", Self::Serving),
        ("closing", Self::Closing),
    ];

    /// Finds a step by its name.
    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, step)| *step)
    }
}

/// When an attack acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In a ring, from the chosen number of requests on.
    Ring,
    /// At a step of the life cycle.
    At(Step),
    /// By what is written to the store.
    Keys(&'static [(&'static str, &'static str)]),
    /// When the device is taken down.
    Teardown,
}

macro_rules! attacks {
    ($( $variant:ident, $name:literal, $when:expr, $expect:ident, $help:literal; )*) => {
        /// A misbehaviour.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Attack {
            $( #[doc = $help] $variant, )*
        }

        impl Attack {
            /// All of them.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// Returns the name used on the command line.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Returns when it acts, unless the user says otherwise.
            pub fn when(self) -> When {
                match self { $( Self::$variant => $when, )* }
            }

            /// Returns what a right frontend makes of it.
            pub fn expect(self) -> Expect {
                match self { $( Self::$variant => Expect::$expect, )* }
            }

            /// Returns the sentence for `--list-attacks`.
            pub fn help(self) -> &'static str {
                match self { $( Self::$variant => $help, )* }
            }
        }
    };
}

use Step::{Created, Initialised, Serving};
use When::{At, Keys, Ring, Teardown};

attacks! {
    // Responses that name the wrong request.
    IdOutside, "id-outside", Ring, Stops,
        "Answers once with an id that is the number of slots plus 5.";
    IdHuge, "id-huge", Ring, Stops,
        "Answers once with an id of which only the lower 32 bits are right.";
    IdFree, "id-free", Ring, Stops,
        "Answers once with an id in range that no open request has.";
    Duplicate, "duplicate", Ring, Stops,
        "Answers one request twice in one step.";
    Unasked, "unasked", Ring, Stops,
        "Publishes a response while no request is open.";
    WrongOperation, "wrong-operation", Ring, Stops,
        "Answers once with another operation than that of the request.";
    OperationIndirect, "operation-indirect", Ring, Stops,
        "Answers an indirect request once with the outer operation in place of the inner one.";

    // Outcomes.
    StatusJunk, "status-junk", Ring, Errors,
        "Answers everything with status values that are not defined.";
    StatusError, "status-error", Ring, Errors,
        "Answers everything with an error.";
    StatusUnsupported, "status-unsupported", Ring, Errors,
        "Answers every read and write with 'not supported'.";
    FlushUnsupported, "flush-unsupported", Ring, Works,
        "Answers flushes and barriers with 'not supported', so that they must be switched off.";
    FlushError, "flush-error", Ring, Either,
        "Answers flushes and barriers with an error.";
    DiscardUnsupported, "discard-unsupported", Ring, Works,
        "Answers discards with 'not supported', so that they must be switched off.";

    // Indices and memory of the ring.
    ProducerJump, "producer-jump", Ring, Stops,
        "Shows a response producer that is more than a ring ahead.";
    ProducerBack, "producer-back", Ring, Stops,
        "Shows a response producer that went backwards.";
    Scribble, "scribble", Ring, Stops,
        "Fills the whole ring, indices included, with random words, again and again for a second.";
    ScribbleFront, "scribble-front", Ring, Works,
        "Overwrites the frontend's own words in the ring whenever it has no request open.";
    EventFar, "event-far", Ring, Works,
        "Never asks for an event and looks for requests by the clock.";
    DoubleFetch, "double-fetch", Ring, Either,
        "Flips id, operation and status of each response while the frontend may be reading it.";

    // Order and time.
    Reverse, "reverse", Ring, Works,
        "Answers what is open in reverse order.";
    Shuffle, "shuffle", Ring, Works,
        "Answers what is open in random order.";
    Hang, "hang", Ring, Waits,
        "Takes requests and never answers.";
    HangVanish, "hang-vanish", Ring, Waits,
        "Takes requests, never answers, and exits without a word after the hold time.";
    ClosePort, "close-port", Ring, Waits,
        "Closes the event channel of one ring and does not serve it any more.";
    EventStorm, "event-storm", Ring, Works,
        "Sends up to a million events for nothing, for at most 5 s, while it serves.";

    // Grants.
    KeepGrants, "keep-grants", Ring, Stops,
        "Answers once without unmapping the pages, although grants are not persistent.";
    LateUnmap, "late-unmap", Ring, Stops,
        "Unmaps pages a little after the answer, although grants are not persistent.";
    KeepAtClose, "keep-at-close", Teardown, Works,
        "Keeps rings and persistent grants mapped for the hold time after the device was removed.";

    // Life cycle.
    SkipInitWait, "skip-initwait", At(Created), Works,
        "Goes to Connected at once, so that the frontend never sees InitWait.";
    NeverConnect, "never-connect", At(Initialised), Refuses,
        "Stays in InitWait whatever the frontend does.";
    ClosingEarly, "closing-before-connected", At(Initialised), Refuses,
        "Goes to Closing and Closed when the frontend has written its rings.";
    ClosedWhileConnected, "closed-while-connected", At(Serving), Stops,
        "Goes from Connected to Closed without Closing.";
    RandomStates, "random-states", At(Serving), Either,
        "Writes 50 random states, some of them junk, with random pauses.";
    StateStorm, "state-storm", At(Serving), Works,
        "Writes the state Connected a thousand times.";
    Vanish, "vanish", At(Serving), Waits,
        "Exits without closing and leaves the directories behind, as if killed.";
    RemoveBackendDir, "remove-backend-dir", At(Serving), Either,
        "Removes the directory of the backend.";
    RemoveFrontendDir, "remove-frontend-dir", At(Serving), Stops,
        "Removes the directory of the frontend without closing first.";

    // Size.
    Resize, "resize", At(Serving), Works,
        "Doubles the disk.";
    ResizeStorm, "resize-storm", At(Serving), Works,
        "Changes the size a hundred times and ends with the double.";
    ResizeShrink, "resize-shrink", At(Serving), Works,
        "Halves the disk, so that requests to the other half fail.";
    ResizeZero, "resize-zero", At(Serving), Works,
        "Shows a size of zero, then the right one again after the hold time.";
    ResizeJunk, "resize-junk", At(Serving), Works,
        "Shows a size that is not a number, then the right one again after the hold time.";
    SectorsZero, "sectors-zero", Keys(&[("sectors", "0")]), Either,
        "Offers a disk without a sector.";
    SectorsMax, "sectors-max", Keys(&[("sectors", "18446744073709551615")]), Either,
        "Offers a disk of 2^64-1 sectors.";
    SectorsOver, "sectors-over", Keys(&[("sectors", "18446744073709551616")]), Either,
        "Offers a disk of 2^64 sectors, which fits in no integer.";
    SectorsJunk, "sectors-junk", Keys(&[("sectors", "abc")]), Refuses,
        "Offers a number of sectors that is not a number.";
    SectorSizeZero, "sector-size-zero", Keys(&[("sector-size", "0")]), Refuses,
        "Offers sectors of no bytes.";
    SectorSizeOdd, "sector-size-odd", Keys(&[("sector-size", "513")]), Refuses,
        "Offers sectors whose size is not a power of two.";
    SectorSizeHuge, "sector-size-huge", Keys(&[("sector-size", "2147483648")]), Refuses,
        "Offers sectors of 2 GiB.";
    SectorSizeWrap, "sector-size-wrap", Keys(&[("sector-size", "66048")]), Refuses,
        "Offers sectors whose size looks right only when cut to 16 bits.";
    InfoJunk, "info-junk", Keys(&[("info", "junk")]), Refuses,
        "Offers disk information that is not a number.";

    // Features.
    RingOrderHuge, "ring-order-huge", Keys(&[("max-ring-page-order", "4294967295")]), Works,
        "Offers rings of 2^(2^32-1) pages.";
    RingOrderJunk, "ring-order-junk", Keys(&[("max-ring-page-order", "-1")]), Works,
        "Offers rings of a negative page order.";
    QueuesZero, "queues-zero", Keys(&[("multi-queue-max-queues", "0")]), Works,
        "Offers no queue.";
    QueuesHuge, "queues-huge", Keys(&[("multi-queue-max-queues", "4294967295")]), Works,
        "Offers 2^32-1 queues.";
    QueuesJunk, "queues-junk", Keys(&[("multi-queue-max-queues", "-1")]), Works,
        "Offers a negative number of queues.";
    IndirectHuge, "indirect-huge", Keys(&[("feature-max-indirect-segments", "4294967295")]), Works,
        "Offers 2^32-1 segments in an indirect request.";
    FeaturesJunk, "features-junk", Keys(&[
        ("feature-barrier", "x"), ("feature-flush-cache", ""), ("feature-discard", "-"),
        ("feature-persistent", "yes"), ("feature-max-indirect-segments", "0x"),
        ("physical-sector-size", "big"),
    ]), Works,
        "Offers features in values that are not numbers.";
    DiscardJunk, "discard-junk", Keys(&[
        ("feature-discard", "1"), ("discard-granularity", "7"),
        ("discard-alignment", "4294967295"), ("discard-secure", "1"),
    ]), Either,
        "Offers discard with a granularity and an alignment that make no sense.";
}

impl Attack {
    /// Finds an attack by its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|attack| attack.name() == name)
    }
}

/// A set of attacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Set(u128);

impl Set {
    /// Adds an attack.
    pub fn insert(&mut self, attack: Attack) {
        self.0 |= 1 << attack as u8;
    }

    /// Whether an attack is in it.
    pub fn contains(self, attack: Attack) -> bool {
        self.0 & (1 << attack as u8) != 0
    }

    /// Lists the attacks.
    pub fn iter(self) -> impl Iterator<Item = Attack> {
        let all = Attack::ALL.iter().copied();
        all.filter(move |attack| self.contains(*attack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for attack in Attack::ALL {
            assert_eq!(Attack::parse(attack.name()), Some(*attack));
            assert!(attack.help().ends_with('.'));
        }
        assert_eq!(Attack::parse("kindness"), None);
        assert!(Attack::ALL.len() <= u128::BITS as usize);
    }

    #[test]
    fn sets() {
        let mut set = Set::default();
        set.insert(Attack::Hang);
        set.insert(Attack::DiscardJunk);
        assert!(set.contains(Attack::Hang) && !set.contains(Attack::Resize));
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [Attack::Hang, Attack::DiscardJunk]
        );
    }

    #[test]
    fn steps() {
        assert_eq!(Step::parse("closing"), Some(Step::Closing));
        assert_eq!(Step::parse(""), None);
    }
}
