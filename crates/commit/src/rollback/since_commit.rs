// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds what other users changed in the real tree, or commands in the view, since a commit was
//! done, so that an undo does not overwrite it.

use crate::attributes::file_stat::Time;
use crate::host::names::join;
use crate::journal::{Replace, SetAttrs, UpperCleanup};
use crate::plan::conflicts::{Conflict, ConflictKind};
use crate::report::messages::{failed, public_path};
use crate::report::refusal::Refusal;
use crate::transaction::{Transaction, store_path};
use std::collections::HashSet;

impl Transaction<'_> {
    /// Changes since a commit that is done, by others and in the view.
    ///
    /// # Errors
    /// The real tree or the view cannot be read.
    pub(crate) fn changes_since_commit(&self) -> Result<Vec<Conflict>, Refusal> {
        let done = self.journal.done.unwrap_or_default();
        let mut found = Vec::new();
        let conflict = |path: &[u8], kind, in_view| Conflict {
            path: public_path(path),
            place: public_path(path),
            kind,
            unseen: kind == ConflictKind::Made && self.replacement_at(path).is_none(),
            in_view,
        };
        let mut note = |path: &[u8], kind| found.push(conflict(path, kind, false));
        for path in &self.journal.edited {
            note(path, ConflictKind::Changed);
        }
        let moved = self.journal.moved_to();
        for replace in &self.journal.replacements {
            self.note_replacement((replace, &moved), done, &mut note)?;
        }
        for attrs in &self.journal.set_attrs {
            self.note_attrs(attrs, done, &mut note)?;
        }
        for (number, cleanup) in self.journal.cleanups.iter().enumerate() {
            if let UpperCleanup::MoveOut(path) = cleanup {
                let mut newer =
                    |path: &[u8]| found.push(conflict(path, ConflictKind::Changed, true));
                self.return_to_view(&store_path("view", number), path, &mut newer, None)?;
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    /// Records what became of a name that the commit replaced.
    fn note_replacement(
        &self,
        (replace, moved): (&Replace, &HashSet<&[u8]>),
        done: Time,
        note: &mut impl FnMut(&[u8], ConflictKind),
    ) -> Result<(), Refusal> {
        let fail = |why| failed(&replace.path, why);
        let there = self.base.stat(&replace.path).map_err(fail)?;
        match (replace.new, there) {
            (None, Some(_)) => note(&replace.path, ConflictKind::Made),
            (None, None) => {}
            (Some(_), None) => note(&replace.path, ConflictKind::Removed),
            (Some(new), Some(there)) if !there.id().matches(&new) => {
                note(&replace.path, ConflictKind::Changed)
            }
            // A moved directory may have changed: it moves back as it is.
            (Some(_), Some(_)) if replace.items.is_empty() => {}
            (Some(_), Some(_)) => self.note_changed_below((replace, moved), done, note)?,
        }
        Ok(())
    }

    /// Records what became of a file that got attributes.
    fn note_attrs(
        &self,
        attrs: &SetAttrs,
        done: Time,
        note: &mut impl FnMut(&[u8], ConflictKind),
    ) -> Result<(), Refusal> {
        let fail = |why| failed(&attrs.path, why);
        match self.base.hold(&attrs.path).map_err(fail)? {
            None => note(&attrs.path, ConflictKind::Removed),
            Some(there) if !there.id().matches(&attrs.id) => {
                note(&attrs.path, ConflictKind::Changed)
            }
            Some(there) if there.stat.is_dir() => {
                // Names that others made or removed in it change its times.
                let now = there.attributes().map_err(fail)?;
                if !self.has(&now, &attrs.after) {
                    note(&attrs.path, ConflictKind::Changed);
                }
            }
            Some(there) if there.stat.ctime > done => note(&attrs.path, ConflictKind::Changed),
            Some(_) => {}
        }
        Ok(())
    }

    /// Records changes to the files that a replacement made, and names that others made in it.
    fn note_changed_below(
        &self,
        (replace, moved): (&Replace, &HashSet<&[u8]>),
        done: Time,
        note: &mut impl FnMut(&[u8], ConflictKind),
    ) -> Result<(), Refusal> {
        let made = replace.made();
        let mut todo = vec![replace.path.to_vec()];
        while let Some(path) = todo.pop() {
            let fail = |why| failed(&path, why);
            let Some(stat) = self.base.stat(&path).map_err(fail)? else {
                continue;
            };
            let moved = moved.contains(&path[..]);
            match made.get(&path[..]) {
                None if !moved => {
                    note(&path, ConflictKind::Made);
                    continue;
                }
                _ if stat.ctime > done => note(&path, ConflictKind::Changed),
                Some(Some(stamp)) if !self.is_as_made(&path, stamp)? => {
                    note(&path, ConflictKind::Changed);
                }
                _ => {}
            }
            if stat.is_dir() && !moved {
                let names = self.base.names(&path).map_err(fail)?;
                todo.extend(names.iter().map(|name| join(&path, name)));
            }
        }
        Ok(())
    }
}
