// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that changed, each kept once below its directory.
//!
//! # Rules
//! R1. A name is held with its own bytes and the number of its directory, never with its path: the
//!     paths of a deep tree are far longer together than its names.
//! R2. Changes come in the order of a walk: a directory, then all that is below it, then the next
//!     name.

use openpath_abi::Errno;

/// What became of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// It holds something else, or is another kind of file.
    Modified,
    /// Owner, mode, times or extended attributes are others, or an equal file replaces it.
    Attributes,
    /// It has this path in the lower trees; it may be changed besides, which is told apart.
    Renamed(Vec<u8>),
}

/// One name that is not as it is in the lower trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its path from the root, with a slash before it.
    pub path: Vec<u8>,
    /// What became of it.
    pub kind: ChangeKind,
    /// Names that were below a directory that is gone, without those that moved elsewhere; 0 where
    /// they are changes of their own.
    pub below: u64,
}

/// The root, which has no name.
pub(crate) const ROOT: usize = 0;

/// Bytes of names for each change that may be told.
const NAME_MEAN: usize = 128;

struct Name {
    dir: usize,
    name: Box<[u8]>,
    kinds: Vec<ChangeKind>,
    below: u64,
}

/// All changes of an overlay.
pub struct Changes {
    names: Vec<Name>,
    count: usize,
    bytes: usize,
    max: usize,
}

impl Changes {
    pub(crate) fn new(max: usize) -> Changes {
        let root = Name {
            dir: ROOT,
            name: Box::default(),
            kinds: Vec::new(),
            below: 0,
        };
        Changes {
            names: vec![root],
            count: 0,
            bytes: 0,
            max,
        }
    }

    /// Adds a name of a directory, to which nothing has happened yet.
    ///
    /// # Errors
    /// `E2BIG`: the names are too long together.
    pub(crate) fn add(&mut self, dir: usize, name: &[u8]) -> Result<usize, Errno> {
        self.bytes += name.len();
        if self.bytes > self.max.saturating_mul(NAME_MEAN) {
            return Err(Errno::E2BIG);
        }
        self.names.push(Name {
            dir,
            name: name.into(),
            kinds: Vec::new(),
            below: 0,
        });
        Ok(self.names.len() - 1)
    }

    /// Notes what became of a name.
    ///
    /// # Errors
    /// `E2BIG`: there are too many changes.
    pub(crate) fn note(&mut self, at: usize, kind: ChangeKind) -> Result<(), Errno> {
        self.count += 1;
        if self.count > self.max {
            return Err(Errno::E2BIG);
        }
        self.names[at].kinds.push(kind);
        Ok(())
    }

    pub(crate) fn kinds(&mut self, at: usize) -> &mut Vec<ChangeKind> {
        &mut self.names[at].kinds
    }

    pub(crate) fn set_below(&mut self, at: usize, below: u64) {
        self.names[at].below = below;
    }

    /// Brings the names in order, once all are known.
    pub(crate) fn sort(&mut self) {
        // A directory is always added before what is in it.
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order[1..].sort_unstable_by(|a, b| {
            let (a, b) = (&self.names[*a], &self.names[*b]);
            (a.dir, &a.name).cmp(&(b.dir, &b.name))
        });
        let mut place = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            place[*old] = new;
        }
        let mut names: Vec<Option<Name>> = std::mem::take(&mut self.names)
            .into_iter()
            .map(Some)
            .collect();
        for old in order {
            if let Some(mut name) = names[old].take() {
                name.dir = place[name.dir];
                self.names.push(name);
            }
        }
    }

    /// Tells each change (R2), with its path.
    ///
    /// # Errors
    /// What `tell` gives, which ends it.
    pub fn each<E>(
        &self,
        mut tell: impl FnMut(&[u8], &ChangeKind, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        // By directory, as `sort` left them.
        let mut first: Vec<(usize, usize)> = Vec::new();
        for (at, name) in self.names.iter().enumerate().skip(1) {
            if first.last().is_none_or(|(dir, _)| *dir != name.dir) {
                first.push((name.dir, at));
            }
        }
        first.sort_unstable();
        let begin = |dir: usize| {
            let found = first.binary_search_by_key(&dir, |(dir, _)| *dir);
            found.map_or(self.names.len(), |at| first[at].1)
        };
        let mut path = Vec::new();
        // Where to go on, in which directory, and how long its path is.
        let mut todo = vec![(begin(ROOT), ROOT, 0)];
        while let Some((at, dir, length)) = todo.pop() {
            let Some(name) = self.names.get(at).filter(|name| name.dir == dir) else {
                continue;
            };
            path.truncate(length);
            path.push(b'/');
            path.extend_from_slice(&name.name);
            for kind in &name.kinds {
                tell(&path, kind, name.below)?;
            }
            todo.push((at + 1, dir, length));
            todo.push((begin(at), at, path.len()));
        }
        Ok(())
    }

    /// All changes, each with its whole path.
    #[must_use]
    pub fn all(&self) -> Vec<Change> {
        let mut all = Vec::new();
        let told: Result<(), std::convert::Infallible> = self.each(|path, kind, below| {
            all.push(Change {
                path: path.to_vec(),
                kind: kind.clone(),
                below,
            });
            Ok(())
        });
        match told {
            Ok(()) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeKind, Changes, ROOT};

    #[test]
    fn what_is_below_a_directory_follows_it() {
        let mut changes = Changes::new(100);
        let late = changes.add(ROOT, b"a-b").unwrap();
        let dir = changes.add(ROOT, b"a").unwrap();
        let last = changes.add(dir, b"z").unwrap();
        let inner = changes.add(dir, b"m").unwrap();
        let deep = changes.add(inner, b"x").unwrap();
        for at in [late, last, deep, dir] {
            changes.note(at, ChangeKind::Added).unwrap();
        }
        changes.sort();
        let all = changes.all();
        let paths: Vec<_> = all.iter().map(|change| &change.path[..]).collect();
        assert_eq!(paths, [&b"/a"[..], b"/a/m/x", b"/a/z", b"/a-b"]);
    }
}
