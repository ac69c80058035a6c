// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kept view, looked at while nobody runs in it.

use crate::changes::Compare;
use crate::plan::Plan;
use crate::view::{How, View};
use openpath_abi::Errno;
use openpath_commit::{Change, Kept, PathBytes, Refusal, Side, ViewLock, path_of, text_of};
use openpath_overlay::SidesByPath;

/// A kept view and the real tree beside it. Nobody can use the view meanwhile.
pub struct Inspect {
    compare: Compare,
    view: View,
}

impl Inspect {
    /// Opens a view.
    ///
    /// # Errors
    /// Someone uses it; it cannot be read.
    pub fn open(kept: &Kept) -> Result<Inspect, Refusal> {
        let held = openpath_commit::take_held(kept.at())?;
        Inspect::hold(kept, held)
    }

    /// Opens a view that is locked by this process.
    pub(crate) fn hold(kept: &Kept, held: ViewLock) -> Result<Inspect, Refusal> {
        let mut plan = Plan::default();
        plan.keep(kept);
        let plan = crate::guard::guard(&plan)?;
        let view = View::hold(&plan, Some(held), &How::default())?;
        Ok(Inspect {
            compare: view.compare()?,
            view,
        })
    }

    /// Lets go of the view, and keeps its lock.
    pub(crate) fn close(self) -> Option<ViewLock> {
        drop(self.compare);
        self.view.close()
    }

    /// What changed, in the order of a walk.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn changes(&self) -> Result<Vec<Change>, Refusal> {
        self.compare.all()
    }

    /// As [`Compare::sides`].
    pub(crate) fn sides(&self) -> &SidesByPath {
        self.compare.sides()
    }

    /// Where a path of the view is in the real tree: elsewhere, if a directory above it was
    /// renamed. The changes must have been asked for.
    ///
    /// # Errors
    /// It cannot be found out.
    pub fn place(&self, path: &PathBytes) -> Result<PathBytes, Refusal> {
        let said = |why| Refusal::step(&text_of(path.bytes()), why);
        let path = self.compare.place(path.bytes()).map_err(said)?;
        Ok(path_of(&path))
    }

    /// The data of a regular file, or where a symbolic link leads; `None` of a longer one than
    /// `max` bytes, of what is neither, and of what this user may not read.
    ///
    /// # Errors
    /// It cannot be read for another reason.
    pub fn data(
        &self,
        side: Side,
        path: &PathBytes,
        max: usize,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let said = |why| Refusal::step(&text_of(path.bytes()), why);
        match self.compare.data(side, path.bytes(), max) {
            Err(Errno::EACCES | Errno::EPERM) => Ok(None),
            data => data.map_err(said),
        }
    }
}
