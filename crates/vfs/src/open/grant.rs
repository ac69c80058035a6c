// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks at the end of an open whether this task may open this file in this way, and opens and
//! truncates the file (`do_open`, `may_open`, `do_dentry_open`).

use super::OpenOp;
use super::sticky::{sticky_allows, sticky_level};
use crate::file::{Filp, NewFileArgs};
use crate::file_ops::{FileOps, QUICK, TRIED};
use crate::inode::{Inode, SetAttr, WaitMode, flag};
use crate::object::{MountData, mflag};
use crate::perm::{self, MAY_WRITE};
use crate::pipe::{Opener, PipeEnd, open_fifo};
use crate::reason::Reason;
use crate::steps::Check;
use crate::superblock::SuperBlock;
use crate::target::without_privileges;
use crate::task::{Core, WriteAccess};
use crate::walk::lflag;
use openpath_abi::fcntl::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_EXCL, O_LARGEFILE, O_NOATIME, O_NOCTTY,
    O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
};
use openpath_abi::{Errno, OFlags, mode};
use openpath_sync::{FileRef, Pin, Sample};
use std::sync::Arc;

/// The end of a walk.
#[derive(Clone, Copy)]
pub(super) struct WalkEnd {
    /// The entry, when it was pinned.
    pub(super) sample: Sample,
    /// The walk's flags.
    pub(super) walked: u32,
    /// The file was made on the way.
    pub(super) created: bool,
}

/// Opens the end of a walk: checks it, and takes over the walk's pin.
///
/// # Errors
/// In this order: `EEXIST`, `EISDIR`, `EACCES` (sticky rules) for `O_CREAT`; `ENOTDIR`; `EROFS`
/// (truncation); those of [`may_open`]; those of [`open_inode`]; `EINVAL` (`O_DIRECT` where there
/// is none); `ETXTBSY`, `EPERM` and the backend's for truncation.
pub(super) fn finish<'t>(
    core: &'t Core,
    pin: Pin,
    ended: WalkEnd,
    op: &OpenOp,
) -> Result<Filp<'t>, Errno> {
    if op.flags & O_ACCMODE != O_ACCMODE {
        core.pins.mark_opened(&pin);
    }
    match reads_plainly(core, &pin, op, ended.walked) {
        Some(Ok(())) => Ok(Filp::hold(core, make(core, pin, op.flags, false))),
        Some(Err(errno)) => {
            // Nothing of a failed open is left: the pin was all there was.
            core.pins.release(pin);
            Err(errno)
        }
        None => finish_ruled(core, pin, ended, op),
    }
}

/// As [`finish`], for a cached file whose open neither waits nor asks its backend; `None`, and the
/// pin released, for others.
#[inline(always)]
pub(super) fn at_once(
    core: &Core,
    pin: Pin,
    sample: Sample,
    op: &OpenOp,
) -> Option<Result<FileRef, Errno>> {
    match reads_plainly(core, &pin, op, op.lookup) {
        Some(Ok(())) => Some(Ok(make(core, pin, op.flags, false))),
        Some(Err(errno)) => {
            core.pins.release(pin);
            Some(Err(errno))
        }
        None => at_once_ruled(core, pin, sample, op),
    }
}

/// As [`at_once`], by all the rules.
#[inline(never)]
fn at_once_ruled(
    core: &Core,
    pin: Pin,
    sample: Sample,
    op: &OpenOp,
) -> Option<Result<FileRef, Errno>> {
    match writes_plainly(core, &pin, op) {
        Some(Ok(())) => return Some(Ok(make(core, pin, op.flags, false))),
        Some(Err(errno)) => {
            core.pins.release(pin);
            return Some(Err(errno));
        }
        None => {}
    }
    let inode = core.vfs.dcache.store.dentry_payload(&pin);
    let waits = inode.is_none_or(|inode| {
        !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR)
            || inode.flags() & hooks(op.flags) != 0
            || core.vfs.has_leases(inode)
            // A file with neither access is not marked as an open.
            || op.flags & O_ACCMODE == O_ACCMODE
    });
    if waits {
        core.pins.release(pin);
        return None;
    }
    let ended = WalkEnd {
        sample,
        walked: op.lookup,
        created: false,
    };
    Some(finish_ruled(core, pin, ended, op).map(Filp::into_ref))
}

/// A file opened with `O_PATH`: only a place.
pub(super) fn place<'t>(core: &'t Core, pin: Pin, op: &OpenOp) -> Filp<'t> {
    Filp::hold(core, make(core, pin, op.flags, false))
}

#[inline(always)]
fn make(core: &Core, pin: Pin, flags: OFlags, created: bool) -> FileRef {
    let args = NewFileArgs {
        flags,
        created,
        shared: core.fds().is_shared(),
    };
    core.make_file(pin, args)
}

