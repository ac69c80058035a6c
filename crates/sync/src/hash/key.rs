// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the keyed hash that chooses an entry's bucket in a hash table: two folded multiplies.
//!
//! # Strength
//! Both factors of the first multiply hide a secret word. Without the key nobody can compute a hash
//! or name two inputs that collide: for two fixed inputs the low bits agree for about one key in as
//! many as there are buckets. (If one factor is 0, the product is 0 whatever the other is; that
//! takes a guess of 64 bits.)
//!
//! One multiply is not enough for many inputs at once. If only one factor varies, in equal steps,
//! as with `file1`, `file2`, ..., the low bits of either half of the product also advance in equal
//! steps. For one key in thirty these steps nearly repeat, and a chain of 20 results. The second
//! multiply, of the folded product with a constant and folded again, is not linear in any such
//! step. No family of names that we know how to choose without the key then crowds a chain more
//! than chance does. It also mixes in the salt, which need not be secret: two names collide under
//! two salts only if their first products differ by exactly that.
//!
//! This is no cryptographic hash. An attacker that can measure which names share a chain learns
//! about the key. So nothing relies on it for ever: a chain that grows too long makes the table
//! change its key.

/// Both halves of a product, folded into one.
#[inline(always)]
fn fold(x: u64, y: u64) -> u64 {
    let m = u128::from(x) * u128::from(y);
    (m as u64) ^ ((m >> 64) as u64)
}

/// A keyed hash of 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct HashKey {
    pub(super) a: u64,
    pub(super) b: u64,
}

impl HashKey {
    /// A hash with this secret.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Self {
        Self {
            a: secret[0] ^ 0x2545_f491_4f6c_dd1d,
            b: secret[1] ^ 0x9e6c_63d0_876a_3f6b,
        }
    }

    /// Mixes two words.
    #[inline(always)]
    #[must_use]
    pub fn mix(self, lo: u64, hi: u64) -> u64 {
        fold(lo ^ self.a, hi ^ self.b)
    }

    /// The hash of two words under a salt, for a table.
    #[inline(always)]
    #[must_use]
    pub fn hash(self, lo: u64, hi: u64, salt: u32) -> u64 {
        fold(self.mix(lo, hi) ^ u64::from(salt), 0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Names that differ little, as an attacker without the key can choose them.
    fn families() -> Vec<Vec<(u64, u64)>> {
        let count = 1u64 << 12;
        let spread =
            |step: u64, shift: u32| (0..count).map(move |i| (i.wrapping_mul(step) << shift, 0));
        let mut all: Vec<Vec<_>> = [0, 8, 16, 32, 40, 48, 52]
            .iter()
            .map(|&shift| spread(1, shift).collect())
            .collect();
        all.push(spread(0x0101_0101_0101_0101, 0).collect());
        all.push((0..count).map(|i| (0x6161_6161_6161_6161, i)).collect());
        all.push((0..count).map(|i| (i, i)).collect());
        all.push((0..count).map(|i| (i, !i)).collect());
        let decimal = |i: u64| {
            let mut bytes = [0u8; 16];
            let text = format!("file{i:08}");
            bytes[..text.len()].copy_from_slice(text.as_bytes());
            let (lo, hi) = bytes.split_at(8);
            let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap());
            (word(lo), word(hi))
        };
        all.push((0..count).map(decimal).collect());
        all
    }

    #[test]
    fn no_family_of_names_crowds_a_bucket_under_many_keys() {
        let mut seed = HashKey::new([7, 11]);
        for round in 0..256u64 {
            seed = HashKey::new([seed.mix(round, 1), seed.mix(round, 2)]);
            for (at, family) in families().iter().enumerate() {
                let mut buckets = vec![0u32; family.len()];
                for &(lo, hi) in family {
                    buckets[seed.hash(lo, hi, 77) as usize & (family.len() - 1)] += 1;
                }
                let longest = buckets.iter().max().unwrap();
                assert!(*longest < 14, "family {at}: {longest}");
            }
        }
    }
}
