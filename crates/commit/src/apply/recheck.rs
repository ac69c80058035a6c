// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks that the files of the real tree that a commit is about to change are still as the plan
//! saw them, and refuses to go on if one is not.
//!
//! # Rules
//! R1. All files are checked before the first name is exchanged, and each name again before its own
//!     turn. A file that differs is left, and reported.

use crate::attributes::file_stat::{FileStat, are_one};
use crate::journal::Replace;
use crate::journal::snapshot::Snapshot;
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::refusal::Refusal;
use crate::transaction::Transaction;
use std::collections::HashSet;

impl Transaction<'_> {
    /// Refuses if a file is not as the plan saw it, with no name exchanged yet (R1).
    pub(crate) fn recheck_all(&self) -> Result<(), Refusal> {
        for moved in &self.journal.moves {
            let there = self.base.id(&moved.from);
            let there = there.map_err(|why| failed(&moved.from, why))?;
            if !are_one(there, Some(moved.id)) {
                return Err(changed_meanwhile(&moved.from));
            }
        }
        for replace in self
            .journal
            .replacements
            .iter()
            .filter(|replace| !replace.items.is_empty())
        {
            let staged = self.base.id(&replace.before);
            let staged = staged.map_err(|why| failed(&replace.before, why))?;
            if !are_one(staged, replace.new) {
                return Err(changed_meanwhile(&replace.path));
            }
        }
        let moves = self.journal.moves.iter();
        let moves: HashSet<&[u8]> = moves.map(|moved| &moved.from[..]).collect();
        let leaves = |path: &[u8]| moves.contains(path);
        for replace in &self.journal.replacements {
            if let Some((place, snapshot)) = &replace.snapshot
                && !Snapshot::take(&self.base, place, &leaves)?.is_as(snapshot)
            {
                return Err(changed_meanwhile(place));
            }
        }
        for attrs in &self.journal.set_attrs {
            let (place, before) = (&attrs.place, &attrs.before);
            let fail = |why| failed(place, why);
            let there = self.base.hold(place).map_err(fail)?;
            let there = there.filter(|there| there.id().matches(&attrs.id));
            let there = there.ok_or_else(|| changed_meanwhile(place))?;
            let mut now = there.attributes().map_err(fail)?;
            self.with_closed_mode(&attrs.id, &mut now, before.mode);
            if self.is_touched(&there, attrs) || !now.same(before) {
                return Err(changed_meanwhile(place));
            }
        }
        Ok(())
    }

    /// Refuses if the file of a name has changed since the plan (R1).
    pub(crate) fn recheck(&self, replace: &Replace) -> Result<(), Refusal> {
        let there = self.base.stat(&replace.path);
        let there = there.map_err(|why| failed(&replace.path, why))?;
        if !are_one(there.as_ref().map(FileStat::id), replace.old) {
            // It is exchanged already, or the exchange finds out.
            return Ok(());
        }
        let Some((place, snapshot)) = &replace.snapshot else {
            return Ok(());
        };
        // Moving directories have left.
        let now = Snapshot::take_of(&self.base, (&replace.path, there), &|_| false)?;
        if now.is_same_but_for_shared(snapshot) {
            Ok(())
        } else {
            Err(changed_meanwhile(place))
        }
    }
}
