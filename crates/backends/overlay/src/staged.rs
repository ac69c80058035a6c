// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things made aside, in the work directory of the upper tree, and put in place by one rename: who
//! looks, or comes back after a crash, sees all of a change or nothing.

use crate::fs::{Fs, Upper};
use crate::layer::{change, list, look, make, remove, rename};
use crate::marks::OPAQUE;
use crate::node::Node;
use crate::whiteout::is_whiteout;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, NewInode, Patience, Rename};
use std::sync::Arc;

/// What begins the names of what is made aside.
const OURS: &[u8] = b"#";

/// Something in the work directory, removed again unless it was put in place.
pub(crate) struct Aside<'a> {
    fs: &'a Fs,
    upper: &'a Upper,
    name: Vec<u8>,
    /// What is there now; `None`: it was put in place.
    pub(crate) inode: Option<Arc<Inode>>,
    now: Timespec,
}

/// Where something is to be put.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    pub(crate) dir: &'a Arc<Inode>,
    pub(crate) name: &'a [u8],
}

impl Fs {
    /// Makes something aside, by `make` in a directory and under a name.
    ///
    /// # Errors
    /// Those of `make`; `EROFS`.
    pub(crate) fn aside(
        &self,
        now: Timespec,
        make: impl FnOnce(&Arc<Inode>, &[u8]) -> Result<Arc<Inode>, Errno>,
    ) -> Result<Aside<'_>, Errno> {
        let upper = self.upper()?;
        let name = [OURS, self.made.add(1).to_string().as_bytes()].concat();
        let inode = Some(make(&upper.work, &name)?);
        Ok(Aside {
            fs: self,
            upper,
            name,
            inode,
            now,
        })
    }

    /// A whiteout, aside.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn whiteout(&self, now: Timespec) -> Result<Aside<'_>, Errno> {
        self.aside(now, |work, name| make(work, name, &whiteout_of(work, now)))
    }

    /// Has a directory of the upper tree brought to stable storage, if that was asked for.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn sync(&self, inode: &Inode) -> Result<(), Errno> {
        if self.options.syncs {
            #[cfg(test)]
            self.synced.add(1);
            inode.ops().fsync(inode, false)
        } else {
            Ok(())
        }
    }

    /// Removes what a crash left in the work directory.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn sweep(&self, now: Timespec) -> Result<(), Errno> {
        let Some(upper) = &self.upper else {
            return Ok(());
        };
        for name in names(&upper.work)? {
            if name.starts_with(OURS)
                && let Some(left) = look(&upper.work, &name, Patience::Wait)?
            {
                clear(&left, now)?;
                remove(&upper.work, &name, &left, now)?;
            }
        }
        Ok(())
    }
}

/// A whiteout as it is made beside `owner`.
pub(crate) fn whiteout_of(owner: &Inode, now: Timespec) -> NewInode<'static> {
    let (uid, gid) = owner.ids();
    NewInode {
        mode: mode::S_IFCHR,
        uid,
        gid,
        rdev: 0,
        body: &[],
        now,
        tenant: None,
        acls: None,
    }
}

fn names(dir: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    list(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        Ok(true)
    })?;
    Ok(names)
}

/// Removes the whiteouts in a directory of the upper tree, all it has.
fn clear(dir: &Inode, now: Timespec) -> Result<(), Errno> {
    if !dir.is_dir() {
        return Ok(());
    }
    for name in names(dir)? {
        if let Some(inode) = look(dir, &name, Patience::Wait)? {
            if !is_whiteout(&inode) {
                return Err(Errno::ENOTEMPTY);
            }
            remove(dir, &name, &inode, now)?;
        }
    }
    Ok(())
}

impl Aside<'_> {
    /// Puts it in place, where there is nothing, or `target`, which is replaced or, if they are to
    /// be exchanged, aside afterwards.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn put(
        &mut self,
        spot: Spot<'_>,
        target: Option<&Arc<Inode>>,
        exchange: bool,
    ) -> Result<(), Errno> {
        let source = self.inode.as_ref().ok_or(Errno::EIO)?;
        self.fs.sync(source)?;
        rename(&Rename {
            old_dir: &self.upper.work,
            old_name: &self.name,
            source,
            new_dir: spot.dir,
            new_name: spot.name,
            target,
            exchange,
            whiteout: None,
            now: self.now,
        })?;
        self.inode = target.filter(|_| exchange).cloned();
        self.fs.sync(spot.dir)
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if let Some(inode) = self.inode.take() {
            // What stays is swept away when the overlay is made again.
            let _gone = clear(&inode, self.now)
                .and_then(|()| remove(&self.upper.work, &self.name, &inode, self.now));
        }
    }
}

impl Node {
    /// Makes a directory of the upper tree, which shows no name, one that has none: first it hides
    /// what is beneath, then its whiteouts go.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn lay_bare(&self, upper: &Inode, now: Timespec) -> Result<(), Errno> {
        if names(upper)?.is_empty() {
            return Ok(());
        }
        self.hide_beneath(upper, now)?;
        self.strip();
        self.note_change();
        clear(upper, now)
    }

    /// Has a directory of the upper tree hide what is beneath it.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn hide_beneath(&self, upper: &Inode, now: Timespec) -> Result<(), Errno> {
        self.fs.options.marks.set(upper, OPAQUE, b"y", now)
    }

    /// Removes what has nothing beneath it from a directory of the upper tree.
    ///
    /// # Errors
    /// What the upper tree meets.
    pub(crate) fn take_away(
        &self,
        spot: Spot<'_>,
        upper: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        remove(spot.dir, spot.name, upper, now)
    }

    /// Changes a directory of the upper tree, its times being put back after.
    pub(crate) fn with_times<R>(dir: &Inode, run: impl FnOnce() -> R) -> R {
        let before = dir.attr();
        let result = run();
        let times = openpath_vfs::SetAttr {
            atime: Some(before.atime),
            mtime: Some(before.mtime),
            ..openpath_vfs::SetAttr::default()
        };
        // The times are all that is lost.
        let _as_before = change(dir, |ops| ops.setattr(dir, &times));
        result
    }
}
