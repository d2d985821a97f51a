// SPDX-License-Identifier: GPL-2.0

//! A page that is shared with a peer who may write to it at any moment.
//!
//! Writes that the peer has planned happen just before accesses of the code that is tested, on the same thread: so
//! they are the same each time, and yet in the midst of what that code does.

use crate::ring::Memory;
use std::{
    cell::RefCell,
    collections::VecDeque,
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    },
};

/// Size of a page, in bytes.
pub const SIZE: usize = 4096;
const WORDS: usize = SIZE / 4;

#[repr(C, align(64))]
struct Words([AtomicU32; WORDS]);

/// What the peer will write.
struct Plan {
    /// After so many accesses.
    after: u8,
    offset: usize,
    value: u32,
}

struct Peer {
    words: NonNull<Words>,
    plans: VecDeque<Plan>,
    /// All values that the two producer indices have had, in order: of requests, and of responses.
    history: [Vec<u32>; 2],
}

impl Peer {
    fn write(&mut self, offset: usize, value: u32) {
        let word = (offset / 4) % WORDS;
        match word {
            0 => self.history[0].push(value),
            2 => self.history[1].push(value),
            _ => {}
        }
        // SAFETY: The page lives longer than its peer, and is made of atomics.
        unsafe { self.words.as_ref() }.0[word].store(value, Ordering::Relaxed);
    }
}

thread_local! {
    static PEER: RefCell<Option<Peer>> = const { RefCell::new(None) };
}

/// Called before each access to shared memory: the peer does what it has planned for this moment.
pub fn disturb() {
    PEER.with_borrow_mut(|peer| {
        let Some(peer) = peer else { return };
        while let Some(plan) = peer.plans.front_mut() {
            if plan.after > 0 {
                plan.after -= 1;
                return;
            }
            let (offset, value) = (plan.offset, plan.value);
            peer.plans.pop_front();
            peer.write(offset, value);
        }
    });
}

/// A page and its peer. There is one at a time on a thread.
pub struct Shared {
    words: NonNull<Words>,
}

impl Shared {
    /// A page of zeros.
    pub fn new() -> Self {
        let words = Words([const { AtomicU32::new(0) }; WORDS]);
        let words = NonNull::from(Box::leak(Box::new(words)));
        PEER.set(Some(Peer {
            words,
            plans: VecDeque::new(),
            history: [vec![0], vec![0]],
        }));
        Self { words }
    }

    /// What a half of a ring has of it. It must not be used when the page is gone.
    pub fn view(&self) -> View {
        View(self.words.cast())
    }

    /// The peer writes a word now.
    pub fn write(&self, offset: usize, value: u32) {
        PEER.with_borrow_mut(|peer| {
            peer.as_mut()
                .expect("a page has a peer")
                .write(offset, value)
        });
    }

    /// The peer writes bytes now, in whole words.
    pub fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        for (index, word) in bytes.chunks_exact(4).enumerate() {
            let word = word.try_into().expect("four bytes");
            self.write(offset + 4 * index, u32::from_ne_bytes(word));
        }
    }

    /// The peer will write a word after so many accesses.
    pub fn plan(&self, after: u8, offset: usize, value: u32) {
        PEER.with_borrow_mut(|peer| {
            let plans = &mut peer.as_mut().expect("a page has a peer").plans;
            plans.push_back(Plan {
                after,
                offset,
                value,
            });
        });
    }

    /// The bytes that are there now.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        // SAFETY: The page is there as long as this value.
        let words = unsafe { self.words.as_ref() };
        let load = |word: &AtomicU32| word.load(Ordering::Relaxed).to_ne_bytes();
        let words = words.0[offset / 4..][..length / 4].iter();
        words.flat_map(load).collect()
    }

    /// Whether a producer index has ever had a value of this kind. The index of requests is that of offset 0.
    pub fn ever(&self, offset: usize, is_it: impl FnMut(&u32) -> bool) -> bool {
        PEER.with_borrow(|peer| {
            let history = &peer.as_ref().expect("a page has a peer").history;
            history[offset / 8].iter().rev().any(is_it)
        })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        PEER.set(None);
        // SAFETY: The page is from `Box::leak`, and nobody else has it any more.
        drop(unsafe { Box::from_raw(self.words.as_ptr()) });
    }
}

/// The memory of a ring in such a page.
pub struct View(NonNull<u8>);

// SAFETY: Rings are dropped before their page; it is aligned, and as large as told.
unsafe impl Memory for View {
    fn base(&self) -> NonNull<u8> {
        self.0
    }

    fn bytes(&self) -> usize {
        SIZE
    }
}
