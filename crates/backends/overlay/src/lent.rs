// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps out of one directory of the upper tree while something else changes it.
//!
//! # States
//! Nothing is lent -> lent, once, for the rest of the overlay's life.
//!
//! # Rules
//! R1. The directory is known by its inode of the upper tree, so no change of names by others, in a
//!     lower tree, leads into it under another path.
//! R2. It shows no names, and cannot be changed (`EROFS`), removed or replaced (`EBUSY`). The
//!     directories above it stay where they are (`EXDEV`).

use crate::fs::Fs;
use crate::layer::lookup;
use crate::node::Node;
use openpath_abi::Errno;
use openpath_vfs::{Inode, Rename, WaitMode};
use std::sync::Arc;

impl Fs {
    /// Lends the directory at this path of the upper tree.
    ///
    /// # Errors
    /// `EROFS` (there is no upper tree), `ENOENT`, `ENOTDIR`, `EBUSY` (one is lent), those of the
    /// upper tree.
    pub(crate) fn lend(&self, path: &[u8]) -> Result<(), Errno> {
        let mut at = Arc::clone(&self.upper()?.root);
        let mut chain = Vec::new();
        for name in path.split(|byte| *byte == b'/').filter(|n| !n.is_empty()) {
            at = lookup(&at, name, WaitMode::Wait)?.ok_or(Errno::ENOENT)?;
            if !at.is_dir() {
                return Err(Errno::ENOTDIR);
            }
            chain.push(Arc::clone(&at));
        }
        if chain.is_empty() || self.lent.get().is_some() {
            return Err(Errno::EBUSY);
        }
        self.lent.set(chain);
        Ok(())
    }
}

impl Node {
    /// Whether it is the directory that is lent.
    pub(crate) fn is_lent(&self) -> bool {
        let lent = self.fs.lent.get().and_then(|chain| chain.last());
        lent.is_some_and(|lent| self.upper().is_some_and(|own| Arc::ptr_eq(own, lent)))
    }

    /// Refuses a change of the directory that is lent, or of a name in it (R2).
    ///
    /// # Errors
    /// `EROFS`
    pub(crate) fn check_not_lent(&self) -> Result<(), Errno> {
        match self.is_lent() {
            true => Err(Errno::EROFS),
            false => Ok(()),
        }
    }

    /// Refuses a rename that touches what is lent (R2).
    ///
    /// # Errors
    /// `EROFS`, `EBUSY`, `EXDEV`
    pub(crate) fn check_rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        if self.fs.lent.get().is_none() {
            return Ok(());
        }
        self.sibling(rename.old_dir)?.check_not_lent()?;
        self.sibling(rename.new_dir)?.check_not_lent()?;
        self.check_stays(rename.source)?;
        rename
            .target
            .map_or(Ok(()), |target| self.check_stays(target))
    }

    /// Refuses a change of the place of the directory that is lent (R2).
    ///
    /// # Errors
    /// `EBUSY`, or `EXDEV` for a directory above it.
    pub(crate) fn check_stays(&self, inode: &Arc<Inode>) -> Result<(), Errno> {
        let Some(chain) = self.fs.lent.get() else {
            return Ok(());
        };
        let node = self.sibling(inode)?;
        let is_own = |above: &Arc<Inode>| node.upper().is_some_and(|own| Arc::ptr_eq(own, above));
        match chain.iter().any(is_own) {
            true if node.is_lent() => Err(Errno::EBUSY),
            true => Err(Errno::EXDEV),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{OverlayFs, OverlayOptions};
    use openpath_abi::Errno;
    use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_WRONLY};
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Task, Vfs};
    use std::sync::Arc;

    fn task_over(tree: Arc<openpath_vfs::SuperBlock>) -> Task {
        let vfs = Vfs::builder().build(tree).unwrap();
        vfs.task(Cred::root()).unwrap()
    }

    #[test]
    fn lent_directory_is_empty_and_stays_whatever_leads_to_it() {
        let memory = || MemFs::new(MemOptions::default());
        let (lower, upper) = (memory(), memory());
        let below = task_over(Arc::clone(&lower));
        for dir in [&b"/a"[..], b"/a/w", b"/a/o"] {
            below.mkdir(dir, 0o755).unwrap();
        }
        let create = |task: &Task, path: &[u8]| task.open(path, O_WRONLY | O_CREAT, 0o644);
        create(&below, b"/a/w/file").unwrap();
        let options = OverlayOptions::default()
            .lowers(vec![lower])
            .upper(Some(Arc::clone(&upper)));
        let tree = OverlayFs::new(options).unwrap();
        let task = task_over(Arc::clone(&tree));
        task.chmod(b"/a/w", 0o700).unwrap();
        OverlayFs::lend(&tree, b"/a/w").unwrap();
        // What something else makes there.
        let above = task_over(upper);
        create(&above, b"/upper/a/w/made").unwrap();
        for moved in [false, true] {
            if moved {
                below.rename(b"/a/w", b"/a/g").unwrap();
            }
            for name in [&b"/a/w/file"[..], b"/a/w/made"] {
                assert_eq!(task.open(name, O_RDONLY, 0), Err(Errno::ENOENT));
            }
            assert_eq!(create(&task, b"/a/w/new"), Err(Errno::EROFS));
            assert_eq!(task.mkdir(b"/a/w/dir", 0o755), Err(Errno::EROFS));
            assert_eq!(task.chmod(b"/a/w", 0o755), Err(Errno::EROFS));
            assert_eq!(task.rmdir(b"/a/w"), Err(Errno::EBUSY));
            assert_eq!(task.rename(b"/a/w", b"/a/v"), Err(Errno::EBUSY));
            assert_eq!(task.rename(b"/a", b"/b"), Err(Errno::EXDEV));
            assert_eq!(task.rename(b"/a/o", b"/a/w/o"), Err(Errno::EROFS));
            assert_eq!(task.rename(b"/a/o", b"/a/w"), Err(Errno::EBUSY));
        }
        // What others moved away has changes of its own.
        create(&task, b"/a/g/new").unwrap();
        assert_eq!(above.stat(b"/upper/a/w/new"), Err(Errno::ENOENT));
        above.stat(b"/upper/a/g/new").unwrap();
        above.stat(b"/upper/a/w/made").unwrap();
        assert_eq!(OverlayFs::lend(&tree, b"/a"), Err(Errno::EBUSY));
    }
}
