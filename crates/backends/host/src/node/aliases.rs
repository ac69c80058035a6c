// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the names that a file was found under.
//!
//! # Kernel analogue
//! The aliases of an inode (`i_dentry`). There they are entries of the cache; here a file is looked
//! up by them once its handle was evicted, also where it is open.
//!
//! # States
//! A lookup, a creation and a move add a name; a removal and a move here take it out. Changes by
//! others arrive late, so a name may be dead: each is tried, the latest first. A file without a
//! known name keeps its handles, as one without any name does, until a lookup finds one.
//!
//! # Rules
//! R1. A directory has one alias at most.
//! R2. Names that are taken or pushed out are returned, to be dropped where no lock is held.

use super::Node;
use std::sync::Arc;

/// The most names that are kept of one file; the one found longest ago goes first.
const KNOWN_MAX: usize = 16;

/// A name in a directory.
#[derive(Clone)]
pub(crate) struct Alias {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: Box<[u8]>,
}

impl Alias {
    /// Whether both are one name. The directory may have become another node in between.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.parent.id == other.parent.id && self.name == other.name
    }
}

/// The known names of one inode.
#[derive(Default)]
pub(crate) struct Aliases {
    last: Option<Alias>,
    /// The earlier ones, the latest one at the end.
    before: Vec<Alias>,
}

impl Aliases {
    pub(crate) fn of(alias: Option<Alias>) -> Self {
        Self {
            last: alias,
            before: Vec::new(),
        }
    }

    /// The name it was last found under.
    pub(crate) fn last(&self) -> Option<&Alias> {
        self.last.as_ref()
    }

    /// All of them, the latest first.
    pub(crate) fn all(&self) -> Vec<Alias> {
        let before = self.before.iter().rev();
        self.last.iter().chain(before).cloned().collect()
    }

    /// Adds a name as the latest; returns the one that is pushed out.
    #[must_use]
    pub(crate) fn add(&mut self, alias: Alias) -> Option<Alias> {
        let known = self.remove(&alias);
        if let Some(last) = self.last.replace(alias) {
            self.before.push(last);
        }
        let over = self.before.len() >= KNOWN_MAX;
        known.or_else(|| over.then(|| self.before.remove(0)))
    }

    /// Takes a name out.
    #[must_use]
    pub(crate) fn remove(&mut self, alias: &Alias) -> Option<Alias> {
        if self.last.as_ref().is_some_and(|last| last.is(alias)) {
            let next = self.before.pop();
            return std::mem::replace(&mut self.last, next);
        }
        let at = self.before.iter().position(|known| known.is(alias))?;
        Some(self.before.remove(at))
    }

    /// Puts one name in place of all.
    #[must_use]
    pub(crate) fn replace(&mut self, alias: Alias) -> Self {
        std::mem::replace(self, Self::of(Some(alias)))
    }

    /// Takes any name out; `None` when there is none left.
    pub(crate) fn pop(&mut self) -> Option<Alias> {
        self.before.pop().or_else(|| self.last.take())
    }
}
