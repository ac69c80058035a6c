// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others did to the real tree since the view took it.
//!
//! # Rules
//! R1. A view took a file when its copy was born, and a name that is gone when the whiteout last
//!     changed. What the real tree has there is as it was if it last changed (`ctime`) no later.
//!     What replaces these in the view is younger, and took nothing: the overlay gives it the time
//!     of what it replaces, and the times are noted before each run as well (`taken`). The first
//!     one counts.
//! R2. What a commit touched, or its undoing, is as it was if it did not change since then.
//! R4. What the view never saw is never removed, also with force: a directory that is to go, and
//!     holds a name that came since, is a conflict that force does not solve. A file that changed
//!     where no name came or went was seen.
//! R5. Attributes of a directory are a conflict if they changed on both sides since it was copied
//!     up, as its copy tells. Where it does not tell, as in a view of an older version, any change
//!     of the directory since counts if the attributes differ.
//! R3. Both sides alike is no conflict. A directory may gain and lose other names.
//!
//! # Limits
//! * A symbolic link, device or FIFO that replaced something in one run with others' change in
//!   between, under an ordinary user, was taken when it was made.
//! * Changes within one tick of the kernel's clock (4 ms at most) count as one.
//! * That others removed a file is not seen in a directory into which the view moved some.

use crate::facts::{Facts, Time};
use crate::journal::{Known, Taken};
use crate::names::{join, split};
use crate::notes::Notes;
use crate::refusal::Refusal;
use crate::tree::Tree;
use std::collections::HashMap;

/// When a view took what it changed.
pub(crate) struct Since {
    known: HashMap<Vec<u8>, Known>,
    /// When it took what its last run found in it.
    first: HashMap<Vec<u8>, Time>,
    /// When the view was made, for file systems that know no births.
    made: Time,
}

impl Since {
    /// Reads what is noted in the directory of a view, made at this second.
    pub(crate) fn new(view: &Notes, made: u64) -> Result<Since, Refusal> {
        let known = Known::read(view)?.into_iter();
        let taken = Taken::read(view)?.into_iter();
        Ok(Since {
            known: known.map(|known| (known.path.clone(), known)).collect(),
            first: taken.map(|taken| (taken.path, taken.since)).collect(),
            made: (i64::try_from(made).unwrap_or(i64::MAX), 0),
        })
    }

    /// The same of a path that the view took at a time, if that is known.
    pub(crate) fn is_later(&self, (path, taken): (&[u8], Option<Time>), time: Time) -> bool {
        let mut taken = taken.unwrap_or(self.made);
        if let Some(first) = self.first.get(path) {
            taken = taken.min(*first);
        }
        let mut at = path;
        loop {
            match self.known.get(at) {
                Some(known) if known.below || at.len() == path.len() => {
                    taken = taken.max(known.since);
                }
                _ => {}
            }
            if at.is_empty() {
                return time > taken;
            }
            at = split(at).0;
        }
    }

    /// Whether a directory of the real tree has nothing that the view saw before it made its own.
    pub(crate) fn is_apart(
        &self,
        base: &Tree,
        entry: (&[u8], Option<Time>),
        place: &[u8],
        here: &Facts,
    ) -> rustix::io::Result<bool> {
        let came = |facts: &Facts| self.is_later(entry, facts.btime.unwrap_or(facts.ctime));
        let mut names = 0;
        for name in base.names(place)? {
            if let Some(facts) = base.look(&join(place, &name))? {
                names += 1;
                if !came(&facts) {
                    return Ok(false);
                }
            }
        }
        Ok(names > 0 || came(here))
    }
}
