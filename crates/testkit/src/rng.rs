// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random numbers from a seed (splitmix64): a seed gives the same case on every machine.

/// A generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 {
            return 0;
        }
        usize::try_from(self.bits() % n as u64).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A random element.
    ///
    /// # Panics
    /// If `from` is empty.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A random element, each as often as its weight says.
    ///
    /// # Panics
    /// If `from` is empty.
    pub fn weighted<T: Copy>(&mut self, from: &[(usize, T)]) -> T {
        let sum: usize = from.iter().map(|(w, _)| w).sum();
        let mut at = self.below(sum);
        for (weight, value) in from {
            if at < *weight {
                return *value;
            }
            at -= weight;
        }
        from[0].1
    }
}
