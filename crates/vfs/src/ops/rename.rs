// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames files: rename(2), renameat(2), renameat2(2).
//!
//! # Kernel analogue
//! `do_renameat2`, `lock_rename`, `vfs_rename`.
//!
//! # Locks
//! In this order:
//! * the superblock's topology, if the directories differ;
//! * the directories, the ancestor first, unrelated ones by address;
//! * of the moved and replaced files, a directory that gets another parent or goes, then others, by
//!   address.
//!
//! A directory that keeps its parent is not locked: two children of one directory must not be,
//! without the topology.
//!
//! # Rules
//! R1. Every step that can fail comes before the backend's rename; the dentry cache follows it.
//! R2. The directories on the way up from either directory stay the same while the topology is
//!     held, so the answers about them still hold when the last lock is taken.

use super::child::defer_free;
use super::unlink::remove_dir_entry;
use super::{Parent, PinnedPath, resolve_parent};
use crate::dcache::NewName;
use crate::file_ops::Fd;
use crate::inode::{Inode, NewInode, Rename};
use crate::lock_order::{InodeNames, RenameTopology};
use crate::object::dflag;
use crate::perm::{self, MAY_WRITE, NewFile, new_file};
use crate::task::{Core, Task};
use crate::tenant::TenantRef;
use crate::walk::{Disowned, LastKind};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use openpath_abi::{Errno, RenameFlags, mode};
use openpath_sync::{MutexGuard, RwLockWriteGuard};
use std::sync::Arc;

type NamesGuard<'a> = RwLockWriteGuard<'a, (), InodeNames>;

impl Task {
    /// Renames `old` to `new`, replacing an existing file. Linux: rename(2).
    ///
    /// # Errors
    /// As [`Task::renameat2`].
    pub fn rename(&self, old: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.renameat2(AT_FDCWD, old, AT_FDCWD, new, RenameFlags::empty())
    }

    /// Renames `old` to `new`, replacing an existing file. Linux: renameat(2).
    ///
    /// # Errors
    /// As [`Task::renameat2`].
    pub fn renameat(&self, dirfd: Fd, old: &[u8], new_dirfd: Fd, new: &[u8]) -> Result<(), Errno> {
        self.renameat2(dirfd, old, new_dirfd, new, RenameFlags::empty())
    }

    /// Renames `old` to `new`, or swaps them. Linux: renameat2(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (flags);
    /// * those of the walk to `old`'s directory, then to `new`'s (`ENOENT` for an empty path,
    ///   `ENAMETOOLONG`);
    /// * `EXDEV` (another mount, even of the same tree);
    /// * `EBUSY` (`old` ends in no name), `EBUSY`, or `EEXIST` with `RENAME_NOREPLACE` (`new`
    ///   does); `EROFS`;
    /// * `ENOENT` (`old`); `EEXIST` (`RENAME_NOREPLACE`), `ENOENT` (`RENAME_EXCHANGE`);
    /// * `ENOTDIR` (a slash after the name of a file that is no directory);
    /// * `EINVAL` (`new` is below `old`); `ENOTEMPTY`, or `EINVAL` with `RENAME_EXCHANGE` (`old` is
    ///   below `new`);
    /// * `EXDEV` (a directory moves to where the host's rules of absent names mean less, L22).
    ///
    /// Then the call succeeds if both are one file. Else:
    /// * `EACCES`, `EPERM` (sticky, append-only, immutable), `ENOTDIR`, `EISDIR`, `ENOENT` (removed
    ///   directory) of the one, then of the other;
    /// * `EACCES` (a directory that cannot be written gets another parent);
    /// * `EBUSY` (one is covered by a mount); `EINTR` (while it waited for a delegation);
    /// * `ENOTEMPTY` and others that the backend meets.
    #[doc(alias = "RENAME_NOREPLACE")]
    #[doc(alias = "RENAME_EXCHANGE")]
    #[doc(alias = "RENAME_WHITEOUT")]
    pub fn renameat2(
        &self,
        dirfd: Fd,
        old: &[u8],
        new_dirfd: Fd,
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        self.renameat2_by(dirfd, old, (new_dirfd, new), flags, 0)
    }

