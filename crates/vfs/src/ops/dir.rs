// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists directories: getdents64(2).
//!
//! # Layout
//! The file's offset is a cookie: 0 stands before `.`, 1 before `..`, and `n` from 2 on before the
//! backend's position `n - 2`. An entry carries the cookie of the next one. An offset at the end
//! stays there, whatever is added later, until a seek.

use crate::file_ops::Fd;
use crate::inode::flag;
use crate::object::dflag;
use crate::path::PathIds;
use crate::target::Target;
use crate::task::Task;
use openpath_abi::{Errno, dirent};

/// One entry of a directory (`struct linux_dirent64`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Number of its inode.
    pub ino: u64,
    /// The directory's offset after it, where a listing continues.
    pub off: i64,
    /// `DT_*`.
    pub kind: u8,
    /// Its name.
    pub name: Vec<u8>,
}

/// The first cookie of the backend's entries.
const BACKEND: i64 = 2;
/// The cookie behind all of them. It is far enough from the largest offset that a read of any
/// length is refused for the data, not for the offset.
const END: i64 = i64::MAX - (1 << 48);

/// The entries so far, as a buffer of the caller's size would hold them.
struct EntryBuffer {
    entries: Vec<DirEntry>,
    room: usize,
    pos: i64,
    full: bool,
}

impl EntryBuffer {
    /// Adds an entry if there is room; whether there was.
    fn push(&mut self, name: &[u8], ino: u64, kind: u8, next: i64) -> bool {
        let len = dirent::record_len(name.len());
        if len > self.room {
            self.full = true;
            return false;
        }
        self.room -= len;
        self.pos = next;
        self.entries.push(DirEntry {
            ino,
            off: next,
            kind,
            name: name.to_vec(),
        });
        true
    }
}

impl Task {
    /// The next entries of the directory at `fd`, as many as fit into a buffer of `max_bytes`; none
    /// at the end. Linux: getdents64(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `ENOTDIR`, `ENOENT` (removed directory), `EINVAL` (no room for
    /// one entry), what the backend meets.
    pub fn getdents64(&self, fd: Fd, max_bytes: usize) -> Result<Vec<DirEntry>, Errno> {
        let file = self.core.fdget_full(fd)?;
        let _pos = file.hold_pos();
        let target = file.target()?;
        if !target.inode.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let mut batch = EntryBuffer {
            entries: Vec::new(),
            room: max_bytes,
            pos: file.pos(),
            full: false,
        };
        let listed = {
            let _names = target.inode.hold_names();
            if target.inode.flags() & flag::DEAD != 0 {
                return Err(Errno::ENOENT);
            }
            list(&target, &mut batch)
        };
        file.set_pos(batch.pos);
        file.accessed(&target);
        file.tell_listed();
        listed?;
        if batch.full && batch.entries.is_empty() {
            return Err(Errno::EINVAL);
        }
        Ok(batch.entries)
    }
}

/// Lists from the batch's position on (`iterate_shared`). The directory's names are held.
fn list(target: &Target<'_>, batch: &mut EntryBuffer) -> Result<(), Errno> {
    let dir = target.inode;
    if batch.pos == 0 && !batch.push(b".", dir.ino(), dirent::DT_DIR, 1) {
        return Ok(());
    }
    if batch.pos == END {
        return Ok(());
    }
    if batch.pos == 1 && !batch.push(b"..", parent_ino(target)?, dirent::DT_DIR, BACKEND) {
        return Ok(());
    }
    let PathIds { mount, dentry } = target.path_ids;
    let rules = target.core.rules_in(mount, target.mount, dentry);
    dir.shielded(|ops| {
        ops.readdir(dir, batch.pos - BACKEND, &mut |e| {
            if rules.as_ref().is_some_and(|rules| rules.is_absent(e.name)) {
                batch.pos = e.next.saturating_add(BACKEND);
                return true;
            }
            batch.push(e.name, e.ino, e.kind, e.next.saturating_add(BACKEND))
        })
    })?;
    if !batch.full {
        batch.pos = END;
    }
    Ok(())
}

/// The inode number of the directory's parent in its own tree: mounts are not crossed, and a tree's
/// root is its own parent (`d_parent_ino`).
///
/// # Errors
/// `ENOMEM` when there are no pins left.
fn parent_ino(target: &Target<'_>) -> Result<u64, Errno> {
    let (dcache, pins) = (&target.core.vfs.dcache, &target.core.pins);
    let d = dcache.at(target.path_ids.dentry);
    if d.word().sample().has(dflag::ROOT) {
        return Ok(target.inode.ino());
    }
    loop {
        let parent = d.parent.get();
        let ino = pins.pin_now(0, parent).map(|pin| {
            let ino = dcache.store.dentry_payload(&pin).map(|dir| dir.ino());
            pins.release(pin);
            ino
        });
        // Moved meanwhile: the pinned entry may have been something else by then.
        if d.parent.get() != parent {
            continue;
        }
        match ino {
            Some(Some(ino)) => return Ok(ino),
            Some(None) => {}
            None => return Err(Errno::ENOMEM),
        }
    }
}
