// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the directories that a commit moves by their old and new paths, without a search: a commit
//! may move as many as it has steps.

use crate::host::names::{at_and_above, split};
use crate::journal::{Bytes, Move};
use std::collections::HashMap;

/// The numbers of the moves in the journal, by path. No two moves share one.
#[derive(Debug)]
pub(crate) struct MoveIndex {
    from: HashMap<Bytes, usize>,
    to: HashMap<Bytes, usize>,
}

impl MoveIndex {
    pub(crate) fn new(moves: &[Move]) -> MoveIndex {
        let numbers = || moves.iter().enumerate();
        let from = numbers().map(|(number, moved)| (moved.from.clone(), number));
        let to = numbers().map(|(number, moved)| (moved.to.clone(), number));
        MoveIndex {
            from: from.collect(),
            to: to.collect(),
        }
    }

    /// The move to a path.
    pub(crate) fn to(&self, path: &[u8]) -> Option<usize> {
        self.to.get(path).copied()
    }

    /// The moves to a path and to directories above it, the nearest first.
    pub(crate) fn to_or_above(&self, path: &[u8]) -> impl Iterator<Item = usize> {
        at_and_above(path).filter_map(|path| self.to(path))
    }

    /// The move from the nearest directory above a path.
    pub(crate) fn by_source_above(&self, path: &[u8]) -> Option<usize> {
        at_and_above(split(path).0).find_map(|above| self.from.get(above).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::MoveIndex;
    use crate::attributes::file_stat::InodeId;
    use crate::journal::Move;

    #[test]
    fn moves_are_found_at_whole_names_of_a_path() {
        let moved = |from: &str, to: &str| Move {
            from: from.as_bytes().into(),
            to: to.as_bytes().into(),
            stage: b"".as_slice().into(),
            id: InodeId::default(),
        };
        let index = MoveIndex::new(&[moved("/a", "/x"), moved("/a/b", "/x/y"), moved("/c", "/z")]);
        let found = |path: &[u8]| index.to_or_above(path).collect::<Vec<_>>();
        assert_eq!(found(b"/x/y/w/v"), [1, 0]);
        assert_eq!(found(b"/x"), [0]);
        assert_eq!(found(b"/xy/y"), [0; 0]);
        assert_eq!(found(b""), [0; 0]);
        assert_eq!(index.by_source_above(b"/a/b/c"), Some(1));
        assert_eq!(index.by_source_above(b"/a/b"), Some(0));
        assert_eq!(index.by_source_above(b"/a"), None);
        assert_eq!(index.to(b"/z"), Some(2));
    }
}