    /// As [`Task::renameat2`], walking with these flags besides.
    pub(super) fn renameat2_by(
        &self,
        dirfd: Fd,
        old: &[u8],
        (new_dirfd, new): (Fd, &[u8]),
        flags: RenameFlags,
        lookup: u32,
    ) -> Result<(), Errno> {
        let (base, new_base) = (self.core.base(dirfd), self.core.base(new_dirfd));
        let (at, new_at) = (base.at(), new_base.at());
        let core = &self.core;
        let how = RenameMode::of(flags)?;
        let from = resolve_parent(core, at, old, lookup)?;
        let to = resolve_parent(core, new_at, new, lookup)?;
        if from.dir.path_ids().mount != to.dir.path_ids().mount {
            return Err(Errno::EXDEV);
        }
        if from.last.kind != LastKind::Norm {
            return Err(Errno::EBUSY);
        }
        if to.last.kind != LastKind::Norm {
            return Err(if how.keeps_target {
                Errno::EEXIST
            } else {
                Errno::EBUSY
            });
        }
        let _writing = from.dir.begin_write()?;
        loop {
            let disowned = Disowned::new(core);
            let dirs = lock_dirs(core, &from.dir, &to.dir)?;
            let pair = find(core, (&from, &to), how, &dirs, &disowned)?;
            let waits = dirs.topology.is_some() || from.dir.mount()?.sb.is_ours_alone();
            let done = carry_out(core, &from, &to, &pair, how, waits);
            drop(dirs);
            match done {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    pair.target.map(defer_free);
                    return Ok(());
                }
                Err(LockedFailure::Refused(errno)) => {
                    if !core.awaited_delegation()? {
                        return Err(errno);
                    }
                }
                Err(LockedFailure::Busy(inode)) => inode.wait_for_names(),
            }
        }
    }
}

/// Why a step with a directory locked was not taken.
pub(super) enum LockedFailure {
    /// It fails.
    Refused(Errno),
    /// The names of this one are locked, and waiting for them is not allowed: see
    /// [`crate::SuperBlock::is_ours_alone`].
    Busy(Arc<Inode>),
}

impl From<Errno> for LockedFailure {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

/// The flags, decoded.
#[derive(Clone, Copy)]
struct RenameMode {
    /// `RENAME_NOREPLACE`.
    keeps_target: bool,
    /// `RENAME_EXCHANGE`.
    exchange: bool,
    /// `RENAME_WHITEOUT`.
    whiteout: bool,
}

impl RenameMode {
    fn of(flags: RenameFlags) -> Result<Self, Errno> {
        let how = Self {
            keeps_target: flags.contains(RENAME_NOREPLACE),
            exchange: flags.contains(RENAME_EXCHANGE),
            whiteout: flags.contains(RENAME_WHITEOUT),
        };
        let unknown = flags.intersects(!(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT));
        if unknown || how.exchange && (how.keeps_target || how.whiteout) {
            return Err(Errno::EINVAL);
        }
        Ok(how)
    }
}

/// Both directories, locked (`lock_rename`).
struct LockedDirs<'a> {
    topology: Option<MutexGuard<'a, (), RenameTopology>>,
    _first: NamesGuard<'a>,
    _second: Option<NamesGuard<'a>>,
    /// The entry that leads from the one directory down to the other, if there is one; else 0.
    trap: u32,
}

