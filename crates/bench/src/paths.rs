// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the paths that every variant walks: disjoint chains, the same bytes on both sides.
//!
//! A path of depth d has d components of 4 to 15 bytes and shares none with another path, so no
//! variant finds its upper components warmed by the path before. The order of use is not the order
//! of creation.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// A small reproducible generator (xorshift).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let high = (u128::from(self.0) * limit as u128) >> 64;
        high as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }

    fn name(&mut self, len_min: usize) -> Vec<u8> {
        let len = len_min + self.below(16 - len_min);
        let letter = |_| LETTERS[self.below(LETTERS.len())];
        (0..len).map(letter).collect()
    }
}

/// One chain: the file at its end, and a name beside it that does not exist.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) file: CString,
    /// The absent name in the file's directory.
    pub(crate) missing: CString,
}

impl Chain {
    /// A chain to a file, without an absent name.
    pub(crate) fn of(file: &CStr) -> Self {
        Self {
            file: file.to_owned(),
            missing: CString::default(),
        }
    }

    /// The directories on the way to the file, outermost first, without the root.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &[u8]> {
        let path = self.file.to_bytes();
        (1..path.len())
            .filter(move |&i| path[i] == b'/')
            .map(move |i| &path[..i])
    }

    /// The outermost component of the file's path.
    pub(crate) fn top(&self) -> &[u8] {
        let mut names = self.file.to_bytes().split(|&b| b == b'/');
        names.nth(1).unwrap_or_default()
    }

    /// Changes both paths.
    pub(crate) fn change(&mut self, path: impl Fn(&[u8]) -> Vec<u8>) {
        for old in [&mut self.file, &mut self.missing] {
            *old = c_string(path(old.to_bytes()));
        }
    }

    /// Puts both below a directory.
    pub(crate) fn below(&mut self, dir: &[u8]) {
        self.change(|path| [dir, path].concat());
    }
}

/// `count` chains of `depth` components; equal arguments give equal chains.
pub(crate) fn chains(count: usize, depth: usize, seed: u64) -> Vec<Chain> {
    let mut rng = Rng::new(seed.wrapping_add(depth as u64));
    // Ordered, not hashed: a random hash would make counts differ from run to run.
    let mut tops = BTreeSet::new();
    let len_min = if count > 1000 { 6 } else { 4 };
    let mut top = |rng: &mut Rng| loop {
        let name = rng.name(len_min);
        if tops.insert(name.clone()) {
            return name;
        }
    };
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        let mut dir = Vec::new();
        if depth > 1 {
            dir.push(b'/');
            dir.extend(top(&mut rng));
        }
        for _ in 2..depth {
            dir.push(b'/');
            dir.extend(rng.name(4));
        }
        dir.push(b'/');
        let [last, mut absent] = [(); 2].map(|()| match depth {
            1 => top(&mut rng),
            _ => rng.name(4),
        });
        if absent == last {
            absent.truncate(3);
            absent.push(b'_');
        }
        out.push(Chain {
            file: c_string([&*dir, &last].concat()),
            missing: c_string([&*dir, &absent].concat()),
        });
    }
    out
}

/// The files of `chains`, or the absent names, shuffled into the order of use. The strings are in
/// that order in memory, so that in a cold run only the tree is cold.
pub(crate) fn rotation(chains: &[Chain], missing: bool) -> Vec<CString> {
    let mut order: Vec<&Chain> = chains.iter().collect();
    Rng::new(4242).shuffle(&mut order);
    let pick = |chain: &Chain| match missing {
        true => chain.missing.clone(),
        false => chain.file.clone(),
    };
    order.into_iter().map(pick).collect()
}

/// A path with its NUL; empty if it has one inside.
pub(crate) fn c_string(path: impl Into<Vec<u8>>) -> CString {
    CString::new(path).unwrap_or_default()
}

/// Returns paths in rotation.
#[derive(Clone, Debug)]
pub(crate) struct Ring<'a> {
    paths: &'a [CString],
    at: usize,
}

impl<'a> Ring<'a> {
    pub(crate) fn new(paths: &'a [CString], at: usize) -> Self {
        Self { paths, at }
    }

    #[inline(always)]
    pub(crate) fn next(&mut self) -> &'a CStr {
        let path = &self.paths[self.at];
        self.at += 1;
        if self.at == self.paths.len() {
            self.at = 0;
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn depth(path: &CStr) -> usize {
        path.to_bytes().iter().filter(|&&b| b == b'/').count()
    }

    #[test]
    fn chains_have_depth_and_share_nothing() {
        for want in [1, 2, 5, 16] {
            let chains = chains(64, want, 7);
            let mut tops = HashSet::new();
            for chain in &chains {
                assert_eq!((depth(&chain.file), depth(&chain.missing)), (want, want));
                assert_eq!(chain.dirs().count(), want - 1);
                assert_ne!(chain.file, chain.missing);
                assert!(tops.insert(chain.top()));
                let mut names = chain.file.to_bytes().split(|&b| b == b'/').skip(1);
                assert!(names.all(|name| (4..=15).contains(&name.len())));
            }
        }
    }

    #[test]
    fn order_of_use_is_reproducible_and_complete() {
        let chains = chains(64, 5, 7);
        let used = rotation(&chains, false);
        assert_eq!(used, rotation(&chains, false));
        assert_ne!(used[..3], [0, 1, 2].map(|i| chains[i].file.clone()));
        let mut ring = Ring::new(&used, 63);
        assert_eq!(ring.next(), used[63].as_c_str());
        assert_eq!(ring.next(), used[0].as_c_str());
        let all: HashSet<&CString> = used.iter().collect();
        assert_eq!(all.len(), 64);
    }
}
