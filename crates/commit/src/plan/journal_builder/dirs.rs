// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds the directories in which names change to the journal of a commit: their inodes, and their
//! times (R3 of `journal_builder`).

use super::JournalBuilder;
use crate::host::names::split;
use crate::journal::RestoreMtime;
use std::collections::HashSet;

impl JournalBuilder<'_> {
    /// R3
    pub(super) fn add_mtimes(&mut self) {
        let mut touched: HashSet<&[u8]> = HashSet::new();
        for replace in &self.journal.replacements {
            touched.insert(split(&replace.before).0);
            touched.insert(split(&replace.path).0);
        }
        for moved in &self.journal.moves {
            touched.insert(split(&moved.from).0);
            touched.insert(split(&moved.stage).0);
        }
        let mut mtimes = Vec::new();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let shown = entry.upper_file.stat.mtime;
            let Some((real, stat)) = entry.beneath() else {
                // A new directory, into which another one moves.
                if touched.contains(&entry.path[..]) && self.selection.includes(at) {
                    mtimes.push(RestoreMtime {
                        path: entry.path.clone(),
                        path_before: entry.path.clone(),
                        id: None,
                        is_new: true,
                        atime: entry.upper_file.stat.atime,
                        before: shown,
                        after: Some(shown),
                    });
                }
                continue;
            };
            let whole = self.selection.covered[at]
                && entry.is_replaced() != Some(true)
                && !self.baseline.changed_after(entry, stat.mtime);
            let differs = whole && shown != stat.mtime;
            if differs || touched.contains(&real[..]) || touched.contains(&entry.path[..]) {
                mtimes.push(RestoreMtime {
                    path: entry.path.clone(),
                    path_before: real.clone(),
                    id: Some(stat.id()),
                    is_new: false,
                    atime: stat.atime,
                    before: stat.mtime,
                    after: whole.then_some(shown),
                });
            }
        }
        self.journal.mtimes = mtimes;
    }

    /// Records the inodes of the directories in which names change.
    pub(super) fn record_dirs(&mut self) {
        let journal = &self.journal;
        let replacements = journal.replacements.iter();
        let moves = journal.moves.iter();
        let set_attrs = journal.set_attrs.iter();
        let before: HashSet<&[u8]> = replacements
            .clone()
            .map(|replace| &replace.before)
            .chain(moves.clone().flat_map(|moved| [&moved.from, &moved.stage]))
            .map(|path| split(path).0)
            .collect();
        let after: HashSet<&[u8]> = replacements
            .flat_map(|replace| [&replace.path, &replace.hidden])
            .chain(set_attrs.map(|attrs| &attrs.path))
            .map(|path| split(path).0)
            .collect();
        let (mut real, mut shown) = (Vec::new(), Vec::new());
        for entry in &self.scan.entries {
            let Some((place, stat)) = entry.beneath() else {
                continue;
            };
            if before.contains(&place[..]) {
                real.push((place.clone(), stat.id()));
            }
            if after.contains(&entry.path[..]) {
                shown.push((entry.path.clone(), stat.id()));
            }
        }
        real.sort();
        shown.sort();
        (self.journal.before, self.journal.after) = (real, shown);
    }
}
