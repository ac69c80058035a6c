// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refuses a commit that changes one directory or file of the real tree by two paths, as where the
//! host has a bind mount. A step would find the changes of the step before, and stop half way.
//!
//! # Rules
//! R1. A directory of the real tree has one path among the steps if it gets attributes, or if names
//!     in it change or get attributes. One that is removed, replaced or moved has one path, also
//!     for steps in the directories below it.
//! R2. A file that gets attributes in place has one path. The names of a file that has several are
//!     replaced one by one, and each has its step.

use crate::attributes::file_stat::{FileStat, InodeId};
use crate::host::names::{is_below, split};
use crate::journal::{Bytes, Journal};
use crate::plan::selection::{Selection, alters_real_tree};
use crate::report::messages::shown;
use crate::report::refusal::Refusal;
use crate::scan::{Entry, Scan};
use openpath_abi::mode;
use std::collections::{HashMap, HashSet};

/// What the steps do with a directory or file by one of its paths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Use {
    /// They change something below.
    Above,
    /// They change its names or its attributes.
    Changes,
    /// They remove, replace or move it.
    Takes,
}

impl Use {
    fn excludes(self, other: Use) -> bool {
        self.max(other) == Use::Takes || self.min(other) == Use::Changes
    }
}

/// The paths by which the steps use each inode.
#[derive(Default)]
struct Uses<'a> {
    /// The strongest use, with the path in the real tree.
    strongest: HashMap<InodeId, (Use, &'a Bytes)>,
}

impl<'a> Uses<'a> {
    fn add(
        &mut self,
        id: InodeId,
        (what, path): (Use, &'a Bytes),
        noun: &str,
    ) -> Result<(), Refusal> {
        let known = self.strongest.entry(id).or_insert((what, path));
        if known.1 != path && known.0.excludes(what) {
            return Err(refuse(known.1, path, noun));
        }
        if known.0 < what {
            *known = (what, path);
        }
        Ok(())
    }

    /// A file that is replaced by one path does not get attributes by another.
    fn check_replaced(&self, id: InodeId, path: &Bytes) -> Result<(), Refusal> {
        match self.strongest.get(&id) {
            Some((_, other)) if *other != path => Err(refuse(other, path, "file")),
            _ => Ok(()),
        }
    }
}

/// Refuses a journal that breaks R1 or R2.
pub(crate) fn check(journal: &Journal, scan: &Scan, selection: &Selection) -> Result<(), Refusal> {
    let set_attrs = journal.set_attrs.iter();
    let attrs: HashSet<&Bytes> = set_attrs.clone().map(|attrs| &attrs.place).collect();
    let real: HashSet<&Bytes> = journal.before.iter().map(|(path, _)| path).collect();
    let shown: HashSet<&Bytes> = journal.after.iter().map(|(path, _)| path).collect();
    let above = above(attrs.iter().chain(&real).chain(&shown).copied());
    let mut uses = Uses::default();
    for attrs in set_attrs.filter(|attrs| !mode::is_dir(attrs.before.mode)) {
        uses.add(attrs.id, (Use::Changes, &attrs.place), "file")?;
    }
    for (at, entry) in scan.entries.iter().enumerate() {
        let included = selection.includes(at);
        if let Some((path, stat)) = entry.beneath() {
            let is_above = |path: &Bytes| above.contains(&path[..]);
            let what = if included && entry.is_moved() {
                Some(Use::Takes)
            } else if real.contains(path) || shown.contains(&entry.path) || attrs.contains(path) {
                Some(Use::Changes)
            } else {
                Some(Use::Above).filter(|_| is_above(path) || is_above(&entry.path))
            };
            if let Some(what) = what {
                uses.add(stat.id(), (what, path), "directory")?;
            }
        }
        match taken(scan, entry).filter(|_| included) {
            Some((path, here)) if here.is_dir() => {
                uses.add(here.id(), (Use::Takes, path), "directory")?;
            }
            Some((path, here)) => uses.check_replaced(here.id(), path)?,
            None => {}
        }
    }
    Ok(())
}

/// All directories above these paths.
fn above<'a>(paths: impl Iterator<Item = &'a Bytes>) -> HashSet<&'a [u8]> {
    let mut all = HashSet::new();
    for path in paths {
        let mut at = &path[..];
        while !at.is_empty() {
            at = split(at).0;
            if !all.insert(at) {
                break;
            }
        }
    }
    all
}

/// What a step removes or replaces in the real tree for an entry.
fn taken<'a>(scan: &Scan, entry: &'a Entry) -> Option<(&'a Bytes, &'a FileStat)> {
    let (place, here) = entry.place.as_ref().zip(entry.here.as_ref())?;
    (alters_real_tree(entry) && !scan.sources.contains(place)).then_some((place, here))
}

fn refuse(a: &[u8], b: &[u8], noun: &str) -> Refusal {
    let (a, b) = (a.min(b), a.max(b));
    let remedy = match is_below(b, a) {
        true => format!("commit {} or other paths alone", shown(b)),
        false => "commit one of them by its path".to_owned(),
    };
    Refusal::usage(format!(
        "{} and {} are the same {noun}, and the view changed both: {remedy}",
        shown(a),
        shown(b)
    ))
}
