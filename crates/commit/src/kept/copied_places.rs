// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which directories of an upper tree were copied up for the kernel's overlays alone, and
//! removes those that no run changed: they are no changes of the view.
//!
//! # Rules
//! R1. The record is written before a directory is copied up, and once more with their attributes
//!     before there is an overlay. It lies beside the work directories and goes with them, so it
//!     counts after kill -9 too, and never while an overlay exists.
//! R2. A directory without recorded attributes is from before the first overlay, so no command
//!     changed it. The second record leaves out what was not copied up: a command can make it.
//! R3. A directory in which something is stays, and so does one whose attributes cannot be read.
//!     One that was moved, or that lies in another directory than before, hides or shows something
//!     else than a lower directory with its path, and stays.

use crate::attributes::file_stat::{Attributes, InodeId};
use crate::host::held_file::HeldFile;
use crate::host::names::split;
use crate::host::tree::Tree;
use crate::report::path_bytes::PathBytes;
use openpath_overlay::Marks;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};

/// The record, in the directory with the work directories.
pub(super) const RECORD: &str = "copied-places";
/// The record while it is written.
pub(super) const NEW_RECORD: &str = "copied-places.new";
/// The longest record, in bytes.
const RECORD_MAX: u64 = 1 << 28;

#[derive(Default, Serialize, Deserialize)]
struct CopiedPlaces {
    /// The marks of the tree are trusted ones.
    is_trusted: bool,
    /// Outer ones first.
    dirs: Vec<CopiedDir>,
}

#[derive(Serialize, Deserialize)]
struct CopiedDir {
    path: PathBytes,
    /// R2
    was: Option<DirState>,
}

/// A directory, and the one above it.
#[derive(Serialize, Deserialize)]
struct DirState {
    id: InodeId,
    above: InodeId,
    /// With the marks of [`MOVES`] alone.
    attributes: Attributes,
}

/// Marks by which a directory is not merged with the lower one of its path (R3).
const MOVES: [&[u8]; 2] = [b"redirect", b"opaque"];

/// When a record is written (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedPlacesAt {
    /// Before the directories are copied up.
    Begin,
    /// Before there is an overlay.
    CopiedUp,
}

/// Records, in the directory with the work directories, `dirs` of the upper tree in `view` as they
/// are now, outer ones first; their paths begin with `/upper`.
///
/// # Errors
/// What the file system says.
pub(super) fn record(
    (view, work): (impl AsFd, impl AsFd),
    marks: Marks,
    (dirs, at): (&[PathBytes], CopiedPlacesAt),
) -> io::Result<()> {
    let tree = tree_at(view, marks)?;
    let dirs = dirs.iter().map(|path| CopiedDir {
        path: path.clone(),
        was: match at {
            CopiedPlacesAt::Begin => None,
            CopiedPlacesAt::CopiedUp => state(&tree, path.bytes()).ok().flatten(),
        },
    });
    let dirs = dirs.filter(|dir| at == CopiedPlacesAt::Begin || dir.was.is_some());
    let record = CopiedPlaces {
        is_trusted: marks == Marks::Trusted,
        dirs: dirs.collect(),
    };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = rustix::fs::openat(&work, NEW_RECORD, flags | OFlags::CLOEXEC, mode)?;
    let mut text = BufWriter::new(File::from(file));
    serde_json::to_writer(&mut text, &record)?;
    text.flush()?;
    Ok(rustix::fs::renameat(&work, NEW_RECORD, &work, RECORD)?)
}

/// Removes the recorded directories of the upper tree in `view` that are as they were copied up.
pub(super) fn remove_unchanged(view: impl AsFd, work: impl AsFd) -> io::Result<()> {
    // One that is damaged shows more changes than there are, and loses none.
    let record = read(work).unwrap_or_default();
    let marks = match record.is_trusted {
        true => Marks::Trusted,
        false => Marks::User,
    };
    let tree = tree_at(view, marks)?;
    // Before any of them is removed, which changes the one above it.
    let unchanged = record.dirs.iter().filter(|dir| dir.is_unchanged(&tree));
    let unchanged: Vec<_> = unchanged.collect();
    for dir in unchanged.iter().rev() {
        let (above, name) = split(dir.path.bytes());
        if let Ok(above) = tree.dir(above) {
            // R3
            let _stays = rustix::fs::unlinkat(&above, name, AtFlags::REMOVEDIR);
        }
    }
    Ok(())
}

fn read(work: impl AsFd) -> io::Result<CopiedPlaces> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(work, RECORD, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(CopiedPlaces::default()),
        file => {
            let text = BufReader::new(File::from(file?).take(RECORD_MAX));
            Ok(serde_json::from_reader(text)?)
        }
    }
}

fn tree_at(view: impl AsFd, marks: Marks) -> io::Result<Tree> {
    let dir: OwnedFd = view.as_fd().try_clone_to_owned()?;
    let mut tree = Tree::at(dir);
    tree.marks = marks;
    Ok(tree)
}

/// A directory as it is; `None`: there is none.
fn state(tree: &Tree, path: &[u8]) -> rustix::io::Result<Option<DirState>> {
    let is_dir = |held: &HeldFile| held.stat.is_dir();
    let Some(held) = tree.hold(path)?.filter(is_dir) else {
        return Ok(None);
    };
    let Some(above) = tree.id(split(path).0)? else {
        return Ok(None);
    };
    let mut attributes = held.attributes()?;
    let prefix = tree.marks.prefix();
    let moves = |name: &[u8]| {
        name.strip_prefix(prefix)
            .is_some_and(|mark| MOVES.contains(&mark))
    };
    let is_left_out = |name: &&[u8]| tree.marks.shown_name(name).is_none() && !moves(name);
    let names = attributes.xattrs.keys().filter(is_left_out);
    let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    names.iter().for_each(|name| attributes.xattrs.remove(name));
    Ok(Some(DirState {
        id: held.id(),
        above,
        attributes,
    }))
}

impl CopiedDir {
    /// The kernel adds marks of its own, so the time of change does not tell.
    fn is_unchanged(&self, tree: &Tree) -> bool {
        let now = state(tree, self.path.bytes()).ok().flatten();
        match (&self.was, now) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(was), Some(now)) => {
                was.id.matches(&now.id)
                    && was.above.matches(&now.above)
                    && was.attributes.same(&now.attributes)
                    && was.attributes.mtime == now.attributes.mtime
            }
        }
    }
}
