// SPDX-License-Identifier: GPL-2.0

//! Frames that stay mapped.
//!
//! A frontend that offers persistent grants uses the same references again and again, so that their
//! frames can stay mapped. There are at most as many as `max_persistent_grants` says; those that have
//! not been used for long, and the oldest when there are too many, are unmapped.
//!
//! Which those are is decided here; what a mapping is, is not known here. Tested by KUnit: the tree is
//! the kernel's.

use core::mem::replace;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
};

/// A frame that is mapped.
pub(crate) trait Mapped {
    /// The reference by which it is.
    fn gref(&self) -> u32;
}

struct Entry<M> {
    /// The mapping, unless a request has it.
    mapping: Option<M>,
    /// When it was last used, in milliseconds.
    used: u64,
}

/// What is known of a reference.
pub(crate) enum Lookup<M> {
    /// Its frame is mapped, and this is the mapping, to be [given back](Persistent::give_back).
    Mapped(M),
    /// Another request has the mapping.
    InUse,
    /// Its frame is not mapped.
    Unknown,
}

/// The frames of one ring that stay mapped.
pub(crate) struct Persistent<M> {
    tree: RBTree<u32, Entry<M>>,
    count: usize,
    /// There was no place for a frame since the last [`expire`](Self::expire).
    overflowed: bool,
}