fn lock_dirs<'a>(
    core: &Core,
    from: &'a PinnedPath<'_>,
    to: &'a PinnedPath<'_>,
) -> Result<LockedDirs<'a>, Errno> {
    let (old, new) = (from.path_ids().dentry, to.path_ids().dentry);
    let (old_dir, new_dir) = (from.inode()?, to.inode()?);
    if std::ptr::eq(old_dir, new_dir) {
        return Ok(LockedDirs {
            topology: None,
            _first: old_dir.lock_names(),
            _second: None,
            trap: 0,
        });
    }
    let topology = from.mount()?.sb.topology.lock();
    let dcache = &core.vfs.dcache;
    let (old_first, trap) = if let Some(trap) = dcache.branch(new, old) {
        (true, trap)
    } else if let Some(trap) = dcache.branch(old, new) {
        (false, trap)
    } else {
        (by_address(old_dir, new_dir), 0)
    };
    let (first, second) = if old_first {
        (old_dir, new_dir)
    } else {
        (new_dir, old_dir)
    };
    Ok(LockedDirs {
        topology: Some(topology),
        _first: first.lock_names(),
        _second: Some(second.lock_names_nested()),
        trap,
    })
}

/// Whether `one` is to be locked before `other`, neither being above the other.
fn by_address(one: &Inode, other: &Inode) -> bool {
    std::ptr::from_ref(one) < std::ptr::from_ref(other)
}

/// The file that moves, and the file or negative entry at its new name.
struct RenamePair<'t> {
    source: PinnedPath<'t>,
    source_inode: Arc<Inode>,
    /// An entry of the new name, negative or not.
    target: Option<PinnedPath<'t>>,
    target_inode: Option<Arc<Inode>>,
}

/// Finds both, as far as names and the shape of the tree decide.
fn find<'t>(
    core: &Core,
    (from, to): (&Parent<'t>, &Parent<'t>),
    how: RenameMode,
    dirs: &LockedDirs<'_>,
    disowned: &Disowned<'_>,
) -> Result<RenamePair<'t>, Errno> {
    let source = from.dir.existing_child(&from.name, disowned)?;
    let target = if how.exchange {
        Some(to.dir.existing_child(&to.name, disowned)?)
    } else {
        to.dir.new_child(&to.name, disowned)?
    };
    let exists = target.as_ref().filter(|target| !target.is_negative());
    let source_inode = source.share_inode()?;
    let target_inode = exists.map(PinnedPath::share_inode).transpose()?;
    if how.keeps_target && target_inode.is_some() {
        return Err(Errno::EEXIST);
    }
    if how.exchange && to.last.slash && !target_inode.as_ref().is_some_and(|i| i.is_dir()) {
        return Err(Errno::ENOTDIR);
    }
    if !source_inode.is_dir() && (from.last.slash || !how.exchange && to.last.slash) {
        return Err(Errno::ENOTDIR);
    }
    let (old_dir, new_dir) = (from.dir.inode()?, to.dir.inode()?);
    // A directory that another program moved may be cached below itself.
    let trapped = |entry: &PinnedPath<'_>, inode: &Inode| {
        dirs.trap != 0 && entry.path_ids().dentry == dirs.trap
            || std::ptr::eq(inode, old_dir)
            || std::ptr::eq(inode, new_dir)
    };
    if trapped(&source, &source_inode) {
        return Err(Errno::EINVAL);
    }
    let over = target.as_ref().zip(target_inode.as_ref());
    if over.is_some_and(|(entry, inode)| trapped(entry, inode)) {
        return Err(if how.exchange {
            Errno::EINVAL
        } else {
            Errno::ENOTEMPTY
        });
    }
    let mount = from.dir.mount()?;
    let moves = |inode: &Inode, from: &Parent<'_>, to: &Parent<'_>| {
        let (old, new) = (from.dir.path_ids().dentry, to.dir.path_ids().dentry);
        let (old, new) = ((old, &from.name[..]), (new, &to.name[..]));
        let index = from.dir.path_ids().mount;
        !inode.is_dir() || core.let_move(index, mount, old, new)
    };
    let swapped = target_inode.as_ref().filter(|_| how.exchange);
    if !moves(&source_inode, from, to) || swapped.is_some_and(|inode| !moves(inode, to, from)) {
        return Err(Errno::EXDEV);
    }
    Ok(RenamePair {
        source,
        source_inode,
        target,
        target_inode,
    })
}

