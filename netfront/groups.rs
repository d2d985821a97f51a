// SPDX-License-Identifier: GPL-2.0

//! Which multicast packets the backend is to send.
//!
//! It is told of each address that somebody listens to, by messages on a transmit ring, and then to send
//! nothing else. It knows 64 addresses at most: if there are more, it goes on sending everything.
//!
//! Pure logic, tested on the host and by KUnit.

/// Most addresses that a backend can be told of (Linux' `XEN_NETBK_MCAST_MAX`).
pub(crate) const MOST: usize = 64;

/// An address of Ethernet's.
type Address = [u8; 6];

/// Addresses, no two of them the same.
///
/// # Invariants
///
/// `count` is at most [`MOST`].
#[derive(Clone, Debug)]
struct List {
    addresses: [Address; MOST],
    count: usize,
}

impl List {
    const fn new() -> Self {
        Self {
            addresses: [[0; 6]; MOST],
            count: 0,
        }
    }

    fn as_slice(&self) -> &[Address] {
        self.addresses.get(..self.count).unwrap_or(&[])
    }

    fn contains(&self, address: &Address) -> bool {
        self.as_slice().contains(address)
    }

    /// Adds an address, unless it is there; [`false`] if there is no room.
    fn add(&mut self, address: Address) -> bool {
        if self.contains(&address) {
            return true;
        }
        let Some(place) = self.addresses.get_mut(self.count) else {
            return false;
        };
        *place = address;
        // INVARIANT: There was a place for it.
        self.count += 1;
        true
    }

    fn remove(&mut self, address: &Address) {
        let Some(at) = self.as_slice().iter().position(|known| known == address) else {
            return;
        };
        // INVARIANT: One is less, and its place goes to the last one.
        self.count -= 1;
        let last = self.addresses.get(self.count).copied();
        if let (Some(place), Some(last)) = (self.addresses.get_mut(at), last) {
            *place = last;
        }
    }

    /// The first address that another list does not have.
    fn first_beyond(&self, other: &Self) -> Option<Address> {
        let mut own = self.as_slice().iter();
        own.find(|address| !other.contains(address)).copied()
    }
}

/// What the backend is to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Packets to this address are wanted.
    Add(Address),
    /// They are not wanted any more.
    Delete(Address),
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Tell the backend of a change by a message.
    Tell(Change),
    /// Tell it to send what it was told of only, or to send everything.
    Filter(bool),
    /// Look again when the backend has answered.
    Wait,
    /// Nothing.
    Done,
}

/// What is wanted, and what the backend knows of that.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    wanted: List,
    /// Everything is wanted.
    all: bool,
    /// What the backend was told of.
    known: List,
    /// The backend was told to send nothing else.
    filtering: bool,
    /// The backend can do that, and has taken what it was told of.
    usable: bool,
}

impl Groups {
    /// Everything is wanted, and there is no backend.
    pub(crate) const fn new() -> Self {
        Self {
            wanted: List::new(),
            all: true,
            known: List::new(),
            filtering: false,
            usable: false,
        }
    }

    /// Something else is wanted: these addresses, or everything, also if they are too many.
    pub(crate) fn want(&mut self, addresses: &[Address], all: bool) {
        self.wanted = List::new();
        self.all = all;
        for address in addresses {
            if !self.wanted.add(*address) {
                self.all = true;
            }
        }
    }

    /// There is another backend, which knows nothing yet, and sends everything. It can be told otherwise if
    /// it is `usable`.
    pub(crate) fn begin(&mut self, usable: bool) {
        self.known = List::new();
        self.filtering = false;
        self.usable = usable;
    }

    /// The backend has not taken what it was told, or does not answer: it has to send everything.
    pub(crate) fn give_up(&mut self) {
        self.usable = false;
    }

    /// What is to be done next, with a backend that has answered everything or not. It is told of what is
    /// wanted first, and of what is not wanted any more last, so that nothing is missed.
    pub(crate) fn next(&self, answered: bool) -> Step {
        if self.all || !self.usable {
            return if self.filtering {
                Step::Filter(false)
            } else {
                Step::Done
            };
        }
        let unwanted = self.known.first_beyond(&self.wanted);
        match (self.wanted.first_beyond(&self.known), unwanted) {
            // Those that are wanted are not more than there is room for.
            (Some(_), Some(unwanted)) if self.known.count == MOST => {
                Step::Tell(Change::Delete(unwanted))
            }
            (Some(wanted), _) => Step::Tell(Change::Add(wanted)),
            (None, _) if !self.filtering => {
                if answered {
                    Step::Filter(true)
                } else {
                    Step::Wait
                }
            }
            (None, Some(unwanted)) => Step::Tell(Change::Delete(unwanted)),
            (None, None) => {
                if answered {
                    Step::Done
                } else {
                    Step::Wait
                }
            }
        }
    }

