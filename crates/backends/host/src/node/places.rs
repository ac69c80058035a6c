// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names that a file was found under.
//!
//! # Kernel analogue
//! The aliases of an inode (`i_dentry`). There they are the entries of the cache; here they are
//! what a file is looked for by once its handle was given up, also for who has it open.
//!
//! # States
//! A name is entered when it is looked up, made or moved to, and taken out when it is removed or
//! moved away here. What others do is not heard of in time: a name may be dead, so that each is
//! tried, the latest first. A file without a known name keeps its handles, as one without any name
//! does, until a lookup finds one.
//!
//! # Rules
//! R1. A directory has one place at most.
//! R2. What is taken out or pushed out is handed back, to be dropped where no lock is held.

use super::Node;
use std::sync::Arc;

/// The most names that are known of one file; the one found longest ago goes first.
const KNOWN_MAX: usize = 16;

/// A name in a directory.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: Box<[u8]>,
}

impl Place {
    /// Whether both are one name. The directory may have become another node in between.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.parent.id == other.parent.id && self.name == other.name
    }
}

/// What is known of the names of one inode.
#[derive(Default)]
pub(crate) struct Places {
    last: Option<Place>,
    /// Those before it, the latest one at the end.
    before: Vec<Place>,
}

impl Places {
    pub(crate) fn of(place: Option<Place>) -> Self {
        Self {
            last: place,
            before: Vec::new(),
        }
    }

    /// The one it was last found under.
    pub(crate) fn last(&self) -> Option<&Place> {
        self.last.as_ref()
    }

    /// All of them, the latest first.
    pub(crate) fn all(&self) -> Vec<Place> {
        let before = self.before.iter().rev();
        self.last.iter().chain(before).cloned().collect()
    }

    /// Enters a name as the latest.
    #[must_use]
    pub(crate) fn enter(&mut self, place: Place) -> Option<Place> {
        let known = self.take_out(&place);
        if let Some(last) = self.last.replace(place) {
            self.before.push(last);
        }
        let over = self.before.len() >= KNOWN_MAX;
        known.or_else(|| over.then(|| self.before.remove(0)))
    }

    /// Takes a name out.
    #[must_use]
    pub(crate) fn take_out(&mut self, place: &Place) -> Option<Place> {
        if self.last.as_ref().is_some_and(|last| last.is(place)) {
            let next = self.before.pop();
            return std::mem::replace(&mut self.last, next);
        }
        let at = self.before.iter().position(|known| known.is(place))?;
        Some(self.before.remove(at))
    }

    /// Puts one in place of all.
    #[must_use]
    pub(crate) fn replace(&mut self, place: Place) -> Self {
        std::mem::replace(self, Self::of(Some(place)))
    }

    /// Takes one out, whichever; none: there is none left.
    pub(crate) fn pop(&mut self) -> Option<Place> {
        self.before.pop().or_else(|| self.last.take())
    }
}
