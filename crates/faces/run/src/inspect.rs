// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kept view, looked at while nobody runs in it.

use crate::change::Change;
use crate::changes::Compare;
use crate::plan::{PathBytes, Plan};
use crate::view::View;
use crate::{Kept, Refusal};

/// Which of the two trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The real one.
    Before,
    /// The view.
    Now,
}

/// A kept view and the real tree beside it. Nobody can use the view meanwhile.
pub struct Inspect {
    compare: Compare,
    _view: View,
}

impl Inspect {
    /// Opens a view.
    ///
    /// # Errors
    /// Someone uses it; it cannot be read.
    pub fn open(kept: &Kept) -> Result<Inspect, Refusal> {
        let mut plan = Plan::default();
        plan.keep(kept);
        let view = View::build(&plan)?;
        Ok(Inspect {
            compare: view.compare()?,
            _view: view,
        })
    }

    /// What changed, by path.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn changes(&self) -> Result<Vec<Change>, Refusal> {
        self.compare.all()
    }

    /// The data of a regular file, or where a symbolic link leads; `None` of a longer one than
    /// `max` bytes, and of what is neither.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn data(
        &self,
        side: Side,
        path: &PathBytes,
        max: usize,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let said = |why| Refusal::step(&path.path().display().to_string(), why);
        self.compare.data(side, path.bytes(), max).map_err(said)
    }
}