/// Flags that do not matter to whether a regular file may be opened for reading.
const IDLE: OFlags = OFlags::union_of(&[
    O_LARGEFILE,
    O_NONBLOCK,
    O_APPEND,
    O_NOFOLLOW,
    O_NOCTTY,
    O_CLOEXEC,
    QUICK,
    TRIED,
]);

/// The answer for a regular file opened only for reading, which needs no more than its permissions.
#[inline(always)]
fn reads_plainly(core: &Core, pin: &Pin, op: &OpenOp, walked: u32) -> Option<Result<(), Errno>> {
    // Where a watch exists, opens go by all the rules, which tell of them.
    if core.vfs.notify.is_active() || op.flags.intersects(!IDLE) || walked & lflag::DIRECTORY != 0 {
        return None;
    }
    let inode = core.vfs.dcache.store.dentry_payload(pin)?;
    let mode_bits = inode.mode();
    if mode_bits & mode::S_IFMT != mode::S_IFREG
        // An access control list may deny access that the mode gives to everyone.
        || inode.flags() & (flag::OPEN_HOOK | flag::LEASED | flag::ACL) != 0
        || core.by_lock_pointer && core.vfs.has_leases(inode)
    {
        return None;
    }
    if mode_bits & 0o444 != 0o444
        && let Err(errno) = may_read(core, inode)
    {
        return Some(Err(errno));
    }
    Some(Ok(()))
}

/// The answer for a regular file that exists and is opened for writing, with or without `O_CREAT`,
/// if no rule but permissions and write access matters.
#[inline(always)]
fn writes_plainly(core: &Core, pin: &Pin, op: &OpenOp) -> Option<Result<(), Errno>> {
    const SPECIAL: u64 = flag::OPEN_HOOK
        | flag::WRITE_HOOK
        | flag::IMMUTABLE
        | flag::APPEND_ONLY
        | flag::LEASED
        | flag::ACLS_UNREAD;
    let access = op.flags & O_ACCMODE;
    let ruled = op.flags.intersects(!(IDLE | O_ACCMODE | O_CREAT))
        || op.lookup & (lflag::DIRECTORY | lflag::REGULAR) != 0;
    if ruled || access == O_ACCMODE || core.vfs.notify.is_active() {
        return None;
    }
    let store = &core.vfs.dcache.store;
    let (inode, mount) = (store.dentry_payload(pin)?, store.mount_payload(pin)?);
    let plain = inode.kind() == mode::S_IFREG && inode.flags() & SPECIAL == 0;
    let sticky = op.has(O_CREAT) && sticky_level(core, inode) != 0;
    if !plain || sticky || mount.sb.is_read_only() {
        return None;
    }
    let allowed = perm::generic_permission(&core.cred(), inode, op.access);
    if access == O_RDONLY || allowed.is_err() {
        return Some(allowed);
    }
    let opened = core.get_write_access(pin, mount, inode);
    // Again, now that the mark is visible: an earlier taker of a lease has not seen it.
    if opened.is_ok() && inode.flags() & flag::LEASED != 0 {
        core.pins.mark_opened(pin);
        return None;
    }
    Some(opened)
}

/// Whether the task may read a file that not everyone may.
#[cold]
fn may_read(core: &Core, inode: &Inode) -> Result<(), Errno> {
    perm::generic_permission(&core.cred(), inode, perm::MAY_READ)
}

/// As [`finish`], by all the rules.
#[inline(never)]
fn finish_ruled<'t>(
    core: &'t Core,
    pin: Pin,
    ended: WalkEnd,
    op: &OpenOp,
) -> Result<Filp<'t>, Errno> {
    let truncates = match granted(core, &pin, ended, op) {
        Ok(truncates) => truncates,
        Err(errno) => {
            core.pins.release(pin);
            return Err(errno);
        }
    };
    let file = open_at(core, pin, op.flags, ended.created)?;
    if let Some(_writing) = truncates {
        truncate(core, &file)?;
    }
    Ok(file)
}

