// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two trees of a view, as a commit needs them from the crate that builds views.

use crate::change::Change;
use crate::kept::{Kept, ViewLock};
use crate::path_bytes::PathBytes;
use crate::refusal::Refusal;
use openpath_overlay::SidesByPath;

/// Which of the two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The real one.
    Before,
    /// The view.
    Now,
}

/// A kept view and the real tree beside it. No other process can use the view meanwhile.
pub trait ViewTrees: Sized {
    /// Opens a view that is locked by this process.
    ///
    /// # Errors
    /// It cannot be read.
    fn hold(kept: &Kept, held: ViewLock) -> Result<Self, Refusal>;

    /// What changed, in the order of a walk.
    ///
    /// # Errors
    /// It cannot be read.
    fn changes(&self) -> Result<Vec<Change>, Refusal>;

    /// On which sides the attributes of directories changed, by path, once the changes were asked
    /// for; a directory is missing if nothing tells.
    fn sides(&self) -> &SidesByPath;

    /// The data of a regular file, or where a symbolic link leads; `None` of a longer one than
    /// `max` bytes, of what is neither, and of what this user may not read.
    ///
    /// # Errors
    /// It cannot be read for another reason.
    fn data(&self, side: Side, path: &PathBytes, max: usize) -> Result<Option<Vec<u8>>, Refusal>;

    /// Lets go of the view, and keeps its lock.
    fn close(self) -> Option<ViewLock>;
}