    /// The backend was told of a change.
    pub(crate) fn told(&mut self, change: Change) {
        match change {
            Change::Add(address) => {
                // There was room, see `next`.
                let _ = self.known.add(address);
            }
            Change::Delete(address) => self.known.remove(&address),
        }
    }

    /// The backend was told to send what it knows only, or everything.
    pub(crate) fn set_filtering(&mut self, on: bool) {
        self.filtering = on;
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netfront_groups))]
mod tests {
    use super::*;

    const fn address(number: u8) -> Address {
        [1, 0, 0x5e, 0, 0, number]
    }

    /// Does all there is to do with a backend that answers at once, and checks that this ends, and that the
    /// backend is never told of more than it has room for. Says how many messages there were.
    fn settle(groups: &mut Groups, backend: &mut List) -> Result<usize, &'static str> {
        for messages in 0..=200 {
            match groups.next(true) {
                Step::Tell(change) => {
                    match change {
                        Change::Add(address) => {
                            if !backend.add(address) {
                                return Err("no room");
                            }
                        }
                        Change::Delete(address) => backend.remove(&address),
                    }
                    groups.told(change);
                }
                Step::Filter(on) => groups.set_filtering(on),
                Step::Wait => return Err("there is nothing to wait for"),
                Step::Done => return Ok(messages),
            }
        }
        Err("there is no end")
    }

    #[test]
    fn nothing_is_missed() -> Result<(), &'static str> {
        let mut groups = Groups::new();
        let mut backend = List::new();
        groups.begin(true);
        // As long as nobody has said what is wanted it is everything.
        assert_eq!(groups.next(true), Step::Done);
        groups.want(&[address(1), address(2)], false);
        assert_eq!(groups.next(true), Step::Tell(Change::Add(address(1))));
        groups.told(Change::Add(address(1)));
        assert_eq!(groups.next(false), Step::Tell(Change::Add(address(2))));
        groups.told(Change::Add(address(2)));
        assert_eq!(groups.next(false), Step::Wait);
        assert_eq!(groups.next(true), Step::Filter(true));
        groups.set_filtering(true);
        assert_eq!(groups.next(false), Step::Wait);
        assert_eq!(groups.next(true), Step::Done);
        // The new one comes before the old one goes.
        groups.want(&[address(2), address(3)], false);
        assert_eq!(groups.next(true), Step::Tell(Change::Add(address(3))));
        groups.told(Change::Add(address(3)));
        assert_eq!(groups.next(true), Step::Tell(Change::Delete(address(1))));
        groups.told(Change::Delete(address(1)));
        assert_eq!(groups.next(true), Step::Done);
        // Another backend is told of everything anew.
        groups.begin(true);
        settle(&mut groups, &mut backend)?;
        assert!(groups.filtering && backend.count == 2);
        assert!(backend.contains(&address(2)) && backend.contains(&address(3)));
        Ok(())
    }

    #[test]
    fn what_is_too_much_is_everything() -> Result<(), &'static str> {
        let mut groups = Groups::new();
        let mut backend = List::new();
        let mut many = [[0; 6]; MOST + 1];
        for (number, place) in (0..).zip(&mut many) {
            *place = address(number);
        }
        groups.begin(true);
        groups.want(&many[..MOST], false);
        settle(&mut groups, &mut backend)?;
        assert!(groups.filtering && backend.count == MOST);
        groups.want(&many, false);
        assert_eq!(groups.next(true), Step::Filter(false));
        settle(&mut groups, &mut backend)?;
        assert!(!groups.filtering);
        // All places are taken: one must go before another one comes.
        groups.want(&many[1..], false);
        settle(&mut groups, &mut backend)?;
        assert!(groups.filtering && backend.count == MOST);
        assert!(!backend.contains(&many[0]) && backend.contains(&many[MOST]));
        // The same twice is one.
        groups.want(&[many[0]; MOST + 1], false);
        settle(&mut groups, &mut backend)?;
        assert!(groups.filtering && backend.count == 1);
        Ok(())
    }

    #[test]
    fn backends_that_cannot() -> Result<(), &'static str> {
        let mut groups = Groups::new();
        let mut backend = List::new();
        groups.want(&[address(1)], false);
        groups.begin(false);
        assert_eq!(groups.next(true), Step::Done);
        groups.begin(true);
        settle(&mut groups, &mut backend)?;
        assert!(groups.filtering);
        groups.give_up();
        assert_eq!(groups.next(true), Step::Filter(false));
        settle(&mut groups, &mut backend)?;
        assert_eq!(groups.next(true), Step::Done);
        Ok(())
    }
}
