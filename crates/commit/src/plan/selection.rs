// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selects the changes of a view that a commit takes, by the paths that the user names, and refuses
//! a selection that would leave half of a rename or of a file's names.
//!
//! # Rules
//! R1. A path selects all entries below it, and the new directories above it, but no other entries
//!     in those.
//! R2. Both halves of a rename go together, and so do all names of one file. A selection that
//!     separates them is refused, with the missing one named.
//! R3. A selection with an entry that cannot be compared is refused.
//! R4. A path is used as it is written. If the view has no change there, symbolic links of the real
//!     tree in its directories are followed, unless another user controls one (`linked_path`).

use crate::host::names::is_below;
use crate::plan::linked_path::LinkedPath;
use crate::report::change::ChangeKind;
use crate::report::messages::shown;
use crate::report::path_bytes::{PathBytes, path_of};
use crate::report::printable::printable;
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::{Entry, EntryKind, Scan};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The selected entries of a scan.
pub(crate) struct Selection {
    only: Vec<Vec<u8>>,
    /// Entries that the paths select.
    pub(crate) chosen: Vec<bool>,
    /// Directories that selected entries need.
    pub(crate) needed: Vec<bool>,
    /// Directories with all their entries selected.
    pub(crate) covered: Vec<bool>,
    /// Paths as they were written, with where their links lead.
    pub(crate) resolved: Vec<(PathBytes, PathBytes)>,
}

impl Selection {
    /// Selects the entries at these paths and below; without paths, all.
    pub(crate) fn new(scan: &Scan, only: &[PathBytes], view: &str) -> Result<Selection, Refusal> {
        let bare = |path: &PathBytes| {
            let path = path.bytes();
            path.strip_suffix(b"/").unwrap_or(path).to_vec()
        };
        let mut resolved = Vec::new();
        let mut taken = Vec::new();
        for only in only {
            let path = resolve(scan, bare(only))?;
            if path != bare(only) {
                resolved.push((only.clone(), path_of(&path)));
            }
            taken.push(path);
        }
        let mut selection = Selection {
            only: taken,
            resolved,
            chosen: Vec::new(),
            needed: vec![false; scan.entries.len()],
            covered: Vec::new(),
        };
        selection.check_readable(scan)?;
        let chosen = scan
            .entries
            .iter()
            .map(|entry| selection.covers(&entry.path));
        selection.chosen = chosen.collect();
        selection.covered.clone_from(&selection.chosen);
        selection.check_paths(scan, view)?;
        for (at, entry) in scan.entries.iter().enumerate().skip(1).rev() {
            if !selection.covered[at] {
                selection.covered[entry.parent] = false;
            }
        }
        selection.add_needed_dirs(scan)?;
        selection.check_renames(scan)?;
        selection.check_hard_links(scan)?;
        Ok(selection)
    }

    /// Whether an entry is committed.
    pub(crate) fn includes(&self, at: usize) -> bool {
        self.chosen[at] || self.needed[at]
    }

