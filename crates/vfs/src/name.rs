// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines name keys, the form in which the dentry cache compares names, sixteen bytes at a time,
//! and splits a path into the keys of its components.
//!
//! A name of up to 16 bytes is its own key, zero-padded (no name contains NUL). A longer one has a
//! key that no short name can have: its keyed hash, then a NUL followed by its length and a top
//! bit.

use openpath_sync::HashKey;

/// Longest name that is its own key.
pub(crate) const SHORT_MAX: usize = 16;

/// The key of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct NameKey {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

const LONG: u64 = 1 << 63;
const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Eight bytes of `text` from `at` on, if there are as many.
#[inline(always)]
fn eight(text: &[u8], at: usize) -> Option<u64> {
    let chunk = text.get(at..at.wrapping_add(8))?;
    Some(u64::from_le_bytes(chunk.try_into().ok()?))
}

/// The bytes `start..end` of `text`, at most sixteen, zero-padded.
#[inline(always)]
pub(crate) fn window(text: &[u8], start: usize, end: usize) -> u128 {
    let len = end - start;
    debug_assert!(len <= 16 && end <= text.len());
    let kept = |word: u64, bytes: usize| {
        if bytes >= 8 {
            word
        } else {
            word & ((1u64 << (8 * bytes)) - 1)
        }
    };
    if let Some(lo) = eight(text, start) {
        if len <= 8 {
            return u128::from(kept(lo, len));
        }
        // The last eight bytes of the name overlap the first eight: shift out the known ones.
        let tail = eight(text, end - 8).unwrap_or_default() >> (8 * (16 - len));
        return u128::from(lo) | u128::from(tail) << 64;
    }
    // Fewer than eight bytes to the end of the text.
    if end >= 8
        && let Some(word) = eight(text, end - 8)
    {
        return if len == 0 {
            0
        } else {
            u128::from(word >> (64 - 8 * len))
        };
    }
    let mut word = 0u64;
    for &byte in text.get(start..end).unwrap_or_default().iter().rev() {
        word = word << 8 | u64::from(byte);
    }
    u128::from(word)
}

