// SPDX-License-Identifier: GPL-2.0

//! The backend's half of a shared ring.
//!
//! C header: `include/xen/interface/io/ring.h`.
//!
//! A ring is a header of four indices and 12 words of padding, and then slots. A request and its
//! response share a slot. The indices run freely and wrap, so they are only ever compared by
//! subtraction. What the frontend writes is read once and then checked.
//!
//! [`BackRing`] is honest by itself; what a test needs to break the rules is kept apart in its last
//! `impl` block.

use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::sync::Arc;

/// Bytes before the first slot.
const HEADER: usize = 64;

/// Words of the header, by their place.
const REQ_PROD: usize = 0;
const REQ_EVENT: usize = 1;
const RSP_PROD: usize = 2;
const RSP_EVENT: usize = 3;

/// Memory that another party may change at any time.
pub trait Memory {
    /// Returns all of it as words.
    fn words(&self) -> &[AtomicU32];
}

impl Memory for Vec<AtomicU32> {
    fn words(&self) -> &[AtomicU32] {
        self
    }
}

impl<M: Memory> Memory for Arc<M> {
    fn words(&self) -> &[AtomicU32] {
        (**self).words()
    }
}

/// Number of slots of `slot` bytes in a ring of `bytes` bytes: a power of two.
pub fn entries(bytes: usize, slot: usize) -> u32 {
    let fit = bytes.saturating_sub(HEADER) / slot;
    // CAST: A ring has at most 16 pages.
    fit.checked_ilog2().map_or(0, |log| 1 << log)
}

/// Number of requests that can be taken: those published, but no more than can be answered.
fn takeable(size: u32, req_prod: u32, req_cons: u32, rsp_prod: u32) -> u32 {
    let published = req_prod.wrapping_sub(req_cons);
    let room = size.saturating_sub(req_cons.wrapping_sub(rsp_prod));
    published.min(room)
}

/// Whether moving a producer from `old` to `new` passes `event`, where the other side waits.
fn passes(old: u32, new: u32, event: u32) -> bool {
    new.wrapping_sub(event) < new.wrapping_sub(old)
}

/// The frontend published more requests than the ring holds.
#[derive(Debug, PartialEq, Eq)]
pub struct ImpossibleProducer {
    /// How many requests are open by its count.
    pub open: u32,
}

/// The backend's half of a ring in `M`.
pub struct BackRing<M> {
    memory: M,
    /// Words from one slot to the next.
    stride: usize,
    size: u32,
    req_cons: u32,
    rsp_prod: u32,
}

impl<M: Memory> BackRing<M> {
    /// Attaches to the ring that fills `memory`, with slots of `slot` bytes.
    ///
    /// The private indices start at the responses found, so that a ring in use can be taken over.
    ///
    /// # Errors
    ///
    /// Refuses a ring with more requests open than it has slots.
    pub fn attach(memory: M, slot: usize) -> Result<Self, ImpossibleProducer> {
        let size = entries(size_of_val(memory.words()), slot);
        let rsp_prod = memory.words()[RSP_PROD].load(Ordering::Relaxed);
        let ring = Self {
            memory,
            stride: slot / size_of::<u32>(),
            size,
            req_cons: rsp_prod,
            rsp_prod,
        };
        ring.open()?;
        Ok(ring)
    }

    /// Returns the number of slots.
    pub fn size(&self) -> u32 {
        self.size
    }

    fn header(&self, index: usize) -> &AtomicU32 {
        &self.memory.words()[index]
    }

    fn slot(&self, index: u32) -> &[AtomicU32] {
        let start = HEADER / size_of::<u32>() + (index & (self.size - 1)) as usize * self.stride;
        &self.memory.words()[start..start + self.stride]
    }

    /// Returns the number of requests without a response, after checking the frontend's producer.
    fn open(&self) -> Result<u32, ImpossibleProducer> {
        // Pairs with the frontend's write barrier before it publishes: slots up to this index can
        // be read afterwards.
        let req_prod = self.header(REQ_PROD).load(Ordering::Acquire);
        let open = req_prod.wrapping_sub(self.rsp_prod);
        if open > self.size {
            return Err(ImpossibleProducer { open });
        }
        Ok(open)
    }

    /// Takes the next request, copying its slot once into `out`.
    pub fn take(&mut self, out: &mut [u32]) -> Result<bool, ImpossibleProducer> {
        let req_prod = self.open()?.wrapping_add(self.rsp_prod);
        if takeable(self.size, req_prod, self.req_cons, self.rsp_prod) == 0 {
            return Ok(false);
        }
        self.peek(self.req_cons, out);
        self.req_cons = self.req_cons.wrapping_add(1);
        Ok(true)
    }

