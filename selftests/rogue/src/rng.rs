// SPDX-License-Identifier: GPL-2.0

//! A small generator of numbers that repeat for the same seed.

/// Xorshift64*, enough to shuffle with and replayable from its seed.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator; every seed, zero included, is good.
    pub fn new(seed: u64) -> Self {
        // The state must not be zero. Spreading the seed keeps near seeds from starting alike.
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
        Self(if mixed == 0 { 1 } else { mixed })
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is of no concern to a test that only wants variety.
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// Shuffles `items` in place.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.draw(), rng.draw(), rng.below(10)]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Rng::new(0).below(0), 0);
    }

    #[test]
    fn shuffling_keeps_the_items() {
        let mut items: Vec<u32> = (0..32).collect();
        Rng::new(1).shuffle(&mut items);
        assert_ne!(items, (0..32).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..32).collect::<Vec<_>>());
    }
}
