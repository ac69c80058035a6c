// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the real tree had where something is to go or to come, so that it is known again: from the
//! plan until names are exchanged others may change it, while files are copied or, after an
//! interruption, for days.
//!
//! # Rules
//! R1. Everything is looked at before the first name is exchanged, and each name again before its
//!     own turn. What differs is left, and told.
//! R2. Files are known by number and time of change (`ctime`), a directory by what is in it: what
//!     moves out of it does not count, nor do its own times, which that changes.
//!
//! # Limits
//! * A file that has several names changes when one of them is exchanged, so its time does not
//!   count once some are.

use crate::Refusal;
use crate::commit::carry::Carry;
use crate::commit::facts::{Facts, Time};
use crate::commit::journal::Act;
use crate::commit::scan::{failed, text};
use crate::commit::tree::{Tree, join};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

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

    fn add(&mut self, facts: &Facts) {
        self.files += 1;
        let last = match facts.nlink {
            0 | 1 => &mut self.last,
            _ => &mut self.last_shared,
        };
        *last = (*last).max(Some(facts.ctime));
    }
}

impl Carry<'_> {
    /// Refuses if anything is not as it was planned for, no name being exchanged yet (R1).
    pub(crate) fn look_again(&self) -> Result<(), Refusal> {
        for moved in &self.journal.moves {
            let there = self.base.id(&moved.from);
            let there = there.map_err(|why| failed(&moved.from, why))?;
            if !there.is_some_and(|there| there.is(&moved.id)) {
                return Err(changed(&moved.from));
            }
        }
        for act in self.journal.acts.iter().filter(|act| !act.items.is_empty()) {
            let staged = self.base.id(&act.before);
            let staged = staged.map_err(|why| failed(&act.before, why))?;
            if !staged
                .zip(act.new)
                .is_some_and(|(staged, new)| staged.is(&new))
            {
                return Err(changed(&act.path));
            }
        }
        let moves = self.journal.moves.iter();
        let moves: HashSet<&[u8]> = moves.map(|moved| &moved.from[..]).collect();
        let leaves = |path: &[u8]| moves.contains(path);
        for act in &self.journal.acts {
            if let Some((place, seen)) = &act.seen
                && Seen::look(&self.base, place, &leaves)? != *seen
            {
                return Err(changed(place));
            }
        }
        for touch in &self.journal.touches {
            let (place, before) = (&touch.place, &touch.before);
            let said = |why| failed(place, why);
            let there = self.base.hold(place).map_err(said)?;
            let there = there.filter(|there| there.id().is(&touch.id));
            let there = there.ok_or_else(|| changed(place))?;
            let mut now = there.attributes().map_err(said)?;
            self.as_closed(&touch.id, &mut now, before.mode);
            let written = !there.facts.is_dir() && now.mtime != before.mtime;
            if written || !now.same(before) {
                return Err(changed(place));
            }
        }
        Ok(())
    }

    /// Refuses if what has a name is not as it was planned for, though it is the same (R1).
    pub(crate) fn look_at(&self, act: &Act) -> Result<(), Refusal> {
        let there = self.base.id(&act.path);
        let there = there.map_err(|why| failed(&act.path, why))?;
        if !there
            .zip(act.old)
            .is_some_and(|(there, old)| there.is(&old))
        {
            // It is exchanged already, or that finds out.
            return Ok(());
        }
        let Some((place, seen)) = &act.seen else {
            return Ok(());
        };
        // What leaves has left.
        let now = Seen::look(&self.base, &act.path, &|_| false)?;
        let ours = Seen {
            last_shared: seen.last_shared,
            ..now
        };
        if ours == *seen {
            Ok(())
        } else {
            Err(changed(place))
        }
    }
}

/// What the plan was made for is not there any more.
pub(crate) fn changed(path: &[u8]) -> Refusal {
    Refusal::new(format!("{} was changed during the commit", text(path)))
}