    /// Copies the slot of `index` once into `out`.
    fn peek(&self, index: u32, out: &mut [u32]) {
        for (word, shared) in out.iter_mut().zip(self.slot(index)) {
            *word = shared.load(Ordering::Relaxed);
        }
    }

    /// Writes the next response; the frontend sees it after [`Self::publish`].
    pub fn put(&mut self, response: &[u32]) {
        for (word, shared) in response.iter().zip(self.slot(self.rsp_prod)) {
            shared.store(*word, Ordering::Relaxed);
        }
        self.rsp_prod = self.rsp_prod.wrapping_add(1);
    }

    /// Publishes the responses written; returns whether the frontend asked for an event.
    pub fn publish(&mut self) -> bool {
        let old = self.header(RSP_PROD).load(Ordering::Relaxed);
        // The responses must be visible before the index that covers them.
        self.header(RSP_PROD)
            .store(self.rsp_prod, Ordering::Release);
        // And the index before the frontend's wish is read, or both sides could go to sleep.
        fence(Ordering::SeqCst);
        passes(
            old,
            self.rsp_prod,
            self.header(RSP_EVENT).load(Ordering::Relaxed),
        )
    }

    /// Asks for an event at the next request; returns whether one is there already.
    ///
    /// Wait only if this returned `false`.
    pub fn arm(&mut self) -> Result<bool, ImpossibleProducer> {
        self.header(REQ_EVENT)
            .store(self.req_cons.wrapping_add(1), Ordering::Relaxed);
        // The wish must be visible before the producer is read again.
        fence(Ordering::SeqCst);
        let req_prod = self.open()?.wrapping_add(self.rsp_prod);
        Ok(takeable(self.size, req_prod, self.req_cons, self.rsp_prod) != 0)
    }
}

/// What an honest backend has no use for.
impl<M: Memory> BackRing<M> {
    /// Whether every published request was taken and answered.
    pub fn is_idle(&self) -> bool {
        self.req_cons == self.rsp_prod
            && self.header(REQ_PROD).load(Ordering::Acquire) == self.rsp_prod
    }

    /// Whether the frontend, before it went to sleep, had taken every response.
    pub fn responses_taken(&self) -> bool {
        let event = self.header(RSP_EVENT).load(Ordering::Acquire);
        event == self.rsp_prod.wrapping_add(1)
    }

    /// Copies every request that is published and not yet taken, through `visit`.
    pub fn peek_published(&self, out: &mut [u32], mut visit: impl FnMut(&[u32])) {
        let req_prod = self.header(REQ_PROD).load(Ordering::Acquire);
        let count = takeable(self.size, req_prod, self.req_cons, self.rsp_prod);
        for i in 0..count {
            self.peek(self.req_cons.wrapping_add(i), out);
            visit(out);
        }
    }

    /// Stores a response producer that is `distance` away from the right one.
    pub fn displace_producer(&self, distance: i32) {
        let index = self.rsp_prod.wrapping_add_signed(distance);
        self.header(RSP_PROD).store(index, Ordering::Release);
    }

    /// Asks for the next event `distance` requests from now.
    pub fn arm_at(&self, distance: u32) {
        self.header(REQ_EVENT)
            .store(self.req_cons.wrapping_add(distance), Ordering::SeqCst);
    }