/// Checks permissions, locks the files that move, and renames (`vfs_rename`); whether the target's
/// entry was unhashed.
fn carry_out(
    core: &Core,
    from: &Parent<'_>,
    to: &Parent<'_>,
    pair: &RenamePair<'_>,
    how: RenameMode,
    waits: bool,
) -> Result<bool, LockedFailure> {
    let (source, target) = (&pair.source_inode, pair.target_inode.as_ref());
    if target.is_some_and(|target| Arc::ptr_eq(source, target)) {
        return Ok(false);
    }
    let crosses = from.dir.path_ids().dentry != to.dir.path_ids().dentry;
    permitted(core, from, to, pair, how, crosses)?;
    let _locked = lock_moved(source, target, how, crosses, waits)?;
    let over = target.is_some() && to.has_to_stay(core)?;
    if pair.source.is_mountpoint() || pair.target.as_ref().is_some_and(PinnedPath::is_mountpoint) {
        return Err(Errno::EBUSY.into());
    }
    if over || from.has_to_stay(core)? {
        return Err(Errno::EBUSY.into());
    }
    let (old_dir, new_dir) = (from.dir.inode()?, to.dir.inode()?);
    core.try_break(old_dir)?;
    core.try_break(new_dir)?;
    for inode in [Some(source), target].into_iter().flatten() {
        if !inode.is_dir() {
            core.try_break(inode)?;
        }
    }
    let tenant = core.tenant();
    let left = match how.whiteout {
        true => Some(new_file(&core.cred(), old_dir, mode::S_IFCHR, 0)?),
        false => None,
    };
    // R1: memory for the name is taken before anything changes.
    let name = core
        .vfs
        .dcache
        .reserve_name(to.dir.path_ids().dentry, &to.name)?;
    let rename = Rename {
        old_dir,
        old_name: &from.name,
        source,
        new_dir,
        new_name: &to.name,
        target,
        exchange: how.exchange,
        whiteout: left.as_ref().map(|left| whiteout(core, left, &tenant)),
        now: core.vfs.clock.now(),
    };
    if how.whiteout {
        // The old name goes on to exist, and its new meaning is not cached.
        core.vfs.dcache.set_incomplete(from.dir.path_ids().dentry);
    }
    core.vfs
        .dcache
        .with_room(|| old_dir.shielded(|ops| ops.rename(&rename)))?;
    let replaced = follow(core, pair, to.dir.path_ids().dentry, name, how);
    if core.vfs.notify.is_active() {
        let (old, new) = ((old_dir, &from.name[..]), (new_dir, &to.name[..]));
        let gone = target.filter(|_| !how.exchange).map(|inode| &**inode);
        core.vfs.tell_moved(source, old, new, gone);
        if let Some(swapped) = target.filter(|_| how.exchange) {
            core.vfs.tell_moved(swapped, new, old, None);
        }
    }
    Ok(replaced)
}

/// Whether the task has the permissions.
fn permitted(
    core: &Core,
    from: &Parent<'_>,
    to: &Parent<'_>,
    pair: &RenamePair<'_>,
    how: RenameMode,
    crosses: bool,
) -> Result<(), Errno> {
    let (source, target) = (&pair.source_inode, pair.target_inode.as_ref());
    let (old_dir, new_dir) = (from.dir.inode()?, to.dir.inode()?);
    let cred = core.cred();
    let sb = &from.dir.mount()?.sb;
    perm::may_delete(&cred, sb, old_dir, source, source.is_dir())?;
    match target {
        None => perm::may_create(&cred, sb, new_dir)?,
        Some(target) => {
            let want_dir = if how.exchange {
                target.is_dir()
            } else {
                source.is_dir()
            };
            perm::may_delete(&cred, sb, new_dir, target, want_dir)?;
        }
    }
    if crosses {
        // A directory that gets another parent gets another `..`.
        let swapped = target.filter(|_| how.exchange);
        for inode in [Some(source), swapped].into_iter().flatten() {
            if inode.is_dir() {
                perm::inode_permission(&cred, sb, inode, MAY_WRITE)?;
            }
        }
    }
    Ok(())
}

