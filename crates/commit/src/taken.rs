// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a view took what it has over the real tree, noted before each run (R1 of `since`).

use crate::journal::Taken;
use crate::notes::Notes;
use crate::refusal::Refusal;
use crate::scan::{Is, Scan};
use crate::tree::Tree;
use crate::view_dir::ViewDir;
use std::collections::HashMap;
use std::path::Path;

/// Notes when a view took what it has over the real tree, before a run may replace it (R1).
///
/// # Errors
/// It cannot be written down: the next run would lose it. What cannot be read for this cannot be
/// committed either.
pub fn note_taken(view: &ViewDir) -> Result<(), Refusal> {
    match taken(view) {
        Ok(Some((notes, now))) => Taken::write(&notes, &now),
        Ok(None) | Err(_) => Ok(()),
    }
}

/// When a view took what it has over the real tree, if that is not noted yet.
fn taken(view: &ViewDir) -> Result<Option<(Notes, Vec<Taken>)>, Refusal> {
    let view = Notes::of(view)?;
    let Ok(upper) = view.below(b"/upper") else {
        // It has not run yet.
        return Ok(None);
    };
    let scan = Scan::above(&Tree::open(Path::new("/"))?, &upper)?;
    let before = Taken::read(&view)?;
    let first: HashMap<_, _> = before
        .iter()
        .map(|taken| (&taken.path, taken.since))
        .collect();
    // What a directory shows it has not taken.
    let hide = scan.entries.iter();
    let hide = hide.filter(|entry| entry.is != Is::Merged && entry.here.is_some());
    let now: Vec<Taken> = hide
        .filter_map(|entry| {
            let taken = entry.taken()?;
            let first = first.get(&entry.path).copied();
            Some(Taken {
                path: entry.path.clone(),
                since: first.map_or(taken, |first| first.min(taken)),
            })
        })
        .collect();
    let is_new = now != before;
    Ok(is_new.then_some((view, now)))
}