    /// Overwrites the words of the header that belong to the frontend, if it has no request open that
    /// would be lost by that; its next request puts them right.
    pub fn scribble_front(&self, mut random: impl FnMut() -> u32) -> bool {
        // The value shown must be impossible, or garbage would be taken from the slots.
        let lie = self.req_cons.wrapping_sub(1 + (random() & 0xffff));
        self.header(RSP_EVENT).store(random(), Ordering::Relaxed);
        self.header(REQ_PROD)
            .compare_exchange(self.req_cons, lie, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// Overwrites all of the ring, header included.
    pub fn scribble(&self, mut random: impl FnMut() -> u32) {
        for word in self.memory.words() {
            word.store(random(), Ordering::Relaxed);
        }
    }

    /// Returns the words of the response written last.
    pub fn last_response(&self) -> &[AtomicU32] {
        self.slot(self.rsp_prod.wrapping_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: usize = 112;

    fn memory(pages: usize, start: u32) -> Vec<AtomicU32> {
        let words: Vec<AtomicU32> = (0..pages * 1024).map(|_| AtomicU32::new(0)).collect();
        words[REQ_PROD].store(start, Ordering::Relaxed);
        words[REQ_EVENT].store(start.wrapping_add(1), Ordering::Relaxed);
        words[RSP_PROD].store(start, Ordering::Relaxed);
        words[RSP_EVENT].store(start.wrapping_add(1), Ordering::Relaxed);
        words
    }

    /// What a frontend does to publish a request whose first word is `word`.
    fn request<M: Memory>(ring: &BackRing<M>, word: u32) {
        let index = ring.header(REQ_PROD).load(Ordering::Relaxed);
        ring.slot(index)[0].store(word, Ordering::Relaxed);
        ring.header(REQ_PROD)
            .store(index.wrapping_add(1), Ordering::Release);
    }

    #[test]
    fn sizes() {
        for (order, size) in [32, 64, 128, 256, 512].into_iter().enumerate() {
            assert_eq!(entries(4096 << order, SLOT), size);
            assert_eq!(entries(4096 << order, 108), size);
        }
        assert_eq!(entries(4096, 12), 256);
        assert_eq!(entries(64, SLOT), 0);
    }

    #[test]
    fn a_producer_passes_an_event_also_when_it_wraps() {
        assert!(passes(0, 1, 1));
        assert!(!passes(0, 1, 2));
        assert!(passes(0, 3, 2));
        assert!(!passes(5, 5, 5));
        assert!(passes(u32::MAX, 1, 0));
        assert!(!passes(u32::MAX - 1, u32::MAX, 0));
    }

    #[test]
    fn no_more_is_taken_than_can_be_answered() {
        assert_eq!(takeable(32, 10, 8, 8), 2);
        assert_eq!(takeable(32, 40, 32, 8), 8);
        assert_eq!(takeable(32, 40, 40, 8), 0);
        assert_eq!(takeable(32, 2, u32::MAX, u32::MAX - 1), 3);
    }

    #[test]
    fn requests_come_once_and_in_order_across_the_wrap() {
        let start = u32::MAX - 20;
        let mut ring = BackRing::attach(memory(1, start), SLOT).unwrap();
        let mut slot = [0; SLOT / 4];
        assert!(!ring.take(&mut slot).unwrap());
        assert!(!ring.arm().unwrap());

        for round in 0..10 {
            for i in 0..32 {
                request(&ring, round * 32 + i);
            }
            assert!(ring.arm().unwrap());
            for i in 0..32 {
                assert!(ring.take(&mut slot).unwrap());
                assert_eq!(slot[0], round * 32 + i);
            }
            assert!(!ring.take(&mut slot).unwrap());
            for i in 0..32 {
                ring.put(&[1000 + i, 0, 0]);
            }
            assert_eq!(ring.publish(), round == 0);
            assert_eq!(ring.slot(start)[0].load(Ordering::Relaxed), 1000);
        }
        assert!(ring.is_idle());
    }

    #[test]
    fn impossible_producers_are_refused() {
        let words = memory(1, 5);
        words[REQ_PROD].store(5 + 33, Ordering::Relaxed);
        let refused = BackRing::attach(words, SLOT).err();
        assert_eq!(refused, Some(ImpossibleProducer { open: 33 }));

        let mut ring = BackRing::attach(memory(1, 5), SLOT).unwrap();
        ring.header(REQ_PROD).store(4, Ordering::Relaxed);
        assert!(ring.take(&mut [0; SLOT / 4]).is_err());
        assert!(ring.arm().is_err());
    }

    #[test]
    fn a_ring_in_use_is_taken_over() {
        let words = memory(1, 7);
        words[REQ_PROD].store(9, Ordering::Relaxed);
        let mut ring = BackRing::attach(words, SLOT).unwrap();
        let mut slot = [0; SLOT / 4];
        assert!(ring.take(&mut slot).unwrap());
        assert!(ring.take(&mut slot).unwrap());
        assert!(!ring.take(&mut slot).unwrap());
    }

    #[test]
    fn scribbling_loses_no_request() {
        let mut ring = BackRing::attach(memory(1, 0), SLOT).unwrap();
        request(&ring, 1);
        assert!(!ring.scribble_front(|| 77));
        assert!(ring.take(&mut [0; SLOT / 4]).unwrap());
        ring.put(&[0; 3]);
        assert!(ring.scribble_front(|| 77));
        assert!(ring.take(&mut [0; SLOT / 4]).is_err());
        ring.header(REQ_PROD).store(2, Ordering::Release);
        assert!(ring.take(&mut [0; SLOT / 4]).unwrap());
    }

    #[test]
    fn a_displaced_producer_is_only_shown() {
        let mut ring = BackRing::attach(memory(1, 0), SLOT).unwrap();
        ring.displace_producer(-3);
        let shown = ring.header(RSP_PROD).load(Ordering::Relaxed);
        assert_eq!(shown, 0u32.wrapping_sub(3));
        request(&ring, 1);
        assert!(ring.take(&mut [0; SLOT / 4]).unwrap());
        ring.put(&[0; 3]);
        ring.publish();
        assert_eq!(ring.header(RSP_PROD).load(Ordering::Relaxed), 1);
    }
}
