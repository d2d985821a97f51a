// SPDX-License-Identifier: GPL-2.0

//! Events of a queue whose end the kernel has not been told.
//!
//! An event begins polling, and the channel stays silent until polling has found nothing left to do. What
//! polling finds may be what an event was sent for that has not come yet: such an event was not sent for
//! nothing.
//!
//! Pure logic, tested on the host and by KUnit.

/// Directions of a queue, as seen from the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions(u32);

impl Directions {
    /// None.
    pub const NONE: Self = Self(0);
    /// Out.
    pub const TX: Self = Self(1);
    /// In.
    pub const RX: Self = Self(2);
    /// Both.
    pub const BOTH: Self = Self(3);

    /// Whether any of these is among them.
    #[inline]
    pub const fn contains(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// These if it is `so`, none otherwise.
    #[inline]
    #[must_use]
    pub const fn when(self, so: bool) -> Self {
        if so {
            self
        } else {
            Self::NONE
        }
    }

    /// The part of a channel's name that says which they are.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::TX => "-tx",
            Self::RX => "-rx",
            _ => "",
        }
    }
}

/// How events that have been dealt with turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    events: Directions,
    useful: Directions,
}

impl Settled {
    /// For an event of any of these directions, if there was one: whether there was something to do in one
    /// of them.
    #[inline]
    pub const fn of(self, directions: Directions) -> Option<bool> {
        if !self.events.contains(directions) {
            return None;
        }
        Some(self.useful.contains(directions))
    }
}

/// The account of a queue's events, as one word that can be changed as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// An event has come and was not dealt with.
    owed: Directions,
    /// There has been something to do since an event was last dealt with.
    useful: Directions,
}

impl Account {
    const BITS: u32 = 2;

    #[inline]
    pub(super) const fn from_word(word: u32) -> Self {
        Self {
            owed: Directions(word & Directions::BOTH.0),
            useful: Directions((word >> Self::BITS) & Directions::BOTH.0),
        }
    }

    #[inline]
    pub(super) const fn word(self) -> u32 {
        self.owed.0 | self.useful.0 << Self::BITS
    }

    /// An event has come.
    #[inline]
    pub(super) const fn owe(self, directions: Directions) -> Self {
        Self {
            owed: Directions(self.owed.0 | directions.0),
            ..self
        }
    }

    /// There was something to do.
    #[inline]
    pub(super) const fn worked(self, directions: Directions) -> Self {
        Self {
            useful: Directions(self.useful.0 | directions.0),
            ..self
        }
    }

    /// All events are dealt with, but those of directions that are `held`.
    #[inline]
    pub(super) const fn settle(self, held: Directions) -> (Self, Settled) {
        let events = Directions(self.owed.0 & !held.0);
        let left = Self {
            owed: Directions(self.owed.0 & held.0),
            useful: Directions(self.useful.0 & !events.0),
        };
        let useful = Directions(self.useful.0 & events.0);
        (left, Settled { events, useful })
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_net_owed))]
mod tests {
    use super::*;

    const ALL: [Directions; 4] = [
        Directions::NONE,
        Directions::TX,
        Directions::RX,
        Directions::BOTH,
    ];

    #[test]
    fn a_word_is_an_account() {
        for word in 0..16 {
            assert_eq!(Account::from_word(word).word(), word);
        }
        assert_eq!(Account::default().word(), 0);
    }

    #[test]
    fn an_event_for_something_and_one_for_nothing() {
        let account = Account::default()
            .owe(Directions::BOTH)
            .worked(Directions::RX);
        let (left, settled) = account.settle(Directions::NONE);
        assert_eq!(left, Account::default());
        assert_eq!(settled.of(Directions::TX), Some(false));
        assert_eq!(settled.of(Directions::RX), Some(true));
        // One channel for both: its event was good for one of them.
        assert_eq!(settled.of(Directions::BOTH), Some(true));
    }

    #[test]
    fn nothing_is_settled_that_is_not_owed() {
        for useful in ALL {
            let account = Account::default().worked(useful);
            let (left, settled) = account.settle(Directions::NONE);
            // What was done may be what the next event is sent for.
            assert_eq!(left, account);
            for directions in ALL {
                assert_eq!(settled.of(directions), None);
            }
        }
    }

    #[test]
    fn work_before_its_event_counts_once() {
        let account = Account::default().worked(Directions::TX);
        let (account, _) = account.settle(Directions::NONE);
        let (account, settled) = account.owe(Directions::TX).settle(Directions::NONE);
        assert_eq!(settled.of(Directions::TX), Some(true));
        let (_, settled) = account.owe(Directions::TX).settle(Directions::NONE);
        assert_eq!(settled.of(Directions::TX), Some(false));
    }

    #[test]
    fn what_is_held_stays_owed() {
        let account = Account::default()
            .owe(Directions::BOTH)
            .worked(Directions::BOTH);
        let (left, settled) = account.settle(Directions::TX);
        assert_eq!(settled.of(Directions::TX), None);
        assert_eq!(settled.of(Directions::RX), Some(true));
        let (left, settled) = left.settle(Directions::NONE);
        assert_eq!(settled.of(Directions::TX), Some(true));
        assert_eq!(settled.of(Directions::RX), None);
        assert_eq!(left, Account::default());
    }

    #[test]
    fn no_event_is_lost_or_settled_twice() {
        for word in 0..16 {
            let account = Account::from_word(word);
            for held in ALL {
                let (left, settled) = account.settle(held);
                for direction in [Directions::TX, Directions::RX] {
                    let owed = account.owed.contains(direction);
                    let now = settled.of(direction).is_some();
                    let later = left.owed.contains(direction);
                    assert!(owed == (now || later) && !(now && later));
                    assert_eq!(later, owed && held.contains(direction));
                }
            }
        }
    }
}