/// Up to eight bytes of `text` from `at` on, zero-padded past its end.
#[inline(always)]
fn word_at(text: &[u8], at: usize) -> u64 {
    if let Some(word) = eight(text, at) {
        return word;
    }
    let left = text.len() - at;
    if left == 0 {
        return 0;
    }
    match text.len().checked_sub(8).and_then(|last| eight(text, last)) {
        Some(word) => word >> (64 - 8 * left),
        None => text[at..]
            .iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// How many bytes of `word` come before its first slash; 8 if it has none.
#[inline(always)]
fn before_slash(word: u64) -> usize {
    let x = word ^ (ONES * b'/' as u64);
    ((x.wrapping_sub(ONES) & !x & TOPS).trailing_zeros() >> 3) as usize
}

impl NameKey {
    /// The component of `text` that begins at `start`: its key and its end.
    #[inline(always)]
    pub(crate) fn parse(hash: HashKey, text: &[u8], start: usize) -> (Self, usize) {
        let mut key = Self {
            lo: word_at(text, start),
            hi: 0,
        };
        let len = before_slash(key.lo);
        if len < 8 {
            key.lo &= (1 << (8 * len)) - 1;
            return (key, text.len().min(start + len));
        }
        if text.len() <= start + 8 {
            return (key, text.len());
        }
        key.hi = word_at(text, start + 8);
        let len = before_slash(key.hi);
        if len < 8 {
            key.hi &= (1 << (8 * len)) - 1;
            return (key, text.len().min(start + 8 + len));
        }
        if text.get(start + SHORT_MAX).is_none_or(|&next| next == b'/') {
            return (key, text.len().min(start + SHORT_MAX));
        }
        let end = component_end(text, start + SHORT_MAX);
        (Self::long(hash, &text[start..end]), end)
    }

    /// The key of `text[start..end]`.
    #[inline(always)]
    pub(crate) fn of(hash: HashKey, text: &[u8], start: usize, end: usize) -> Self {
        if end - start <= SHORT_MAX {
            let w = window(text, start, end);
            return Self {
                lo: w as u64,
                hi: (w >> 64) as u64,
            };
        }
        Self::long(hash, &text[start..end])
    }

    #[cold]
    fn long(hash: HashKey, name: &[u8]) -> Self {
        let mut h = name.len() as u64;
        for at in (0..name.len()).step_by(16) {
            let w = window(name, at, name.len().min(at + 16));
            h = hash.mix(w as u64 ^ h, (w >> 64) as u64 ^ h.rotate_left(29));
        }
        Self {
            lo: h,
            hi: LONG | (name.len() as u64) << 8,
        }
    }

    /// Whether the name is empty, `.` or `..`.
    #[inline(always)]
    pub(crate) fn is_empty_or_dots(self) -> bool {
        self.hi == 0 && matches!(self.lo, 0 | 0x2e | 0x2e2e)
    }

    /// Whether the name is longer than its key.
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.hi & 0xff == 0 && self.hi >> 8 != 0
    }

    /// Length of the name.
    pub(crate) fn len(self) -> usize {
        if self.is_long() {
            return ((self.hi & !LONG) >> 8) as usize;
        }
        let w = u128::from(self.lo) | u128::from(self.hi) << 64;
        (128 - w.leading_zeros()).div_ceil(8) as usize
    }

    /// The bytes of a short name.
    pub(crate) fn bytes(self) -> [u8; 16] {
        (u128::from(self.lo) | u128::from(self.hi) << 64).to_le_bytes()
    }

    /// The bucket hash of this name under the parent with index `parent`.
    #[inline(always)]
    pub(crate) fn hash_in(self, hash: HashKey, parent: u32) -> u64 {
        hash.hash(self.lo, self.hi, parent)
    }
}

/// The end of the component that starts at `start`: the next slash, or the end of `text`.
#[inline(always)]
pub(crate) fn component_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default()) ^ (ONES * b'/' as u64);
        let hit = word.wrapping_sub(ONES) & !word & TOPS;
        if hit != 0 {
            return at + (hit.trailing_zeros() >> 3) as usize;
        }
        at += 8;
    }
    while at < text.len() && text[at] != b'/' {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &[u8]) -> NameKey {
        NameKey::of(HashKey::new([3, 4]), name, 0, name.len())
    }

    #[test]
    fn short_names_are_their_own_key_wherever_they_stand() {
        let hash = HashKey::new([3, 4]);
        for len in 1..=16usize {
            let name: Vec<u8> = (0..len).map(|i| b'a' + i as u8).collect();
            for before in [0usize, 1, 7, 15, 20] {
                for after in [0usize, 1, 8, 30] {
                    let text = [vec![b'x'; before], name.clone(), vec![b'y'; after]].concat();
                    let k = NameKey::of(hash, &text, before, before + len);
                    assert_eq!(&k.bytes()[..len], &name[..]);
                    assert_eq!((k.len(), k.is_long(), k), (len, false, key(&name)));
                }
            }
        }
    }

    #[test]
    fn parsing_finds_the_same_ends_and_keys() {
        let hash = HashKey::new([3, 4]);
        for before in [0usize, 1, 5, 9] {
            for len in 0..40usize {
                for after in ["", "/", "/x", "/a/long/rest/of/the/path"] {
                    let name: Vec<u8> = (0..len).map(|i| b'a' + (i % 26) as u8).collect();
                    let text = [vec![b'x'; before], name.clone(), after.into()].concat();
                    let (key, end) = NameKey::parse(hash, &text, before);
                    assert_eq!(end, component_end(&text, before), "{before} {len} {after}");
                    assert_eq!(
                        key,
                        NameKey::of(hash, &text, before, end),
                        "{before} {len} {after}"
                    );
                }
            }
        }
    }

    #[test]
    fn long_names_differ_from_all_short_ones() {
        let a = key(&[b'a'; 17]);
        assert!(a.is_long());
        assert_eq!((a.len(), key(&[b'a'; 255]).len()), (17, 255));
        assert_ne!(a, key(&[b'a'; 18]));
        assert!(!key(b"abcdefghi").is_long());
    }

    #[test]
    fn components_end_at_slashes_or_the_end() {
        let text = b"abc/defghijklmnop/q";
        assert_eq!(component_end(text, 0), 3);
        assert_eq!(component_end(text, 4), 17);
        assert_eq!(component_end(text, 18), 19);
        assert_eq!(component_end(b"", 0), 0);
        assert_eq!(component_end(b"/", 0), 0);
    }
}