/// Takes all necessary locks of the moved and replaced files; see the module head. Unless it may
/// wait, a directory is locked only if it is free.
fn lock_moved<'a>(
    source: &'a Arc<Inode>,
    target: Option<&'a Arc<Inode>>,
    how: RenameMode,
    crosses: bool,
    waits: bool,
) -> Result<[Option<NamesGuard<'a>>; 2], LockedFailure> {
    let lock = |inode: &'a Arc<Inode>| -> Result<Option<NamesGuard<'a>>, LockedFailure> {
        if waits || !inode.is_dir() {
            return Ok(Some(inode.lock_names_nested()));
        }
        let free = inode.try_lock_names();
        Ok(Some(
            free.ok_or_else(|| LockedFailure::Busy(Arc::clone(inode)))?,
        ))
    };
    let target_leaves = crosses || !how.exchange;
    Ok(match target {
        _ if source.is_dir() => {
            let first = if crosses { lock(source)? } else { None };
            let second = target.filter(|t| !t.is_dir() || target_leaves);
            [first, second.map_or(Ok(None), lock)?]
        }
        None => [lock(source)?, None],
        Some(target) if target.is_dir() => {
            let first = if target_leaves { lock(target)? } else { None };
            [first, lock(source)?]
        }
        Some(target) if by_address(source, target) => [lock(source)?, lock(target)?],
        Some(target) => [lock(target)?, lock(source)?],
    })
}

/// A whiteout: a character device 0:0 without any permissions.
fn whiteout<'a>(core: &Core, left: &'a NewFile, tenant: &'a TenantRef) -> NewInode<'a> {
    NewInode {
        mode: left.mode,
        uid: left.uid,
        gid: left.gid,
        rdev: 0,
        body: b"",
        now: core.vfs.clock.now(),
        tenant: Some(tenant),
        acls: left.acls.as_ref(),
    }
}

/// Updates the dentry cache after the backend (`d_move`, `d_exchange`); whether the target's entry
/// was unhashed.
fn follow(
    core: &Core,
    pair: &RenamePair<'_>,
    parent: u32,
    name: NewName<'_>,
    how: RenameMode,
) -> bool {
    let dcache = &core.vfs.dcache;
    let moved = pair.source.path_ids().dentry;
    let swapped = pair.target.as_ref().filter(|_| how.exchange);
    let is_dir = |entry: &PinnedPath<'_>| !entry.sample.has(dflag::NOT_DIR);
    let begin = |entry: Option<&PinnedPath<'_>>| {
        let dir = entry.filter(|entry| is_dir(entry))?;
        Some(dcache.begin_dir_change(dir.path_ids().dentry))
    };
    let changes = (begin(Some(&pair.source)), begin(swapped));
    // Walks on the way up through a directory that moves must notice the move.
    let _moving = (changes.0.is_some() || changes.1.is_some()).then(|| core.vfs.renames.change());
    if let Some(swapped) = swapped {
        dcache.exchange(moved, swapped.path_ids().dentry, name.seen);
        return false;
    }
    // The replaced entry is unhashed in the same step: the new name is never absent.
    match (&pair.target, &pair.target_inode) {
        (Some(target), Some(inode)) if inode.is_dir() => {
            remove_dir_entry(core, target, inode, |dcache, target| {
                dcache.rename(moved, parent, name, Some(target));
            });
        }
        (target, _) => {
            let replaced = target.as_ref().map(|target| target.path_ids().dentry);
            dcache.rename(moved, parent, name, replaced);
        }
    }
    pair.target.is_some()
}
