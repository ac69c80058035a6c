// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up, lists, renames and removes files in a directory tree of the host by their paths, while
//! other users may change names in it.
//!
//! # Rules
//! R1. Every path is followed from the tree's root by openat2(2) without symbolic links and without
//!     a way out, as far as the directory; the last name is given to a call that follows nothing.
//! R2. Paths begin with a slash; the root's is empty. They may be longer than `PATH_MAX`: they are
//!     followed in pieces.

use crate::attributes::file_stat::{FileStat, InodeId};
use crate::host::descriptors::reopen_path;
use crate::host::held_file::{HeldFile, MASK, known_births_stay};
use crate::host::names::{is_below, join, names_in, split};
use crate::host::{remove, rename};
use crate::report::refusal::Refusal;
use openpath_overlay::Marks;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

/// How directories are followed (R1).
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// A tree of the host.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Rc<OwnedFd>,
    /// Directories that were asked for last, the newest one at the end.
    known: RefCell<Vec<(Vec<u8>, Rc<OwnedFd>)>>,
    /// Whether times of birth stay, by device.
    births: RefCell<HashMap<(u32, u32), bool>>,
    /// Of an upper tree: the prefix of its marks.
    pub(crate) marks: Marks,
}

/// How many directories are kept open.
const KNOWN_MAX: usize = 16;
/// The longest piece of a path that is given to one call.
const PIECE: usize = 2048;

