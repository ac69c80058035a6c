// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds the directories that move to the journal of a commit, and finds hidden names under which
//! they wait (R1 of `journal_builder`).

use super::JournalBuilder;
use crate::attributes::file_stat::FileStat;
use crate::attributes::xattrs::Xattrs;
use crate::host::names::{join, split};
use crate::journal::{Bytes, Move, Replace};
use crate::plan::selection::alters_real_tree;
use crate::report::messages::{failed, shown};
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::Entry;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

impl JournalBuilder<'_> {
    pub(super) fn add_move(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let Some((from, stat)) = entry.beneath() else {
            return Ok(());
        };
        self.journal.moves.push(Move {
            from: from.clone(),
            to: entry.path.clone(),
            stage: Rc::from([]),
            id: stat.id(),
        });
        let old = self.replaced(entry).map(FileStat::id);
        let snapshot = self.snapshot(entry)?;
        self.journal.replacements.push(Replace {
            path: entry.path.clone(),
            hidden: Rc::from([]),
            before: Rc::from([]),
            new: Some(stat.id()),
            old,
            copy: None,
            items: Vec::new(),
            kept: Xattrs::default(),
            stamps: Vec::new(),
            snapshot,
        });
        Ok(())
    }

    /// Finds staging paths for directories that move (R1).
    pub(super) fn plan_staging(&mut self) -> Result<(), Refusal> {
        let mut going: HashSet<Bytes> = self.scan.sources.clone();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let leaves =
                self.selection.includes(at) && alters_real_tree(entry) && entry.here.is_some();
            going.extend(entry.place.clone().filter(|_| leaves));
        }
        let replacements = self.journal.replacements.iter().enumerate();
        let replacements: HashMap<Bytes, usize> = replacements
            .map(|(at, replace)| (replace.path.clone(), at))
            .collect();
        let entries = self.scan.entries.iter();
        let entries: HashMap<&[u8], &Entry> =
            entries.map(|entry| (&entry.path[..], entry)).collect();
        for number in 0..self.journal.moves.len() {
            let name = self.hidden_name();
            let (from, to) = {
                let moved = &self.journal.moves[number];
                (moved.from.clone(), moved.to.clone())
            };
            let mut top = &from[..];
            let mut at = &from[..];
            while !at.is_empty() {
                if going.contains(at) {
                    top = at;
                }
                at = split(at).0;
            }
            let above = split(top).0;
            self.check_same_mount(&entries, &from, (above, &to))?;
            let stage: Bytes = join(above, &name).into();
            self.journal.moves[number].stage.clone_from(&stage);
            if let Some(at) = replacements.get(&to) {
                let replace = &mut self.journal.replacements[*at];
                replace.hidden.clone_from(&stage);
                replace.before = stage;
            }
        }
        Ok(())
    }

    /// Refuses a move from one file system to another.
    fn check_same_mount(
        &self,
        entries: &HashMap<&[u8], &Entry>,
        from: &[u8],
        (stage, to): (&[u8], &[u8]),
    ) -> Result<(), Refusal> {
        let mount = |path: &[u8]| {
            let stat = self.base.stat(path).map_err(|why| failed(path, why))?;
            Ok(stat.map(|stat| stat.mount))
        };
        let mut dir = split(to).0;
        let known = loop {
            match entries.get(dir).and_then(|entry| entry.beneath()) {
                Some((_, stat)) => break Some(stat.mount),
                None if dir.is_empty() => break None,
                None => dir = split(dir).0,
            }
        };
        let own = mount(from)?;
        if own == known && own == mount(stage)? && own == mount(split(from).0)? {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Unsupported,
            format!(
                "{} was renamed to {}, which is on another file system: copy it in the view \
                 instead",
                shown(from),
                shown(to)
            ),
        ))
    }
}
