// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which directories of an upper tree were copied up for the kernel's overlays alone, and
//! removes those that no run changed: they are no changes of the view.
//!
//! # Rules
//! R1. The record is written before a directory is copied up, and once more with their attributes
//!     before there is an overlay. It lies beside the work directories and goes with them, so it
//!     counts after kill -9 too, and never while an overlay exists.
//! R2. A directory without recorded attributes is from before the first overlay, so no command
//!     changed it.
//! R3. A directory in which something is stays. So does one whose attributes cannot be read.

use crate::attributes::file_stat::{Attributes, InodeId};
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
    was: Option<(InodeId, Attributes)>,
}

/// Records, in the directory with the work directories, `dirs` of the upper tree in `view` as they
/// are now, outer ones first; their paths begin with `/upper`.
///
/// # Errors
/// What the file system says.
pub(super) fn record(
    (view, work): (impl AsFd, impl AsFd),
    marks: Marks,
    dirs: &[PathBytes],
) -> io::Result<()> {
    let tree = tree_at(view, marks)?;
    let dirs = dirs.iter().map(|path| CopiedDir {
        path: path.clone(),
        was: attributes(&tree, path.bytes()).ok().flatten(),
    });
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

/// The inode and the attributes of a directory, without marks; `None`: there is none.
fn attributes(tree: &Tree, path: &[u8]) -> rustix::io::Result<Option<(InodeId, Attributes)>> {
    let Some(held) = tree.hold(path)?.filter(|held| held.stat.is_dir()) else {
        return Ok(None);
    };
    let mut now = held.attributes()?;
    let is_mark = |name: &&[u8]| tree.marks.shown_name(name).is_none();
    let marks: Vec<_> = now
        .xattrs
        .keys()
        .filter(is_mark)
        .map(<[u8]>::to_vec)
        .collect();
    marks.iter().for_each(|mark| now.xattrs.remove(mark));
    Ok(Some((held.id(), now)))
}

impl CopiedDir {
    /// The kernel adds marks of its own, so the time of change does not tell.
    fn is_unchanged(&self, tree: &Tree) -> bool {
        let now = attributes(tree, self.path.bytes()).ok().flatten();
        match (&self.was, now) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some((id, was)), Some((now_id, is))) => {
                id.matches(&now_id) && was.same(&is) && was.mtime == is.mtime
            }
        }
    }
}
