// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two trees of a view, as `openpath-commit` needs them.

use crate::inspect::Inspect;
use openpath_commit::{Change, Kept, PathBytes, Refusal, Side, ViewLock, ViewTrees};
use openpath_overlay::SidesByPath;

/// What is going to be done to bring a view to the real tree.
pub type Commit = openpath_commit::Commit<Inspect>;

impl ViewTrees for Inspect {
    fn hold(kept: &Kept, held: ViewLock) -> Result<Inspect, Refusal> {
        Inspect::hold(kept, held)
    }

    fn changes(&self) -> Result<Vec<Change>, Refusal> {
        Inspect::changes(self)
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
