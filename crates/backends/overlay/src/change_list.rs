// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a list of the names that an overlay changed, which `openpath diff` shows and `commit`
//! applies.
//!
//! # Rules
//! R1. A name is held with its own bytes and the number of its directory, never with its path: the
//!     paths of a deep tree are far longer together than its names.
//! R2. Changes come in the order of a walk: a directory, then all that is below it, then the next
//!     name.

use crate::attrs::{Sides, SidesByPath};
use openpath_abi::Errno;
use std::convert::Infallible;
use std::fmt;

/// How a name changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It was removed.
    Deleted,
    /// It has other content, or another type.
    Modified,
    /// Owner, mode, times or extended attributes differ, or an equal file replaces it.
    Attributes,
    /// It has this path in the lower trees; other changes of it are reported apart.
    Renamed(Vec<u8>),
}

/// One name that differs from the lower trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its path from the root, with a leading slash.
    pub path: Vec<u8>,
    /// How it changed.
    pub kind: ChangeKind,
    /// The number of names that were below a deleted directory, except for those that moved; 0
    /// where they are changes of their own.
    pub below: u64,
}

/// A [`Change`] whose parts are borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ChangeRef<'a> {
    /// As [`Change::path`].
    pub path: &'a [u8],
    /// As [`Change::kind`].
    pub kind: &'a ChangeKind,
    /// As [`Change::below`].
    pub below: u64,
    /// Of a directory that is in the upper tree and in a lower one: where its attributes changed,
    /// if there is a record.
    pub sides: Option<Sides>,
}

/// The root, which has no name.
pub(crate) const ROOT: usize = 0;

/// Bytes of names for each reported change.
const NAME_MEAN: usize = 128;

struct Name {
    dir: usize,
    name: Box<[u8]>,
    kinds: Vec<ChangeKind>,
    below: u64,
    sides: Option<Sides>,
}

impl Name {
    fn new(dir: usize, name: &[u8]) -> Name {
        Name {
            dir,
            name: name.into(),
            kinds: Vec::new(),
            below: 0,
            sides: None,
        }
    }
}

/// All changes of an overlay.
pub struct Changes {
    names: Vec<Name>,
    count: usize,
    bytes: usize,
    max: usize,
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

impl Changes {
    pub(crate) fn new(max: usize) -> Changes {
        Changes {
            names: vec![Name::new(ROOT, b"")],
            count: 0,
            bytes: 0,
            max,
        }
    }

    /// Adds a name of a directory, without a change.
    ///
    /// # Errors
    /// `E2BIG`: the names are too long together.
    pub(crate) fn add_name(&mut self, dir: usize, name: &[u8]) -> Result<usize, Errno> {
        self.bytes += name.len();
        if self.bytes > self.max.saturating_mul(NAME_MEAN) {
            return Err(Errno::E2BIG);
        }
        self.names.push(Name::new(dir, name));
        Ok(self.names.len() - 1)
    }

    /// Adds a change of a name.
    ///
    /// # Errors
    /// `E2BIG`: there are too many changes.
    pub(crate) fn add(&mut self, at: usize, kind: ChangeKind) -> Result<(), Errno> {
        self.count += 1;
        if self.count > self.max {
            return Err(Errno::E2BIG);
        }
        let kinds = &mut self.names[at].kinds;
        // Most names have one.
        kinds.reserve_exact(1);
        kinds.push(kind);
        Ok(())
    }

    pub(crate) fn kinds(&mut self, at: usize) -> &mut Vec<ChangeKind> {
        &mut self.names[at].kinds
    }

    pub(crate) fn set_below(&mut self, at: usize, below: u64) {
        self.names[at].below = below;
    }

    pub(crate) fn set_sides(&mut self, at: usize, sides: Option<Sides>) {
        self.names[at].sides = sides;
    }

    /// Sorts the names, once all are added.
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

    /// Calls `each` for each change (R2).
    ///
    /// # Errors
    /// Those of `each`, which end it.
    pub fn each<E>(&self, mut each: impl FnMut(ChangeRef<'_>) -> Result<(), E>) -> Result<(), E> {
        self.walk(|path, name| {
            name.kinds.iter().try_for_each(|kind| {
                each(ChangeRef {
                    path,
                    kind,
                    below: name.below,
                    sides: name.sides,
                })
            })
        })
    }

    /// All changes, each with its whole path.
    #[must_use]
    pub fn all(&self) -> Vec<Change> {
        let mut all = Vec::new();
        let Ok(()) = self.each(|change| {
            all.push(Change {
                path: change.path.to_vec(),
                kind: change.kind.clone(),
                below: change.below,
            });
            Ok::<_, Infallible>(())
        });
        all
    }

    /// Where attributes of directories changed, by path, the root's being empty; directories
    /// without a record are missing.
    pub(crate) fn sides(&self) -> SidesByPath {
        let mut all = SidesByPath::new();
        all.extend(self.names[ROOT].sides.map(|sides| (Vec::new(), sides)));
        let Ok(()) = self.walk(|path, name| {
            all.extend(name.sides.map(|sides| (path.to_vec(), sides)));
            Ok::<_, Infallible>(())
        });
        all
    }

    /// Calls `each` for each name but the root, with its path.
    fn walk<E>(&self, mut each: impl FnMut(&[u8], &Name) -> Result<(), E>) -> Result<(), E> {
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
        // Where to go on, in which directory, and the length of its path.
        let mut todo = vec![(begin(ROOT), ROOT, 0)];
        while let Some((at, dir, length)) = todo.pop() {
            let Some(name) = self.names.get(at).filter(|name| name.dir == dir) else {
                continue;
            };
            path.truncate(length);
            path.push(b'/');
            path.extend_from_slice(&name.name);
            each(&path, name)?;
            todo.push((at + 1, dir, length));
            todo.push((begin(at), at, path.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeKind, Changes, ROOT};
    use crate::attrs::Sides;

    #[test]
    fn what_is_below_a_directory_follows_it() {
        let mut changes = Changes::new(100);
        let late = changes.add_name(ROOT, b"a-b").unwrap();
        let dir = changes.add_name(ROOT, b"a").unwrap();
        let last = changes.add_name(dir, b"z").unwrap();
        let inner = changes.add_name(dir, b"m").unwrap();
        let deep = changes.add_name(inner, b"x").unwrap();
        for at in [late, last, deep, dir] {
            changes.add(at, ChangeKind::Added).unwrap();
        }
        changes.sort();
        let all = changes.all();
        let paths: Vec<_> = all.iter().map(|change| &change.path[..]).collect();
        assert_eq!(paths, [&b"/a"[..], b"/a/m/x", b"/a/z", b"/a-b"]);
    }

    #[test]
    fn sides_are_those_of_their_directories_after_sorting() {
        let mut changes = Changes::new(100);
        let sides = |upper| Sides {
            upper,
            lower: !upper,
        };
        changes.set_sides(ROOT, Some(sides(false)));
        let late = changes.add_name(ROOT, b"b").unwrap();
        let dir = changes.add_name(ROOT, b"a").unwrap();
        let inner = changes.add_name(late, b"in").unwrap();
        changes.set_sides(inner, Some(sides(true)));
        changes.add(dir, ChangeKind::Added).unwrap();
        changes.sort();
        let mut all: Vec<_> = changes.sides().into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let want = [
            (b"".to_vec(), sides(false)),
            (b"/b/in".to_vec(), sides(true)),
        ];
        assert_eq!(all, want);
    }
}
