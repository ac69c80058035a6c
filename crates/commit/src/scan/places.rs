// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which places of a view a run with the kernel's overlay keeps as they are: the
//! directories that openpath keeps to itself, read-only paths, and mounts of the host. Checks
//! before a commit that they are still there.
//!
//! Mounts keep them in the view. But a process in another mount namespace, as another user's
//! outside by `/proc/PID/root`, or root's inside by umount(2), has none of these mounts, and can
//! move a directory above one away and make the path anew.
//!
//! # Rules
//! R1. A run records before its first overlay which entries of the upper tree are at each place and
//!     above it, and which are below read-only paths. A commit refuses a view in which one was
//!     replaced, moved or removed since, one with a change below a read-only path, and one with an
//!     entry below a directory that openpath keeps to itself.
//! R2. A run records them only if those of earlier runs are in place. A commit and an
//!     undo check them too, and then forget them: they replace entries themselves.

use crate::attributes::file_stat::{Attributes, InodeId, Time};
use crate::host::held_file::HeldFile;
use crate::host::names::{is_below, join, split};
use crate::host::tree::Tree;
use crate::host::view_dir::ViewDir;
use crate::journal::records::{PLACES, Records};
use crate::report::messages::{failed, shown};
use crate::report::path_bytes::{PathBytes, path_of};
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::upper_file::UpperFile;
use openpath_overlay::Marks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The record, in the directory of a view.
const FILE: &[u8] = b"/places";

/// The places of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Places<'a> {
    /// Directories that openpath keeps to itself.
    pub own: &'a [PathBytes],
    /// Read-only paths, and mounts of the host.
    pub kept: &'a [PathBytes],
    /// The read-only paths among them.
    pub read_only: &'a [PathBytes],
}

impl<'a> Places<'a> {
    /// These places, none of them read only.
    #[must_use]
    pub fn new(own: &'a [PathBytes], kept: &'a [PathBytes]) -> Places<'a> {
        let read_only = &[];
        Places {
            own,
            kept,
            read_only,
        }
    }

    /// With these read-only paths among them.
    #[must_use]
    pub fn read_only(self, read_only: &'a [PathBytes]) -> Places<'a> {
        Places { read_only, ..self }
    }
}

/// What is recorded of the places (R1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptPlaces {
    /// A place, or a directory above one, and its inode in the upper tree; `None`: there was none.
    at: Vec<(PathBytes, Option<InodeId>)>,
    /// The directories that openpath keeps to itself.
    own: Vec<PathBytes>,
    /// The read-only paths.
    #[serde(default)]
    read_only: Vec<PathBytes>,
    /// The entries of the upper tree at and below them, but for those in `at`.
    #[serde(default)]
    fixed: Vec<(PathBytes, FixedEntry)>,
}

/// An entry of the upper tree below a read-only path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum FixedEntry {
    /// All whiteouts of a tree are links of one inode, whose times other whiteouts move.
    Whiteout,
    /// The kernel moves the times of a directory in which nothing changed.
    Directory(InodeId, Attributes),
    /// Anything else, with its `ctime`.
    File(InodeId, Time),
}

impl FixedEntry {
    fn of(held: &HeldFile, marks: Marks) -> rustix::io::Result<FixedEntry> {
        let file = UpperFile::read(held, marks)?;
        let id = without_device(held.id());
        Ok(match (file.is_whiteout, file.stat.is_dir()) {
            (true, _) => FixedEntry::Whiteout,
            (false, true) => FixedEntry::Directory(id, file.attributes()),
            (false, false) => FixedEntry::File(id, file.stat.ctime),
        })
    }

    fn is_same(&self, now: &FixedEntry) -> bool {
        match (self, now) {
            (FixedEntry::Directory(id, was), FixedEntry::Directory(now_id, is)) => {
                id.matches(now_id) && was.same(is)
            }
            (was, is) => was == is,
        }
    }
}

impl KeptPlaces {
    fn of(upper: Option<&Tree>, places: Places<'_>) -> Result<KeptPlaces, Refusal> {
        let mut at = BTreeMap::new();
        for place in places.own.iter().chain(places.kept) {
            let path = place.bytes().strip_suffix(b"/").unwrap_or(place.bytes());
            let ends = path.iter().enumerate().skip(1);
            let ends = ends.filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
            for end in ends.chain([path.len()]).filter(|end| *end > 0) {
                let id = match upper {
                    Some(upper) => id_of(upper, &path[..end])?,
                    None => None,
                };
                at.insert(path_of(&path[..end]), id);
            }
        }
        let mut kept = KeptPlaces {
            at: at.into_iter().collect(),
            own: places.own.to_vec(),
            read_only: places.read_only.to_vec(),
            fixed: Vec::new(),
        };
        if let Some(upper) = upper {
            kept.fixed = kept.fixed_now(upper)?.into_iter().collect();
        }
        Ok(kept)
    }

    /// The entries at and below the read-only paths, but for directories in `at`.
    fn fixed_now(&self, upper: &Tree) -> Result<BTreeMap<PathBytes, FixedEntry>, Refusal> {
        let known: BTreeSet<_> = self.at.iter().map(|(path, _)| path.bytes()).collect();
        let mut fixed = BTreeMap::new();
        let mut left: Vec<_> = self
            .read_only
            .iter()
            .map(|top| top.bytes().to_vec())
            .collect();
        while let Some(path) = left.pop() {
            let fail = |why| failed(&path, why);
            let Some(held) = upper.hold(&path).or_else(nothing_above).map_err(fail)? else {
                continue;
            };
            let is_dir = held.stat.is_dir();
            if !is_dir || !known.contains(&*path) {
                let entry = FixedEntry::of(&held, upper.marks).map_err(fail)?;
                fixed.insert(path_of(&path), entry);
            }
            if is_dir {
                let names = upper.names(&path).map_err(fail)?;
                left.extend(names.iter().map(|name| join(&path, name)));
            }
        }
        Ok(fixed)
    }