    fn covers(&self, path: &[u8]) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| is_below(path, only))
    }

    /// R3
    fn check_readable(&self, scan: &Scan) -> Result<(), Refusal> {
        let above = |path: &[u8]| self.only.iter().any(|only| is_below(only, path));
        let mut unreadable = scan.unreadable.iter();
        match unreadable.find(|path| self.covers(path) || above(path)) {
            None => Ok(()),
            Some(path) => Err(Refusal::new(
                RefusalKind::PermissionDenied,
                format!(
                    "{} cannot be compared with the real tree, because you may not look into its \
                     directory there: `chmod u+rx` that, or name other paths",
                    shown(path)
                ),
            )),
        }
    }

    /// Refuses a path that selects nothing: it is mistyped or not changed. A directory of both
    /// trees has nothing to commit.
    fn check_paths(&self, scan: &Scan, view: &str) -> Result<(), Refusal> {
        for only in &self.only {
            let mut below = scan
                .entries
                .iter()
                .filter(|entry| is_below(&entry.path, only));
            if !below.any(is_change) && !is_shown_dir(scan, only) {
                return Err(Refusal::new(
                    RefusalKind::NoSuchChange,
                    format!(
                        "the view has no change at {}: see `openpath diff {} --stat`",
                        shown(only),
                        printable(view.as_bytes())
                    ),
                ));
            }
        }
        Ok(())
    }

    /// R1
    fn add_needed_dirs(&mut self, scan: &Scan) -> Result<(), Refusal> {
        for (at, entry) in scan.entries.iter().enumerate() {
            if !self.chosen[at] || !alters_real_tree(entry) {
                continue;
            }
            let mut above = entry.parent;
            while above != 0 && !self.includes(above) {
                let dir = &scan.entries[above];
                if dir.is_moved() {
                    return Err(incomplete(&entry.path, &dir.path, "which was renamed"));
                }
                if dir.entry_kind == EntryKind::Both {
                    self.needed[above] = true;
                } else if matches!(dir.entry_kind, EntryKind::New | EntryKind::Lost) {
                    if dir.here.is_some() {
                        return Err(incomplete(&entry.path, &dir.path, "which replaces another"));
                    }
                    self.needed[above] = true;
                }
                above = dir.parent;
            }
        }
        Ok(())
    }

    /// R2
    fn check_renames(&self, scan: &Scan) -> Result<(), Refusal> {
        for (at, entry) in scan.entries.iter().enumerate() {
            let from = match (&entry.kind, entry.beneath()) {
                (_, Some((from, _))) if entry.is_moved() => &from[..],
                (Some(ChangeKind::Renamed { from }), None) => from.bytes(),
                _ => continue,
            };
            let source = scan.shown(from);
            let (new, old) = (self.includes(at), self.covers(&source));
            let (taken, missing) = match (new, old) {
                (true, false) => (&entry.path[..], &source[..]),
                (false, true) => (&source[..], &entry.path[..]),
                _ => continue,
            };
            return Err(incomplete(taken, missing, "the other half of a rename"));
        }
        Ok(())
    }

    /// R2
    fn check_hard_links(&self, scan: &Scan) -> Result<(), Refusal> {
        let mut first: HashMap<u64, usize> = HashMap::new();
        for (at, entry) in scan.entries.iter().enumerate() {
            if entry.entry_kind != EntryKind::File
                || entry.upper_file.stat.nlink < 2
                || !alters_real_tree(entry)
            {
                continue;
            }
            let known = *first.entry(entry.upper_file.stat.ino).or_insert(at);
            let (taken, missing) = match (self.includes(known), self.includes(at)) {
                (true, false) => (known, at),
                (false, true) => (at, known),
                _ => continue,
            };
            let path = |at: usize| &scan.entries[at].path;
            return Err(incomplete(
                path(taken),
                path(missing),
                "a name of the same file",
            ));
        }
        Ok(())
    }
}

/// A path as the view knows it (R4).
fn resolve(scan: &Scan, only: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    let known = |path: &[u8]| {
        let mut entries = scan.entries.iter();
        entries.any(|entry| is_below(&entry.path, path) && is_change(entry))
    };
    if known(&only) {
        return Ok(only);
    }
    match LinkedPath::follow(&only).filter(|linked| known(&linked.real)) {
        Some(linked) => linked.trusted(&only),
        None => Ok(only),
    }
}

/// A path of the real tree without symbolic links in its directories, as far as they exist, if the
/// view has a change there. It applies if the view has none at the path as it is written (R4).
///
/// # Errors
/// Another user controls one of the links.
pub fn resolve_parent_links(
    path: &PathBytes,
    is_known: impl Fn(&PathBytes) -> bool,
) -> Result<Option<PathBytes>, Refusal> {
    let path = path.bytes();
    let path = path.strip_suffix(b"/").unwrap_or(path);
    match LinkedPath::follow(path).filter(|linked| is_known(&path_of(&linked.real))) {
        Some(linked) => linked.trusted(path).map(|real| Some(path_of(&real))),
        None => Ok(None),
    }
}

fn is_change(entry: &Entry) -> bool {
    alters_real_tree(entry) || entry.kind.is_some()
}

/// Whether an entry changes the real tree.
pub(crate) fn alters_real_tree(entry: &Entry) -> bool {
    match entry.entry_kind {
        EntryKind::Whiteout => entry.here.is_some(),
        EntryKind::File => entry.kind.is_some(),
        EntryKind::New | EntryKind::Lost => true,
        EntryKind::Merged => entry.is_moved(),
        EntryKind::Both => false,
    }
}

/// Whether a path without changes is a directory of the real tree that the view shows there.
fn is_shown_dir(scan: &Scan, path: &[u8]) -> bool {
    let mut above = scan
        .entries
        .iter()
        .filter(|entry| is_below(path, &entry.path));
    let real = match path {
        b"" => Path::new("/"),
        path => Path::new(OsStr::from_bytes(path)),
    };
    !above.any(alters_real_tree) && real.is_dir()
}

fn incomplete(taken: &[u8], missing: &[u8], why: &str) -> Refusal {
    Refusal::usage(format!(
        "{} cannot be committed without {}, {why}: name both",
        shown(taken),
        shown(missing)
    ))
}
