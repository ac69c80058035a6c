// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records before each run when a view took its files from the real tree (R1 of `baseline`).

use crate::journal::TakenAt;
use crate::records::Records;
use crate::refusal::Refusal;
use crate::scan::{EntryKind, Scan};
use crate::tree::Tree;
use crate::view_dir::ViewDir;
use std::collections::HashMap;
use std::path::Path;

/// Records when a view took its files from the real tree, before a run may replace them (R1).
///
/// # Errors
/// It cannot be written: the next run would lose it. A view that cannot be read for this cannot be
/// committed either.
pub fn record_taken(view: &ViewDir) -> Result<(), Refusal> {
    match taken(view) {
        Ok(Some((records, now))) => TakenAt::write(&records, &now),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// The times at which a view took its files, if they are not recorded yet.
fn taken(view: &ViewDir) -> Result<Option<(Records, Vec<TakenAt>)>, Refusal> {
    let view = Records::of(view)?;
    let Ok(upper) = view.below(b"/upper") else {
        // It has not run yet.
        return Ok(None);
    };
    let scan = Scan::above(&Tree::open(Path::new("/"))?, &upper)?;
    let before = TakenAt::read(&view)?;
    let first: HashMap<_, _> = before
        .iter()
        .map(|taken| (&taken.path, taken.since))
        .collect();
    // A directory has not taken the files that it shows.
    let hide = scan.entries.iter();
    let hide = hide.filter(|entry| entry.entry_kind != EntryKind::Merged && entry.here.is_some());
    let now: Vec<TakenAt> = hide
        .filter_map(|entry| {
            let taken = entry.taken()?;
            let first = first.get(&entry.path).copied();
            Some(TakenAt {
                path: entry.path.clone(),
                since: first.map_or(taken, |first| first.min(taken)),
            })
        })
        .collect();
    let is_new = now != before;
    Ok(is_new.then_some((view, now)))
}
