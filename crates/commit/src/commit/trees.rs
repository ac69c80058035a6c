// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines by which calls a commit reads its two trees: the tree that the view shows, and the real
//! tree that it will change.
//!
//! The trait [`ViewTrees`] gives the list of changes, and the data of a file on either [`Side`].
//! The crate that builds views implements it, because this crate cannot open them.

use crate::kept::{KeptView, ViewLock};
use crate::report::change::Change;
use crate::report::path_bytes::PathBytes;
use crate::report::phase::CommitObserver;
use crate::report::refusal::Refusal;
use openpath_overlay::SidesByPath;

/// Which of the two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The real tree.
    Real,
    /// The view.
    View,
}

/// A kept view and the real tree beside it. No other process can use the view meanwhile.
pub trait ViewTrees: Sized {
    /// Opens a view that is locked by this process.
    ///
    /// # Errors
    /// It cannot be read.
    fn open_locked(kept: &KeptView, held: ViewLock) -> Result<Self, Refusal>;

    /// The changes, in the order of a walk; `observer` is told of names in `Phase::Comparing`.
    ///
    /// # Errors
    /// It cannot be read.
    fn changes(&self, observer: &mut dyn CommitObserver) -> Result<Vec<Change>, Refusal>;

    /// On which sides the attributes of directories changed, by path. The changes must have been
    /// read before; a directory without a record is missing.
    fn sides(&self) -> &SidesByPath;

    /// The data of a regular file, or the target of a symbolic link. `None` if it is longer than
    /// `max` bytes, of another type, or not readable for this user.
    ///
    /// # Errors
    /// It cannot be read for another reason.
    fn data(&self, side: Side, path: &PathBytes, max: usize) -> Result<Option<Vec<u8>>, Refusal>;

    /// Releases the view and returns its lock.
    fn close(self) -> Option<ViewLock>;
}
