// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the real tree had where something is to go or to come, so that it is known again. Others
//! may change it from the plan until names are exchanged: while files are copied or, after an
//! interruption, for days.
//!
//! # Rules
//! R1. Files are known by number and time of change (`ctime`), a directory by what is in it: what
//!     moves out of it does not count, nor do its own times, which that changes.
//!
//! # Limits
//! * A file that has several names changes when one of them is exchanged, so its time does not
//!   count once some are.

use crate::facts::{Facts, Time};
use crate::messages::failed;
use crate::names::join;
use crate::refusal::Refusal;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// What was under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    /// Files, with all that are in a directory.
    files: u64,
    /// Directories.
    dirs: u64,
    /// When the last file changed; none: there is none.
    last: Option<Time>,
    /// The same of those that have several names.
    last_shared: Option<Time>,
}

impl Seen {
    /// Looks at a name, and at all that is in a directory but for what `leaves` it.
    pub(crate) fn look(
        base: &Tree,
        path: &[u8],
        leaves: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Seen, Refusal> {
        let mut seen = Seen::default();
        let mut todo = vec![path.to_vec()];
        while let Some(path) = todo.pop() {
            let said = |why| failed(&path, why);
            match base.look(&path).map_err(said)? {
                Some(facts) if facts.is_dir() => {
                    seen.dirs += 1;
                    let names = base.names(&path).map_err(said)?;
                    let below = names.iter().map(|name| join(&path, name));
                    todo.extend(below.filter(|path| !leaves(path)));
                }
                Some(facts) => seen.add(&facts),
                None => {}
            }
        }
        Ok(seen)
    }

    /// Whether both are the same, whatever became of files with several names.
    pub(crate) fn is_same_but_for_shared(&self, other: &Seen) -> bool {
        let last_shared = other.last_shared;
        Seen {
            last_shared,
            ..*self
        } == *other
    }

    fn add(&mut self, facts: &Facts) {
        self.files += 1;
        let last = match facts.nlink {
            0 | 1 => &mut self.last,
            _ => &mut self.last_shared,
        };
        *last = (*last).max(Some(facts.ctime));
    }
}