    /// The first path below a read-only one that is not as it was.
    fn first_unfixed(&self, upper: &Tree) -> Result<Option<Vec<u8>>, Refusal> {
        let mut now = self.fixed_now(upper)?;
        for (path, was) in &self.fixed {
            if !now.remove(path).is_some_and(|is| was.is_same(&is)) {
                return Ok(Some(path.bytes().to_vec()));
            }
        }
        Ok(now.into_keys().next().map(|path| path.bytes().to_vec()))
    }

    /// The first path that is not as it was.
    fn first_changed(&self, upper: &Tree) -> Result<Option<Vec<u8>>, Refusal> {
        for (path, id) in &self.at {
            if !is_in_place(upper, path.bytes(), *id)? {
                return Ok(Some(path.bytes().to_vec()));
            }
        }
        for dir in &self.own {
            if let Some(path) = self.first_below(upper, dir.bytes())? {
                return Ok(Some(path));
            }
        }
        self.first_unfixed(upper)
    }

    /// The first entry below a directory that is not above a place.
    fn first_below(&self, upper: &Tree, dir: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let fail = |why| failed(dir, why);
        if !upper
            .stat(dir)
            .map_err(fail)?
            .is_some_and(|stat| stat.is_dir())
        {
            return Ok(None);
        }
        for name in upper.names(dir).map_err(fail)? {
            let path = join(dir, &name);
            if !self.at.iter().any(|(known, _)| known.bytes() == path) {
                return Ok(Some(path));
            }
            if let Some(path) = self.first_below(upper, &path)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// The inode at a path. Its device may have another number after a boot.
fn id_of(upper: &Tree, path: &[u8]) -> Result<Option<InodeId>, Refusal> {
    let stat = upper.stat(path).or_else(nothing_above);
    let stat = stat.map_err(|why| failed(path, why))?;
    Ok(stat.map(|stat| without_device(stat.id())))
}

fn without_device(id: InodeId) -> InodeId {
    InodeId { device: None, ..id }
}

/// A path below what is no directory does not exist.
fn nothing_above<T>(why: rustix::io::Errno) -> rustix::io::Result<Option<T>> {
    match why {
        rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR => Ok(None),
        why => Err(why),
    }
}

fn is_in_place(upper: &Tree, path: &[u8], id: Option<InodeId>) -> Result<bool, Refusal> {
    let fail = |why| failed(path, why);
    let held = upper.hold(path).or_else(nothing_above).map_err(fail)?;
    match (held, id) {
        (None, id) => Ok(id.is_none()),
        (Some(held), Some(id)) => Ok(held.id().matches(&id)),
        (Some(held), None) => {
            // It was copied up.
            let file = UpperFile::read(&held, upper.marks).map_err(fail)?;
            let moved = |to: &[u8]| to != path && join(split(path).0, to) != path;
            Ok(file.stat.is_dir()
                && file.mark("opaque") != Some(b"y")
                && !file.mark("redirect").is_some_and(moved))
        }
    }
}

/// Records the places of a run that begins (R1).
///
/// # Errors
/// It cannot be written.
pub(crate) fn record(records: &Records, places: Places<'_>) -> Result<(), Refusal> {
    let upper = records.upper_if_any()?;
    let kept = KeptPlaces::of(upper.as_ref(), places)?;
    records.write(FILE, &kept)
}

/// Refuses a view in which a place of an earlier run was replaced (R1).
pub(crate) fn check(records: &Records) -> Result<(), Refusal> {
    let (Some(kept), Some(upper)) = (records.read::<KeptPlaces>(FILE)?, records.upper_if_any()?)
    else {
        return Ok(());
    };
    let Some(path) = kept.first_changed(&upper)? else {
        return Ok(());
    };
    let is_own = |dir: &PathBytes| is_below(&path, dir.bytes());
    let what = match kept.own.iter().any(is_own) {
        true => "which openpath keeps to itself",
        false => "above, at or below a path that its run kept as it is",
    };
    let path = shown(&path);
    let text = format!(
        "the view cannot be committed, nor a commit of it undone: it moved, replaced or changed \
         {path}, {what}; copy what you need out of it in a run with --rw, and discard it"
    );
    Err(Refusal::new(RefusalKind::Unsupported, text))
}

/// Forgets the places of earlier runs (R2).
pub(crate) fn forget(records: &Records) -> Result<(), Refusal> {
    records.forget(PLACES)
}

/// Forgets the places of earlier runs that are all in place (R2). The view is locked.
///
/// # Errors
/// The record cannot be read or removed.
pub fn forget_places(view: &ViewDir) -> Result<(), Refusal> {
    let records = Records::of(view)?;
    if records.upper_if_any()?.is_none() {
        return Ok(());
    }
    match check(&records) {
        Err(why) if why.kind() == RefusalKind::Unsupported => Ok(()),
        checked => checked.and_then(|()| forget(&records)),
    }
}
