// SPDX-License-Identifier: GPL-2.0

//! Which multicast packets a frontend wants.
//!
//! Pure logic, tested on the host and by KUnit.

use super::transmit::Change;

/// Most addresses that a frontend can ask for.
const MOST: usize = 64;

/// The addresses that a frontend has asked for.
///
/// # Invariants
///
/// `count` is at most [`MOST`], and no address is among the first `count` twice.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    addresses: [[u8; 6]; MOST],
    count: usize,
}

/// There is no room for another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Whether packets to this address are for several machines, but not for all.
#[inline]
pub(crate) fn is_multicast(address: &[u8; 6]) -> bool {
    let [first, ..] = address;
    first & 1 != 0 && *address != [0xff; 6]
}

impl Groups {
    /// Nothing has been asked for.
    pub(crate) const fn new() -> Self {
        Self {
            addresses: [[0; 6]; MOST],
            count: 0,
        }
    }

    fn used(&self) -> &[[u8; 6]] {
        self.addresses.get(..self.count).unwrap_or(&[])
    }

    /// Whether the frontend wants what is sent to this address, which [is one](is_multicast) for several
    /// machines.
    pub(crate) fn contains(&self, address: &[u8; 6]) -> bool {
        self.used().contains(address)
    }

    /// Does what the frontend has asked for. To add what is there, or delete what is not, changes nothing.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub(crate) fn change(&mut self, change: Change) -> Result<(), Full> {
        match change {
            Change::Add(address) => {
                if self.contains(&address) {
                    return Ok(());
                }
                let place = self.addresses.get_mut(self.count).ok_or(Full)?;
                *place = address;
                // INVARIANT: There was a place for it, and it was not there.
                self.count += 1;
            }
            Change::Delete(address) => {
                let Some(at) = self.used().iter().position(|used| *used == address) else {
                    return Ok(());
                };
                // INVARIANT: One is less, and its place goes to the last one.
                self.count -= 1;
                let last = self.addresses.get(self.count).copied();
                if let (Some(place), Some(last)) = (self.addresses.get_mut(at), last) {
                    *place = last;
                }
            }
        }
        Ok(())
    }
}

#[cfg(any(test, CONFIG_XEN_PV_RUST_KUNIT_TEST))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_netback_multicast))]
mod tests {
    use super::*;

    const fn address(number: u8) -> [u8; 6] {
        [1, 0, 0x5e, 0, 0, number]
    }

    #[test]
    fn who_is_addressed() {
        for (bytes, expected) in [
            ([1, 0, 0x5e, 0, 0, 1], true),
            ([0x33, 0x33, 0, 0, 0, 1], true),
            ([0xff; 6], false),
            ([0xff, 0xff, 0xff, 0xff, 0xff, 0xfe], true),
            ([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff], false),
            ([0; 6], false),
        ] {
            assert_eq!(is_multicast(&bytes), expected);
        }
    }

    #[test]
    fn only_what_was_asked_for() {
        let mut groups = Groups::new();
        assert!(!groups.contains(&[0; 6]));
        for number in 0..3 {
            assert_eq!(groups.change(Change::Add(address(number))), Ok(()));
        }
        assert_eq!(groups.change(Change::Delete(address(0))), Ok(()));
        for (number, expected) in [(0, false), (1, true), (2, true), (3, false)] {
            assert_eq!(groups.contains(&address(number)), expected);
        }
        // Neither does any harm.
        assert_eq!(groups.change(Change::Delete(address(0))), Ok(()));
        assert_eq!(groups.change(Change::Add(address(2))), Ok(()));
        assert_eq!(groups.change(Change::Delete(address(2))), Ok(()));
        assert!(!groups.contains(&address(2)));
        assert!(groups.contains(&address(1)));
    }

    #[test]
    fn not_more_than_there_is_room_for() {
        let mut groups = Groups::new();
        for number in 0..64 {
            assert_eq!(groups.change(Change::Add(address(number))), Ok(()));
        }
        assert_eq!(groups.change(Change::Add(address(64))), Err(Full));
        // Unless it is there already, or another one goes.
        assert_eq!(groups.change(Change::Add(address(63))), Ok(()));
        assert_eq!(groups.change(Change::Delete(address(63))), Ok(()));
        assert_eq!(groups.change(Change::Add(address(64))), Ok(()));
        assert!(groups.contains(&address(64)) && !groups.contains(&address(63)));
        for number in 0..65 {
            assert_eq!(groups.change(Change::Delete(address(number))), Ok(()));
            assert!(!groups.contains(&address(number)));
        }
    }
}
