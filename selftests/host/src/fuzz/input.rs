// SPDX-License-Identifier: GPL-2.0

//! The bytes of a fuzzer, taken one after the other.

/// What is left of them.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes; behind the end there are zeros.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let found = self.slice(N);
        array[..found.len()].copy_from_slice(found);
        array
    }

    /// The next bytes, as many as there are.
    pub fn slice(&mut self, most: usize) -> &'a [u8] {
        let (slice, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        slice
    }

    /// The next text: its length comes before it.
    pub fn text(&mut self) -> &'a [u8] {
        let length = self.u8();
        self.slice(length.into())
    }

    pub fn flag(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    pub fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}