impl Tree {
    /// The tree below this directory.
    pub(crate) fn open(path: &Path) -> std::result::Result<Tree, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())
            .map_err(|why| Refusal::step(&path.display().to_string(), why))?;
        Ok(Tree::at(root))
    }

    /// The tree below a directory that is held.
    pub(crate) fn at(root: OwnedFd) -> Tree {
        Tree {
            root: Rc::new(root),
            known: RefCell::new(Vec::new()),
            births: RefCell::new(HashMap::new()),
            marks: Marks::User,
        }
    }

    /// The name of the attribute with a mark.
    pub(crate) fn mark(&self, what: &[u8]) -> Vec<u8> {
        [self.marks.prefix(), what].concat()
    }

    /// A directory of it.
    pub(crate) fn dir(&self, path: &[u8]) -> Result<Rc<OwnedFd>> {
        let (mut dir, mut rest) = self.nearest(path);
        if rest.is_empty() {
            return Ok(dir);
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        while !rest.is_empty() {
            let (piece, more) = piece_of(rest)?;
            dir = Rc::new(openat2(&dir, piece, flags)?);
            rest = more;
        }
        let mut known = self.known.borrow_mut();
        if known.len() == KNOWN_MAX {
            known.remove(0);
        }
        known.push((path.to_vec(), Rc::clone(&dir)));
        Ok(dir)
    }

    /// The known directory that is nearest to a path, and the rest of the path.
    fn nearest<'p>(&self, path: &'p [u8]) -> (Rc<OwnedFd>, &'p [u8]) {
        let known = self.known.borrow();
        let above = known.iter().filter(|(known, _)| is_below(path, known));
        match above.max_by_key(|(known, _)| known.len()) {
            Some((known, dir)) => (Rc::clone(dir), &path[known.len()..]),
            None => (Rc::clone(&self.root), path),
        }
    }

    /// The directory that has a path's last name, and that name.
    pub(crate) fn locate<'p>(&self, path: &'p [u8]) -> Result<(Rc<OwnedFd>, &'p [u8])> {
        let (dir, name) = split(path);
        let name = if path.is_empty() { b"." } else { name };
        Ok((self.dir(dir)?, name))
    }

    /// What is at a path, if anything.
    pub(crate) fn stat(&self, path: &[u8]) -> Result<Option<FileStat>> {
        let (dir, name) = match self.locate(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            located => located?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = match rustix::fs::statx(&*dir, name, flags, MASK) {
            Err(Errno::NOENT) => return Ok(None),
            stat => stat?,
        };
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        let known = known_births_stay(&stat);
        let known = known.or_else(|| self.births.borrow().get(&device).copied());
        if let Some(stay) = known {
            return Ok(Some(FileStat::new(&stat, stay)));
        }
        let Some(held) = HeldFile::open(&*dir, name)? else {
            return Ok(None);
        };
        let mut births = self.births.borrow_mut();
        births.insert(held.stat.device, held.stat.births_stay);
        Ok(Some(held.stat))
    }

    /// Holds what is at a path, if anything.
    pub(crate) fn hold(&self, path: &[u8]) -> Result<Option<HeldFile>> {
        match self.locate(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            located => {
                let (dir, name) = located?;
                HeldFile::open(&*dir, name)
            }
        }
    }

    /// The inode at a path, if there is one.
    pub(crate) fn id(&self, path: &[u8]) -> Result<Option<InodeId>> {
        Ok(self.stat(path)?.map(|stat| stat.id()))
    }

    /// The names in a directory, in order.
    pub(crate) fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        names_in(self.dir(path)?.as_fd())
    }

    /// Renames within this tree; a name that is there is not replaced.
    pub(crate) fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_to(from, self, to)
    }

    /// Renames into another tree; a name that is there is not replaced.
    pub(crate) fn rename_to(&self, from: &[u8], tree: &Tree, to: &[u8]) -> Result<()> {
        let (old, old_name) = self.locate(from)?;
        let (new, new_name) = tree.locate(to)?;
        let done = rename::noreplace((old.as_fd(), old_name), (new.as_fd(), new_name));
        // A directory that was known by its path may have another.
        self.forget_paths();
        tree.forget_paths();
        done
    }

    /// Removes a name, and of a directory all that is in it; nothing there is well.
    pub(crate) fn remove(&self, path: &[u8]) -> Result<()> {
        self.remove_while(path, &mut || true)
    }

    /// The same for as long as `keep_going`, asked before each name.
    ///
    /// # Errors
    /// `ECANCELED`: it did not.
    pub(crate) fn remove_while(
        &self,
        path: &[u8],
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let (dir, name) = match self.locate(path) {
            Err(Errno::NOENT) => return Ok(()),
            located => located?,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        if let Err(Errno::NOENT) = rustix::fs::statx(&*dir, name, flags, StatxFlags::TYPE) {
            return Ok(());
        }
        self.forget_paths();
        remove::remove(dir.as_fd(), name, keep_going)
    }

    /// Removes a held file, of a directory first all that is in the held one, and then its name.
    /// `keep_going` is asked before each name.
    ///
    /// # Errors
    /// `ECANCELED`: it said no. What the file system says.
    pub(crate) fn remove_held(
        &self,
        path: &[u8],
        held: &HeldFile,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<()> {
        let (dir, name) = self.locate(path)?;
        let flags = match held.stat.is_dir() {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        if held.stat.is_dir() {
            remove::let_in(held.fd())?;
            let within = Tree::at(reopen_path(held.fd())?);
            for name in names_in(held.fd())? {
                within.remove_while(&join(b"", &name), keep_going)?;
            }
        }
        self.forget_paths();
        if !keep_going() {
            return Err(Errno::CANCELED);
        }
        rustix::fs::unlinkat(&*dir, name, flags)
    }

    /// Renames a held file into a tree; a name that is there is not replaced.
    ///
    /// # Errors
    /// As [`rename::checked`].
    pub(crate) fn rename_held(
        &self,
        from: &[u8],
        (tree, to): (&Tree, &[u8]),
        held: &HeldFile,
    ) -> Result<()> {
        let (old, old_name) = self.locate(from)?;
        let (new, new_name) = tree.locate(to)?;
        let done = rename::checked((old.as_fd(), old_name), (new.as_fd(), new_name), held);
        // No directory gets another path by the rename of a file.
        if held.stat.is_dir() {
            self.forget_paths();
            tree.forget_paths();
        }
        done
    }

    /// Forgets which directory has which path, after a rename.
    pub(crate) fn forget_paths(&self) {
        self.known.borrow_mut().clear();
    }
}

/// As much of a path as one call takes, without the slash before it, and the rest.
fn piece_of(path: &[u8]) -> Result<(&[u8], &[u8])> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    if path.len() <= PIECE {
        return Ok((path, b""));
    }
    let end = path[..PIECE].iter().rposition(|byte| *byte == b'/');
    let end = end.ok_or(Errno::NAMETOOLONG)?;
    Ok((&path[..end], &path[end..]))
}

fn openat2(dir: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::openat2(dir, path, flags, Mode::empty(), BENEATH)
}
