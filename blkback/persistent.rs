// SPDX-License-Identifier: GPL-2.0

//! Frames that stay mapped.
//!
//! A frontend that offers persistent grants uses the same references again and again, so that their
//! frames can stay mapped. There are at most as many as `max_persistent_grants` says; those that have
//! not been used for long, and the oldest when there are too many, are unmapped.

use core::mem::replace;
use kernel::{
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNode, //
    },
};
use xen::grant::Mapping;

struct Entry {
    /// The mapping, unless a request has it.
    mapping: Option<Mapping>,
    /// When it was last used, in milliseconds.
    used: u64,
}

/// What is known of a reference.
pub(crate) enum Lookup {
    /// Its frame is mapped, and this is the mapping, to be [given back](Persistent::give_back).
    Mapped(Mapping),
    /// Another request has the mapping.
    InUse,
    /// Its frame is not mapped.
    Unknown,
}

/// The frames of one ring that stay mapped.
pub(crate) struct Persistent {
    tree: RBTree<u32, Entry>,
    count: usize,
    /// There was no place for a frame since the last [`expire`](Self::expire).
    overflowed: bool,
}

impl Persistent {
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
    pub(crate) fn take(&mut self, gref: u32) -> Lookup {
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
    pub(crate) fn give_back(&mut self, mapping: Mapping, now: u64) -> Result<(), Mapping> {
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
    pub(crate) fn expire(&mut self, before: Option<u64>, most: usize, out: &mut KVec<Mapping>) {
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
    pub(crate) fn clear(&mut self, out: &mut KVec<Mapping>) {
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
    fn remove_older(&mut self, before: u64, least: usize, out: &mut KVec<Mapping>) {
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