/// All checks between the walk and the opening of the inode; the permission to change the mount, if
/// the file is truncated.
#[inline(always)]
pub(super) fn granted<'t>(
    core: &'t Core,
    pin: &Pin,
    ended: WalkEnd,
    op: &OpenOp,
) -> Result<Option<WriteAccess<'t>>, Errno> {
    let WalkEnd {
        sample,
        walked,
        created,
    } = ended;
    let store = &core.vfs.dcache.store;
    let (Some(inode), Some(mount)) = (store.dentry_payload(pin), store.mount_payload(pin)) else {
        return Err(Errno::ENOENT);
    };
    let mount_flags = core.vfs.mounts.at(pin.mount()).word().sample();
    if op.has(O_CREAT) {
        if op.has(O_EXCL) && !created {
            return Err(core.refused(Check::Exists, Errno::EEXIST));
        }
        if inode.is_dir() {
            return Err(core.refused(Check::IsDirectory, Errno::EISDIR));
        }
        sticky_allows(core, pin, inode)?;
    }
    if walked & lflag::REGULAR != 0 && inode.kind() != mode::S_IFREG {
        return Err(core.refused(Check::WantsFile, Errno::EFTYPE));
    }
    if walked & lflag::DIRECTORY != 0 && sample.has(crate::object::dflag::NOT_DIR) {
        return Err(core.refused(Check::WantsDirectory, Errno::ENOTDIR));
    }
    let truncates = !created && op.has(O_TRUNC) && inode.kind() == mode::S_IFREG;
    let writing = if truncates {
        let writing = core.want_write(pin.mount(), mount);
        Some(writing.map_err(|errno| core.refused(Check::of_writing(errno), errno))?)
    } else {
        None
    };
    let (access, flags) = if created {
        (0, op.flags & !O_TRUNC)
    } else {
        (op.access, op.flags)
    };
    if op.lookup & lflag::CACHED != 0 {
        core.can_check_now(inode)?;
    }
    may_open(core, mount, mount_flags, inode, access, flags)?;
    Ok(writing)
}

/// Whether the kind of file, its flags and its permissions allow `access` (`may_open`).
///
/// # Errors
/// `ELOOP` (a link), `EISDIR` (a directory for writing), `EACCES` (a device on a `nodev` mount),
/// those of
/// [`perm::inode_permission`], `EPERM` (append-only opened otherwise; `O_NOATIME` by a task that is
/// not the owner).
#[inline(always)]
pub(super) fn may_open(
    core: &Core,
    mount: &MountData,
    mount_flags: Sample,
    inode: &Inode,
    access: u32,
    flags: OFlags,
) -> Result<(), Errno> {
    match inode.kind() {
        mode::S_IFREG => {}
        mode::S_IFLNK => return Err(core.refused(Check::IsLink, Errno::ELOOP)),
        mode::S_IFDIR if access & MAY_WRITE != 0 => {
            return Err(core.refused(Check::IsDirectory, Errno::EISDIR));
        }
        mode::S_IFBLK | mode::S_IFCHR if mount_flags.has(mflag::NO_DEV) => {
            return Err(core.refused(Check::NoDevices, Errno::EACCES));
        }
        _ => {}
    }
    let cred = core.cred();
    perm::inode_permission(&cred, &mount.sb, inode, access)
        .map_err(|errno| core.denied(inode, access, errno))?;
    if inode.flags() & flag::APPEND_ONLY != 0
        && (flags & O_ACCMODE != O_RDONLY && !flags.contains(O_APPEND) || flags.contains(O_TRUNC))
    {
        return Err(core.refused(Check::AppendOnly, Errno::EPERM));
    }
    if flags.contains(O_NOATIME) && !cred.owner_or_capable(inode.ids().0) {
        return Err(core.refused(Check::NoAccessTime, Errno::EPERM));
    }
    Ok(())
}

/// Opens a permitted file (`vfs_open`, `do_dentry_open`): an open file, or nothing.
///
/// # Errors
/// Those of [`open_inode`]; `EINVAL` (`O_DIRECT` where there is none).
pub(super) fn open_at(
    core: &Core,
    pin: Pin,
    flags: OFlags,
    created: bool,
) -> Result<Filp<'_>, Errno> {
    let own = match open_inode(core, &pin, flags) {
        Ok(own) => own,
        Err(errno) => {
            core.pins.release(pin);
            return Err(errno);
        }
    };
    let file = Filp::hold(core, make(core, pin, flags, created));
    if let Some(own) = own {
        // A file just made has nothing of its own yet.
        let _none = core.vfs.dcache.store.set_file_payload(file.file(), own);
    }
    // From here on a failure releases an open file.
    if flags.contains(O_DIRECT) && file.inode()?.kind() != mode::S_IFREG {
        return Err(Errno::EINVAL);
    }
    file.tell_opened();
    Ok(file)
}

/// Whether it is neither a regular file nor a directory or link.
#[inline(always)]
pub(super) fn is_special(inode: &Inode) -> bool {
    !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR | mode::S_IFLNK)
}

