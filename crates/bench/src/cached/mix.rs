// SPDX-License-Identifier: MIT OR Apache-2.0
//! Chooses the next name to open: one of a few files, or a name that was never asked for.
//!
//! # Rules
//! R1. A name that is not cached is asked for once in a run and does not exist: a tmpfs keeps no
//!     entry of it, so no side can have it cached.
//! R2. Hits and misses come in a fixed order, spread evenly; every side gets the same share.

use std::ffi::CStr;
use std::sync::Arc;

use super::DIR;
use crate::paths::c_string;

/// How many files are opened repeatedly.
pub(super) const FILES: usize = 64;

/// A name to open.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// The absolute path.
    pub(super) path: Arc<CStr>,
    /// The path without its NUL.
    pub(super) bytes: Arc<[u8]>,
    /// Whether it exists, and so is cached.
    pub(super) hit: bool,
}

/// The names of one side.
pub(super) struct Mix {
    files: Vec<Name>,
    /// The share of cached names.
    percent: u64,
    turn: u64,
    /// Makes this side's missing names different from those of other sides.
    side: u64,
}

fn name(text: String, hit: bool) -> Name {
    let bytes = Arc::from(text.as_bytes());
    let path = c_string(text).into();
    Name { path, bytes, hit }
}

/// A file that exists.
pub(super) fn file(n: usize) -> Name {
    name(format!("{DIR}/f{n}"), true)
}

impl Mix {
    pub(super) fn new(percent: u64, side: u64) -> Self {
        Self {
            files: (0..FILES).map(file).collect(),
            percent,
            turn: 0,
            side,
        }
    }

    /// The next `count` names.
    pub(super) fn names(&mut self, count: u64) -> Vec<Name> {
        (0..count).map(|_| self.name()).collect()
    }

    fn name(&mut self) -> Name {
        let turn = self.turn;
        self.turn += 1;
        // 37 has no common factor with 100: each share is met in every hundred.
        if turn * 37 % 100 < self.percent {
            return self.files[turn as usize % FILES].clone();
        }
        name(format!("{DIR}/n{:x}-{turn:x}", self.side), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn shares_are_exact_and_missing_names_unique() {
        for percent in [0, 33, 89, 100] {
            let mut missing = HashSet::new();
            let mut hits = 0;
            for side in 0..2 {
                for name in Mix::new(percent, side).names(1000) {
                    hits += u64::from(name.hit);
                    assert!(name.hit || missing.insert(name.path.clone()), "{name:?}");
                }
            }
            assert_eq!(hits, 20 * percent);
        }
    }
}
