// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which entries of a view are to be committed.
//!
//! # Rules
//! R1. A path takes what is below it, and the new directories above it, but not what else is in
//!     those.
//! R2. Both halves of a rename go together, and so do the names of one file. What would tear them
//!     apart is refused, the missing half named.
//! R3. A path is taken as it is written. If the view has no change there, symbolic links of the
//!     real tree in its directories are followed.

use crate::change::Kind;
use crate::messages::text;
use crate::names::{is_below, split};
use crate::path_bytes::{PathBytes, path_of};
use crate::refusal::Refusal;
use crate::scan::{Entry, Is, Scan};
use crate::text::text_of;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What is chosen of the entries of a scan.
pub(crate) struct Choice {
    only: Vec<Vec<u8>>,
    /// Those that were asked for.
    pub(crate) chosen: Vec<bool>,
    /// Directories that others need.
    pub(crate) needed: Vec<bool>,
    /// Those of which nothing is left that is not chosen.
    pub(crate) covered: Vec<bool>,
}

impl Choice {
    /// Chooses what is at these paths and below; without any, everything.
    pub(crate) fn new(scan: &Scan, only: &[PathBytes], view: &str) -> Result<Choice, Refusal> {
        let bare = |path: &PathBytes| {
            let path = path.bytes();
            path.strip_suffix(b"/").unwrap_or(path).to_vec()
        };
        let mut choice = Choice {
            only: only.iter().map(|path| found(scan, bare(path))).collect(),
            chosen: Vec::new(),
            needed: vec![false; scan.entries.len()],
            covered: Vec::new(),
        };
        let chosen = scan.entries.iter().map(|entry| choice.takes(&entry.path));
        choice.chosen = chosen.collect();
        choice.covered.clone_from(&choice.chosen);
        choice.paths_are_changes(scan, view)?;
        for (at, entry) in scan.entries.iter().enumerate().skip(1).rev() {
            if !choice.covered[at] {
                choice.covered[entry.parent] = false;
            }
        }
        choice.need(scan)?;
        choice.renames_are_whole(scan)?;
        choice.names_stay_together(scan)?;
        Ok(choice)
    }

    /// Whether an entry is committed.
    pub(crate) fn goes(&self, at: usize) -> bool {
        self.chosen[at] || self.needed[at]
    }

    fn takes(&self, path: &[u8]) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| is_below(path, only))
    }

    /// Refuses a path that chooses nothing, which is mistyped or not changed.
    fn paths_are_changes(&self, scan: &Scan, view: &str) -> Result<(), Refusal> {
        for only in &self.only {
            let mut below = scan
                .entries
                .iter()
                .filter(|entry| is_below(&entry.path, only));
            if !below.any(is_change) {
                return Err(Refusal::new(format!(
                    "the view has no change at {}: see `openpath diff {} --stat`",
                    text(only),
                    text_of(view.as_bytes())
                )));
            }
        }
        Ok(())
    }

    /// R1
    fn need(&mut self, scan: &Scan) -> Result<(), Refusal> {
        for (at, entry) in scan.entries.iter().enumerate() {
            if !self.chosen[at] || !changes(entry) {
                continue;
            }
            let mut above = entry.parent;
            while above != 0 && !self.goes(above) {
                let dir = &scan.entries[above];
                if dir.is_moved() {
                    return Err(torn(&entry.path, &dir.path, "which was renamed"));
                }
                if dir.is == Is::Both {
                    self.needed[above] = true;
                } else if matches!(dir.is, Is::New | Is::Lost) {
                    if dir.here.is_some() {
                        return Err(torn(&entry.path, &dir.path, "which replaces another"));
                    }
                    self.needed[above] = true;
                }
                above = dir.parent;
            }
        }
        Ok(())
    }

    /// R2
    fn renames_are_whole(&self, scan: &Scan) -> Result<(), Refusal> {
        for (at, entry) in scan.entries.iter().enumerate() {
            let from = match (&entry.kind, &entry.beneath) {
                (_, Some((from, _))) if entry.is_moved() => from,
                (Some(Kind::Renamed { from }), None) => &from.bytes().to_vec(),
                _ => continue,
            };
            let source = scan.shown(from);
            let (new, old) = (self.goes(at), self.takes(&source));
            let (taken, missing) = match (new, old) {
                (true, false) => (&entry.path, &source),
                (false, true) => (&source, &entry.path),
                _ => continue,
            };
            return Err(torn(taken, missing, "the other half of a rename"));
        }
        Ok(())
    }

    /// R2
    fn names_stay_together(&self, scan: &Scan) -> Result<(), Refusal> {
        let mut first: HashMap<u64, usize> = HashMap::new();
        for (at, entry) in scan.entries.iter().enumerate() {
            if entry.is != Is::File || entry.noted.facts.nlink < 2 || !changes(entry) {
                continue;
            }
            let known = *first.entry(entry.noted.facts.ino).or_insert(at);
            let (taken, missing) = match (self.goes(known), self.goes(at)) {
                (true, false) => (known, at),
                (false, true) => (at, known),
                _ => continue,
            };
            let path = |at: usize| &scan.entries[at].path;
            return Err(torn(path(taken), path(missing), "a name of the same file"));
        }
        Ok(())
    }
}

/// A path as the view knows it (R3).
fn found(scan: &Scan, only: Vec<u8>) -> Vec<u8> {
    let known = |path: &[u8]| {
        let mut entries = scan.entries.iter();
        entries.any(|entry| is_below(&entry.path, path) && is_change(entry))
    };
    match known(&only) {
        true => only,
        false => real(&only).filter(|real| known(real)).unwrap_or(only),
    }
}

/// A path of the real tree without symbolic links in its directories, as far as they are there:
/// what it means where a view knows no change at the path as it is written (R3).
#[must_use]
pub fn without_links(path: &PathBytes) -> Option<PathBytes> {
    let path = path.bytes();
    real(path.strip_suffix(b"/").unwrap_or(path)).map(|real| path_of(&real))
}

fn real(path: &[u8]) -> Option<Vec<u8>> {
    let mut dir = split(path).0;
    loop {
        let above = Path::new(OsStr::from_bytes(dir));
        match std::fs::canonicalize(above) {
            Ok(real) => {
                let real = real.as_os_str().as_bytes();
                let real = real.strip_suffix(b"/").unwrap_or(real);
                return Some([real, &path[dir.len()..]].concat());
            }
            Err(_) if dir.is_empty() => return None,
            Err(_) => dir = split(dir).0,
        }
    }
}

fn is_change(entry: &Entry) -> bool {
    changes(entry) || entry.kind.is_some()
}

/// Whether an entry is something that the real tree has not.
pub(crate) fn changes(entry: &Entry) -> bool {
    match entry.is {
        Is::Whiteout => entry.here.is_some(),
        Is::File => entry.kind.is_some(),
        Is::New | Is::Lost => true,
        Is::Merged => entry.is_moved(),
        Is::Both => false,
    }
}

fn torn(taken: &[u8], missing: &[u8], why: &str) -> Refusal {
    Refusal::new(format!(
        "{} cannot be committed without {}, {why}: name both",
        text(taken),
        text(missing)
    ))
}
