// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `ViewTrees`, the trait by which `openpath-commit` reads a view and the real tree, for
//! `Inspect`.

use crate::inspect::Inspect;
use openpath_commit::{
    Change, CommitObserver, KeptView, PathBytes, Refusal, Side, ViewLock, ViewTrees,
};
use openpath_overlay::SidesByPath;

/// A planned commit of a view.
pub type Commit = openpath_commit::Commit<Inspect>;

impl ViewTrees for Inspect {
    fn open_locked(kept: &KeptView, held: ViewLock) -> Result<Inspect, Refusal> {
        Inspect::open_locked(kept, held)
    }

    fn changes(&self, observer: &mut dyn CommitObserver) -> Result<Vec<Change>, Refusal> {
        Inspect::changes(self, observer)
    }

    fn sides(&self) -> &SidesByPath {
        Inspect::sides(self)
    }

    fn data(&self, side: Side, path: &PathBytes, max: usize) -> Result<Option<Vec<u8>>, Refusal> {
        Inspect::data(self, side, path, max)
    }

    fn close(self) -> Option<ViewLock> {
        Inspect::close(self)
    }
}

#[cfg(test)]
mod tests;
