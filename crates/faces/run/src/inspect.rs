// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a view that is kept on the disk, while no command runs in it: its changes, and the data of
//! files before and after.

use crate::changes::TreeComparison;
use crate::plan::Plan;
use crate::view::{View, ViewOptions};
use openpath_abi::Errno;
use openpath_commit::{
    Change, CommitObserver, KeptView, PathBytes, Phase, Refusal, Side, ViewLock, path_of, printable,
};
use openpath_overlay::SidesByPath;
use std::fmt;

/// A kept view and the real tree. No other process can use the view meanwhile.
pub struct Inspect {
    compare: TreeComparison,
    view: View,
}

impl fmt::Debug for Inspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspect").finish_non_exhaustive()
    }
}

impl Inspect {
    /// Opens a view.
    ///
    /// # Errors
    /// Another process uses it; it cannot be read.
    pub fn open(kept: &KeptView) -> Result<Inspect, Refusal> {
        let held = openpath_commit::lock_view_dir(kept.view_dir())?;
        Inspect::open_locked(kept, held)
    }

    /// Opens a view that is locked by this process.
    pub(crate) fn open_locked(kept: &KeptView, held: ViewLock) -> Result<Inspect, Refusal> {
        let mut plan = Plan::default();
        plan.keep_changes_in(kept);
        let plan = crate::guard::guard(&plan)?;
        let view_options = ViewOptions {
            is_compared: true,
            ..ViewOptions::default()
        };
        let view = View::open_locked(&plan, Some(held), &view_options)?;
        Ok(Inspect {
            compare: view.compare()?,
            view,
        })
    }

    /// Releases the view and returns its lock.
    pub(crate) fn close(self) -> Option<ViewLock> {
        drop(self.compare);
        self.view.close()
    }

    /// The changes, in the order of a walk; `observer` is told of names in [`Phase::Comparing`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn changes(&self, observer: &mut dyn CommitObserver) -> Result<Vec<Change>, Refusal> {
        let compared = &mut |done, of| observer.looked(Phase::Comparing, done, of);
        self.compare.all(compared)
    }

    /// As [`TreeComparison::sides`].
    pub(crate) fn sides(&self) -> &SidesByPath {
        self.compare.sides()
    }

    /// The path in the real tree of a path of the view, which differs if a directory above it was
    /// renamed. [`Inspect::changes`] must have been called.
    ///
    /// # Errors
    /// The real tree cannot be read.
    pub fn place(&self, path: &PathBytes) -> Result<PathBytes, Refusal> {
        let said = |why| Refusal::step(&printable(path.bytes()), why);
        let path = self.compare.place(path.bytes()).map_err(said)?;
        Ok(path_of(&path))
    }

    /// The data of a regular file, or the target of a symbolic link. `None` if it is longer than
    /// `max` bytes, of another type, or not readable for this user.
    ///
    /// # Errors
    /// It cannot be read for another reason.
    pub fn data(
        &self,
        side: Side,
        path: &PathBytes,
        max: usize,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let said = |why| Refusal::step(&printable(path.bytes()), why);
        match self.compare.data(side, path.bytes(), max) {
            Err(Errno::EACCES | Errno::EPERM) => Ok(None),
            data => data.map_err(said),
        }
    }
}