/// Marks the pin as written to, where an open for writing does (`do_dentry_open`).
///
/// # Errors
/// `ETXTBSY`, `EROFS` (mount).
#[inline(always)]
pub(super) fn write_access(
    core: &Core,
    pin: &Pin,
    mount: &MountData,
    inode: &Inode,
    flags: OFlags,
) -> Result<(), Errno> {
    if matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR) && !is_special(inode) {
        core.get_write_access(pin, mount, inode)?;
    }
    Ok(())
}

/// The state of one opening.
type OpenState = Option<Arc<Box<dyn FileOps>>>;

/// Opens the inode itself; an open for writing leaves the pin marked.
///
/// # Errors
/// `ETXTBSY`, `EROFS` (mount), `EAGAIN` or `EINTR` (a lease is in the way), `ENXIO` (socket), what
/// the backend meets, or the FIFO ([`open_fifo`]) or device (`Devices::open`).
#[inline(always)]
fn open_inode(core: &Core, pin: &Pin, flags: OFlags) -> Result<OpenState, Errno> {
    let store = &core.vfs.dcache.store;
    let (Some(inode), Some(mount)) = (store.dentry_payload(pin), store.mount_payload(pin)) else {
        return Err(Errno::ENOENT);
    };
    write_access(core, pin, mount, inode, flags)?;
    if core.vfs.has_leases(inode) {
        core.break_for_open(inode, flags)?;
    }
    let hooked = inode.flags() & hooks(flags) != 0;
    if !hooked && !is_special(inode) {
        return Ok(None);
    }
    let quick = flags.contains(QUICK);
    let asked = flags;
    let flags = if flags.contains(TRIED) {
        flags & !(QUICK | TRIED) | O_NONBLOCK
    } else {
        flags & !QUICK
    };
    if hooked {
        let own = ask_hook(core, inode, &mount.sb, flags, quick)?;
        return Ok(own.map(Arc::new));
    }
    let own: Box<dyn FileOps> = match inode.kind() {
        mode::S_IFIFO => Box::new(open_end(core, inode, asked)?),
        mode::S_IFCHR | mode::S_IFBLK => {
            let cred = Arc::clone(&core.cred());
            core.vfs.devices.open(inode, flags, &cred, &core.sleeper)?
        }
        // A socket is bound or connected to, not opened.
        _ => return Err(Errno::ENXIO),
    };
    Ok(Some(Arc::new(own)))
}

/// Opens a FIFO; with [`TRIED`] not if it would wait for a peer.
///
/// # Errors
/// Those of [`open_fifo`]; `EAGAIN` (it would wait, and is only tried).
fn open_end(core: &Core, inode: &Inode, flags: OFlags) -> Result<PipeEnd, Errno> {
    let cred = core.cred();
    let opener = Opener {
        accounting: &core.vfs.pipes,
        limits: &core.vfs.config.limits,
        cred: &cred,
        sleeper: (!flags.contains(TRIED)).then_some(&core.sleeper),
    };
    let end = open_fifo(&inode.rare().pipe, flags, opener)?;
    end.ok_or_else(|| core.give_up(Reason::Peer))
}

/// The inode flags that make an open with these flags ask the backend.
pub(super) fn hooks(flags: OFlags) -> u64 {
    if flags & O_ACCMODE == O_RDONLY {
        flag::OPEN_HOOK
    } else {
        flag::OPEN_HOOK | flag::WRITE_HOOK
    }
}

/// Asks the backend to open a file; at once, or not at all, if the open is not to wait.
///
/// # Errors
/// `EAGAIN`, what the backend meets.
#[cold]
fn ask_hook(
    core: &Core,
    inode: &Inode,
    sb: &SuperBlock,
    flags: OFlags,
    quick: bool,
) -> Result<Option<Box<dyn FileOps>>, Errno> {
    if !quick {
        return inode.shielded(|ops| ops.open(inode, flags, WaitMode::Wait));
    }
    if !sb.options().tries {
        return Err(core.give_up(Reason::OpenHook));
    }
    let own = inode.shielded(|ops| ops.open(inode, flags, WaitMode::Cached));
    if matches!(own, Err(Errno::EAGAIN)) {
        core.give_up(Reason::OpenHook);
    }
    own
}

/// Truncates the file for `O_TRUNC` (`handle_truncate`).
fn truncate(core: &Core, file: &Filp<'_>) -> Result<(), Errno> {
    let target = file.target()?;
    let inode = target.inode;
    let _writing = core.want_write_inode(target.path_ids, inode)?;
    let now = core.vfs.clock.now();
    let _held = inode.lock_names();
    core.ask_before_cut(inode)?;
    inode.drop_capabilities(now)?;
    let change = SetAttr {
        size: Some(0),
        mtime: Some(now),
        ctime: Some(now),
        mode: without_privileges(core, inode),
        ..SetAttr::default()
    };
    target.setattr(&change)
}
