// SPDX-License-Identifier: GPL-2.0

//! The frontend's half of a ring.

use std::io;
use std::sync::atomic::{fence, AtomicU32, Ordering};

use crate::gntalloc::Granted;
use crate::ring::{self, Memory};
use crate::sys::PAGE_SIZE;

const HEADER_WORDS: usize = 16;

/// A word of a ring's header, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Index {
    /// How many requests there are.
    ReqProd = 0,
    /// When the backend wants an event.
    ReqEvent = 1,
    /// How many responses there are.
    RspProd = 2,
    /// When the frontend wants an event.
    RspEvent = 3,
}

/// The memory of a ring, which several threads may change.
#[derive(Clone, Copy)]
pub struct View<'a> {
    words: &'a [AtomicU32],
    /// Words of a slot.
    stride: usize,
    size: u32,
}

impl<'a> View<'a> {
    /// A word of its header.
    pub fn index(self, index: Index) -> &'a AtomicU32 {
        // CAST: The discriminant is the place.
        &self.words[index as usize]
    }

    /// The words of the slot with a number.
    pub fn slot(self, number: u32) -> &'a [AtomicU32] {
        let start = HEADER_WORDS + (number % self.size) as usize * self.stride;
        &self.words[start..start + self.stride]
    }
}

/// A ring of one page.
pub struct FrontRing {
    page: Granted,
    /// Words of a slot.
    stride: usize,
    size: u32,
    produced: u32,
    consumed: u32,
}

impl FrontRing {
    /// A ring for domain 0 with slots of so many words.
    pub fn new(stride: usize) -> io::Result<Self> {
        let ring = Self {
            page: Granted::new(0)?,
            stride,
            size: ring::entries(PAGE_SIZE, stride * 4),
            produced: 0,
            consumed: 0,
        };
        ring.index(Index::ReqEvent).store(1, Ordering::Relaxed);
        ring.index(Index::RspEvent).store(1, Ordering::Relaxed);
        Ok(ring)
    }

    /// The reference of its page.
    pub fn gref(&self) -> u32 {
        self.page.gref()
    }

    /// Its memory.
    pub fn view(&self) -> View<'_> {
        View {
            words: self.page.words(),
            stride: self.stride,
            size: self.size,
        }
    }

    /// A word of its header.
    pub fn index(&self, index: Index) -> &AtomicU32 {
        self.view().index(index)
    }

    fn slot(&self, number: u32) -> &[AtomicU32] {
        self.view().slot(number)
    }

    /// How many requests have been put.
    pub fn produced(&self) -> u32 {
        self.produced
    }

    /// Goes on from another place: as many requests have been put and answered.
    pub fn skip_to(&mut self, number: u32) {
        self.produced = number;
        self.consumed = number;
        self.index(Index::RspEvent)
            .store(number.wrapping_add(1), Ordering::Relaxed);
    }

    /// Fills the next slot, which the backend does not see yet.
    pub fn put(&mut self, words: &[u32]) {
        for (place, word) in self.slot(self.produced).iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.produced = self.produced.wrapping_add(1);
    }

    /// Shows the backend what was put.
    pub fn publish(&self) {
        fence(Ordering::SeqCst);
        self.index(Index::ReqProd)
            .store(self.produced, Ordering::Release);
    }

    /// The next response, if there is one. Asks for an event for the one after it.
    pub fn take(&mut self) -> Option<Vec<u32>> {
        if self.index(Index::RspProd).load(Ordering::Acquire) == self.consumed {
            self.index(Index::RspEvent)
                .store(self.consumed.wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.index(Index::RspProd).load(Ordering::Acquire) == self.consumed {
                return None;
            }
        }
        let words = self.slot(self.consumed).iter();
        let words = words.map(|word| word.load(Ordering::Relaxed)).collect();
        self.consumed = self.consumed.wrapping_add(1);
        Some(words)
    }
}
