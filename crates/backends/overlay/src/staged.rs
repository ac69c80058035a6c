// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes files in the work directory of the upper tree, and installs each by one rename: a reader,
//! or a restart after a crash, sees a whole change or none.

use crate::fs::{Fs, Upper};
use crate::layer::{create, list_dir, lock_both, lookup, remove, rename};
use crate::marks::OPAQUE;
use crate::node::Node;
use crate::whiteout::is_whiteout;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, NewInode, Rename, SetAttr, WaitMode};
use std::sync::Arc;

/// Prefix of the names of staged files.
const STAGED_PREFIX: &[u8] = b"#";

/// A file in the work directory, removed again unless it is installed.
pub(crate) struct StagedFile<'a> {
    fs: &'a Fs,
    upper: &'a Upper,
    name: Vec<u8>,
    /// The inode; `None` once it is installed.
    pub(crate) inode: Option<Arc<Inode>>,
    now: Timespec,
}

/// Where a file is installed.
#[derive(Clone, Copy)]
pub(crate) struct Destination<'a> {
    pub(crate) dir: &'a Arc<Inode>,
    pub(crate) name: &'a [u8],
}

impl Fs {
    /// Stages a file; `make` makes it in a directory and under a name.
    ///
    /// # Errors
    /// Those of `make`; `EROFS`.
    pub(crate) fn stage(
        &self,
        now: Timespec,
        make: impl FnOnce(&Arc<Inode>, &[u8]) -> Result<Arc<Inode>, Errno>,
    ) -> Result<StagedFile<'_>, Errno> {
        let upper = self.upper()?;
        let name = [
            STAGED_PREFIX,
            self.staged_count.add(1).to_string().as_bytes(),
        ]
        .concat();
        let inode = Some(make(&upper.work, &name)?);
        Ok(StagedFile {
            fs: self,
            upper,
            name,
            inode,
            now,
        })
    }

    /// Stages a whiteout.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn stage_whiteout(&self, now: Timespec) -> Result<StagedFile<'_>, Errno> {
        self.stage(now, |work, name| {
            create(work, name, &new_whiteout(work, now))
        })
    }

    /// Puts a whiteout where the upper tree has nothing.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn put_whiteout(&self, at: Destination<'_>, now: Timespec) -> Result<(), Errno> {
        if !self.options.direct_whiteouts {
            return self.stage_whiteout(now)?.install(at, None, false);
        }
        let work = &self.upper()?.work;
        create(at.dir, at.name, &new_whiteout(work, now))?;
        self.sync(at.dir)
    }

    /// Syncs an inode of the upper tree, if the overlay syncs.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn sync(&self, inode: &Inode) -> Result<(), Errno> {
        if self.options.syncs {
            #[cfg(test)]
            self.sync_count.add(1);
            inode.ops().fsync(inode, false)
        } else {
            Ok(())
        }
    }

    /// Removes leftovers of a crash from the work directory.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn clear_work_dir(&self, now: Timespec) -> Result<(), Errno> {
        let Some(upper) = &self.upper else {
            return Ok(());
        };
        for name in names_in(&upper.work)? {
            if name.starts_with(STAGED_PREFIX)
                && let Some(left) = lookup(&upper.work, &name, WaitMode::Wait)?
            {
                remove_whiteouts(&left, now)?;
                remove(&upper.work, &name, &left, now)?;
            }
        }
        Ok(())
    }
}

/// A new whiteout with the owner of `owner`.
pub(crate) fn new_whiteout(owner: &Inode, now: Timespec) -> NewInode<'static> {
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

fn names_in(dir: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    list_dir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        Ok(true)
    })?;
    Ok(names)
}

/// Removes the whiteouts of a directory of the upper tree, which has no other entries.
fn remove_whiteouts(dir: &Inode, now: Timespec) -> Result<(), Errno> {
    if !dir.is_dir() {
        return Ok(());
    }
    for name in names_in(dir)? {
        if let Some(inode) = lookup(dir, &name, WaitMode::Wait)? {
            if !is_whiteout(&inode) {
                return Err(Errno::ENOTEMPTY);
            }
            remove(dir, &name, &inode, now)?;
        }
    }
    Ok(())
}

impl StagedFile<'_> {
    /// Installs the file where there is nothing, or in place of `target`. That is replaced, or
    /// staged afterwards if they are exchanged.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn install(
        &mut self,
        destination: Destination<'_>,
        target: Option<&Arc<Inode>>,
        exchange: bool,
    ) -> Result<(), Errno> {
        let source = self.inode.as_ref().ok_or(Errno::EIO)?;
        self.fs.sync(source)?;
        rename(&Rename {
            exchange,
            target,
            ..self.rename_to(destination, source)
        })?;
        self.inode = target.filter(|_| exchange).cloned();
        self.fs.sync(destination.dir)
    }

    /// Installs the copy of a file: the access time and the modification time of the directory
    /// stay.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn install_copy(&mut self, destination: Destination<'_>) -> Result<(), Errno> {
        let source = self.inode.as_ref().ok_or(Errno::EIO)?;
        self.fs.sync(source)?;
        {
            let dir = destination.dir;
            let _locked = lock_both(&self.upper.work, dir);
            let before = dir.attr();
            let work = &self.upper.work;
            work.ops().rename(&self.rename_to(destination, source))?;
            let times = SetAttr {
                atime: Some(before.atime),
                mtime: Some(before.mtime),
                ..SetAttr::default()
            };
            // Only the times are lost.
            let _as_before = dir.ops().setattr(dir, &times);
        }
        self.inode = None;
        self.fs.sync(destination.dir)
    }

    fn rename_to<'a>(&'a self, to: Destination<'a>, source: &'a Arc<Inode>) -> Rename<'a> {
        Rename {
            old_dir: &self.upper.work,
            old_name: &self.name,
            source,
            new_dir: to.dir,
            new_name: to.name,
            target: None,
            exchange: false,
            whiteout: None,
            now: self.now,
        }
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        if let Some(inode) = self.inode.take() {
            // A leftover is removed when the overlay is made again.
            let _removed = remove_whiteouts(&inode, self.now)
                .and_then(|()| remove(&self.upper.work, &self.name, &inode, self.now));
        }
    }
}

impl Node {
    /// Makes a directory of the upper tree empty that shows no names: first it becomes opaque, then
    /// its whiteouts are removed.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn make_opaque_and_clear(&self, upper: &Inode, now: Timespec) -> Result<(), Errno> {
        if names_in(upper)?.is_empty() {
            return Ok(());
        }
        self.make_opaque(upper, now)?;
        self.hide_lowers();
        self.bump_version();
        remove_whiteouts(upper, now)
    }

    /// Makes a directory of the upper tree opaque.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn make_opaque(&self, upper: &Inode, now: Timespec) -> Result<(), Errno> {
        self.fs.options.marks.set(upper, OPAQUE, b"y", now)
    }

    /// Removes a name from the upper tree that no lower tree has.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn remove_from_upper(
        &self,
        destination: Destination<'_>,
        upper: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        remove(destination.dir, destination.name, upper, now)
    }
}