impl<M: Mapped> Persistent<M> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            tree: RBTree::new(),
            count: 0,
            overflowed: false,
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Looks a reference up, and takes its mapping.
    pub(crate) fn take(&mut self, gref: u32) -> Lookup<M> {
        match self.tree.get_mut(&gref) {
            Some(entry) => match entry.mapping.take() {
                Some(mapping) => Lookup::Mapped(mapping),
                None => Lookup::InUse,
            },
            None => Lookup::Unknown,
        }
    }

    /// Makes a place for a frame that has just been mapped, if there are fewer than `most` and none for
    /// the same reference. Says whether its mapping is to be [given back](Self::give_back).
    pub(crate) fn adopt(&mut self, gref: u32, most: usize, now: u64) -> bool {
        if self.count >= most {
            self.overflowed = true;
            return false;
        }
        if self.tree.get(&gref).is_some() {
            return false;
        }
        let entry = Entry {
            mapping: None,
            used: now,
        };
        match RBTreeNode::new(gref, entry, GFP_KERNEL) {
            Ok(node) => {
                self.tree.insert(node);
                self.count += 1;
                true
            }
            Err(_) => false,
        }
    }

    /// Takes a mapping back, unless it has no place any more.
    pub(crate) fn give_back(&mut self, mapping: M, now: u64) -> Result<(), M> {
        match self.tree.get_mut(&mapping.gref()) {
            Some(entry) if entry.mapping.is_none() => {
                entry.mapping = Some(mapping);
                entry.used = now;
                Ok(())
            }
            _ => Err(mapping),
        }
    }

    /// Takes away what has not been used since `before` and, if there are too many, the oldest until
    /// there are fewer than `most` by a twentieth. Those in use stay.
    pub(crate) fn expire(&mut self, before: Option<u64>, most: usize, out: &mut KVec<M>) {
        let overflowed = replace(&mut self.overflowed, false);
        let goal = if self.count > most || overflowed {
            most - most / 20
        } else {
            usize::MAX
        };
        if let Some(before) = before {
            self.remove_older(before, 0, out);
        }
        if self.count > goal {
            let limit = self.age_of_oldest(self.count - goal);
            self.remove_older(limit, goal, out);
        }
    }

    /// Takes away as many as there are that no request has.
    pub(crate) fn clear(&mut self, out: &mut KVec<M>) {
        self.remove_older(u64::MAX, 0, out);
    }

    /// A time before which, as near as can be told by halving, `count` of the idle ones were last used.
    fn age_of_oldest(&self, count: usize) -> u64 {
        let used = || {
            self.tree
                .values()
                .filter(|entry| entry.mapping.is_some())
                .map(|entry| entry.used)
        };
        let (mut low, mut high) = match (used().min(), used().max()) {
            (Some(low), Some(high)) => (low, high.saturating_add(1)),
            _ => return 0,
        };
        while low < high {
            let middle = low + (high - low) / 2;
            if used().filter(|&used| used < middle).count() < count {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Takes away idle ones last used before a time, until only `least` are left.
    fn remove_older(&mut self, before: u64, least: usize, out: &mut KVec<M>) {
        let mut cursor = self.tree.cursor_front_mut();
        while let Some(mut at) = cursor {
            if self.count <= least || out.reserve(1, GFP_KERNEL).is_err() {
                return;
            }
            let (_, entry) = at.current_mut();
            if entry.used >= before || entry.mapping.is_none() {
                cursor = at.move_next();
                continue;
            }
            let (next, node) = at.remove_current();
            self.count -= 1;
            let (_, entry) = node.to_key_value();
            if let Some(mapping) = entry.mapping {
                // There is room.
                let _ = out.push_within_capacity(mapping);
            }
            cursor = next;
        }
    }
}

#[cfg(CONFIG_XEN_PV_RUST_KUNIT_TEST)]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(xen_blkback_persistent))]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Frame(u32);

    impl Mapped for Frame {
        fn gref(&self) -> u32 {
            self.0
        }
    }

    /// Frames 0 to `count`, of which each was last used at the time that is its number.
    fn filled(count: u32) -> Persistent<Frame> {
        let mut persistent = Persistent::new();
        for gref in 0..count {
            assert!(persistent.adopt(gref, count as usize, gref.into()));
            assert!(persistent.give_back(Frame(gref), gref.into()).is_ok());
        }
        persistent
    }

    /// How many frames have been taken away, all of them older than those that were left.
    fn oldest(persistent: &mut Persistent<Frame>, out: &KVec<Frame>, count: u32) -> usize {
        for gref in 0..count {
            let is_out = out.iter().any(|frame| frame.0 == gref);
            assert_eq!(is_out, (gref as usize) < out.len());
            assert_eq!(matches!(persistent.take(gref), Lookup::Unknown), is_out);
        }
        out.len()
    }

    #[test]
    fn a_frame_is_one_requests_at_a_time() {
        let mut persistent = filled(3);
        let Lookup::Mapped(frame) = persistent.take(1) else {
            assert!(false);
            return;
        };
        assert_eq!(frame, Frame(1));
        assert!(matches!(persistent.take(1), Lookup::InUse));
        assert!(matches!(persistent.take(3), Lookup::Unknown));
        assert!(persistent.give_back(frame, 9).is_ok());
        assert!(matches!(persistent.take(1), Lookup::Mapped(Frame(1))));
    }

    #[test]
    fn a_reference_has_one_place() {
        let mut persistent = filled(3);
        assert!(!persistent.adopt(1, 10, 0));
        // Somebody else's mapping of the same reference does not take the place.
        assert_eq!(persistent.give_back(Frame(1), 0), Err(Frame(1)));
        assert_eq!(persistent.give_back(Frame(7), 0), Err(Frame(7)));
        assert_eq!(persistent.count(), 3);
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let mut persistent = filled(3);
        assert!(!persistent.adopt(5, 3, 0));
        assert!(persistent.adopt(5, 4, 0));
        assert!(!persistent.adopt(6, 0, 0));
    }

    #[test]
    fn what_was_not_used_for_long_goes() {
        let mut persistent = filled(100);
        let mut out = KVec::new();
        persistent.expire(Some(40), 1000, &mut out);
        assert_eq!(persistent.count(), 60);
        assert_eq!(oldest(&mut persistent, &out, 100), 40);
    }

    #[test]
    fn nothing_goes_without_need() {
        let mut persistent = filled(100);
        let mut out = KVec::new();
        persistent.expire(None, 100, &mut out);
        assert!(out.is_empty());
        assert_eq!(persistent.count(), 100);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut persistent = filled(100);
        let mut out = KVec::new();
        // There was no place for one.
        assert!(!persistent.adopt(200, 100, 0));
        persistent.expire(None, 100, &mut out);
        assert_eq!(persistent.count(), 95);
        assert_eq!(oldest(&mut persistent, &out, 100), 5);
    }

    #[test]
    fn a_lower_limit_takes_effect() {
        let mut persistent = filled(100);
        let mut out = KVec::new();
        persistent.expire(None, 20, &mut out);
        assert_eq!(persistent.count(), 19);
        assert_eq!(oldest(&mut persistent, &out, 100), 81);
        persistent.expire(None, 0, &mut out);
        // The test has taken the others, which are in use.
        assert_eq!(persistent.count(), 19);
    }

    #[test]
    fn what_is_in_use_stays() {
        let mut persistent = filled(10);
        let taken = persistent.take(0);
        assert!(matches!(taken, Lookup::Mapped(Frame(0))));
        let mut out = KVec::new();
        persistent.clear(&mut out);
        assert_eq!((persistent.count(), out.len()), (1, 9));
        assert!(matches!(persistent.take(0), Lookup::InUse));
        assert!(persistent.give_back(Frame(0), 0).is_ok());
        persistent.clear(&mut out);
        assert_eq!((persistent.count(), out.len()), (0, 10));
    }

    #[test]
    fn those_of_one_time_go_together() {
        let mut persistent = Persistent::new();
        for gref in 0..50 {
            assert!(persistent.adopt(gref, 50, 7));
            assert!(persistent.give_back(Frame(gref), 7).is_ok());
        }
        let mut out = KVec::new();
        persistent.expire(None, 40, &mut out);
        // No more than need be.
        assert_eq!(persistent.count(), 38);
    }
}
