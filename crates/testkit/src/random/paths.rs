// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random paths: mostly such as lead somewhere, in all the spellings that paths have.

use super::Gen;
use crate::op::{Dir, Path, Slot};

/// Names of new things.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"x"];
/// Links that some tree has.
const LINKS: &[&[u8]] = &[
    b"lf", b"la", b"labs", b"dot", b"dang", b"loop1", b"lroot", b"l2", b"lslash", b"lp",
];

/// A path without slashes at either end or twice, and without dots.
pub(super) fn plain(path: &[u8]) -> Vec<u8> {
    let parts = path
        .split(|&b| b == b'/')
        .filter(|p| !p.is_empty() && *p != b".");
    let parts: Vec<&[u8]> = parts.collect();
    parts.join(&b'/')
}

impl Gen {
    fn name(&mut self) -> Vec<u8> {
        match self.rng.below(60) {
            0 => vec![b'n'; 255],
            1 => vec![b'n'; 256],
            2 | 3 => self.rng.pick(LINKS).to_vec(),
            _ => self.rng.pick(NAMES).to_vec(),
        }
    }

    fn known(&mut self) -> Vec<u8> {
        if self.known.is_empty() {
            return self.name();
        }
        self.rng.pick(&self.known).clone()
    }

    /// A path to something that may exist.
    pub(super) fn old(&mut self) -> Path {
        let base = match self.rng.below(20) {
            0..14 => self.known(),
            14..17 => [self.known(), self.name()].join(&b'/'),
            17 => self.name(),
            18 => self.wild(),
            _ => self.odd(),
        };
        Path(self.spell(base))
    }

    /// A path to something that may be made.
    pub(super) fn new_path(&mut self) -> Path {
        let base = match self.rng.below(20) {
            0..10 => [self.known(), self.name()].join(&b'/'),
            10..14 => self.name(),
            14..18 => self.known(),
            18 => self.wild(),
            _ => self.odd(),
        };
        Path(self.spell(base))
    }

    /// Components at random.
    fn wild(&mut self) -> Vec<u8> {
        let parts: Vec<Vec<u8>> = (0..=self.rng.below(5))
            .map(|_| match self.rng.below(8) {
                0 => b"..".to_vec(),
                1 => b".".to_vec(),
                2 => self.rng.pick(LINKS).to_vec(),
                _ => self.name(),
            })
            .collect();
        parts.join(&b'/')
    }

    /// What is rarely asked for.
    fn odd(&mut self) -> Vec<u8> {
        match self.rng.below(9) {
            0 => Vec::new(),
            1 => b"/".to_vec(),
            2 => b".".to_vec(),
            3 => b"..".to_vec(),
            4 => [b"dot/".repeat(38 + self.rng.below(4)), self.known()].concat(),
            5 => [b"/".repeat(4090 + self.rng.below(8)), b"f".to_vec()].concat(),
            6 => [self.known(), vec![b'q'; 254 + self.rng.below(3)]].join(&b'/'),
            7 => [self.known(), b"../..".to_vec(), self.known()].join(&b'/'),
            _ => b"//a".to_vec(),
        }
    }

    /// The same place, spelt another way; now and then another place.
    fn spell(&mut self, mut path: Vec<u8>) -> Vec<u8> {
        let rooted = path.first() == Some(&b'/');
        if !rooted && !path.is_empty() && self.rng.below(2) == 0 {
            path.insert(0, b'/');
        }
        match self.rng.below(40) {
            0 | 1 => path.push(b'/'),
            2 => path.extend_from_slice(b"/."),
            3 => path.extend_from_slice(b"/.."),
            4 => path.extend_from_slice(b"//"),
            5 => self.splice(&mut path, b"//"),
            6 => self.splice(&mut path, b"/./"),
            7 => {
                let detour = [b"/".to_vec(), self.known(), b"/../".to_vec()].concat();
                self.splice(&mut path, &detour);
            }
            8 => path = [b"../".to_vec(), path].concat(),
            9 => path = [b"dot/".to_vec(), path].concat(),
            _ => {}
        }
        path
    }

    /// Replaces one slash.
    fn splice(&mut self, path: &mut Vec<u8>, with: &[u8]) {
        let slashes: Vec<usize> = path
            .iter()
            .enumerate()
            .filter(|(_, b)| **b == b'/')
            .map(|(i, _)| i)
            .collect();
        if !slashes.is_empty() {
            let at = *self.rng.pick(&slashes);
            path.splice(at..=at, with.iter().copied());
        }
    }

    /// Where relative paths start.
    pub(super) fn dir(&mut self) -> Dir {
        match self.rng.below(12) {
            0..9 => Dir::Cwd,
            11 if self.rng.one_in(4) => Dir::Bad,
            _ => Dir::Slot(self.slot()),
        }
    }

    /// A slot; the first ones more often, so that operations meet.
    pub(super) fn slot(&mut self) -> Slot {
        Slot(self.rng.weighted(&[(6, 0), (4, 1), (2, 2), (1, 3)]))
    }

    /// A link body.
    pub(super) fn body(&mut self) -> Path {
        match self.rng.below(12) {
            0 => Path(Vec::new()),
            1 => Path(self.wild()),
            2 => Path(vec![b'k'; 126 + self.rng.below(4)]),
            3 => Path(b"./".repeat(2047)),
            4 => Path(vec![b'k'; 4094 + self.rng.below(3)]),
            _ => self.old(),
        }
    }
}
