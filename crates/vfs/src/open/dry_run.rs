// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs an open for an explanation: makes the walk and the checks of the open, and stops before its
//! first change or the opening itself.

use super::how::{self, OpenOp};
use super::{admit, grant, reach, tmpfile};
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::file_ops::QUICK;
use crate::inode::{Inode, flag};
use crate::path::PathIds;
use crate::pipe::would_meet;
use crate::reason::Reason;
use crate::steps::{Check, SkippedChange, Step};
use crate::task::Core;
use crate::walk::{self, Mode, WalkError};
use openpath_abi::fcntl::{O_DIRECT, O_PATH, O_TMPFILE_ONLY};
use openpath_abi::{Errno, OFlags, OpenHow, mode as kinds};
use openpath_sync::Pin;

/// The open that flags of open(2) and openat(2) ask for.
///
/// # Errors
/// `EINVAL`, `EAGAIN`.
#[cold]
pub(crate) fn openat_op(core: &Core, flags: OFlags, mode: u32) -> Result<OpenOp, Errno> {
    let profile = core.vfs.config.profile;
    how::build(&how::lenient(flags, mode, profile), profile)
}

/// The open that an argument of openat2(2) asks for.
///
/// # Errors
/// `EINVAL`, `EAGAIN`.
#[cold]
pub(crate) fn openat2_op(core: &Core, how: &OpenHow) -> Result<OpenOp, Errno> {
    how::build(&how::strict(how), core.vfs.config.profile)
}

/// Follows an open with checked arguments, and stops before it opens.
///
/// # Errors
/// Those of the open, except a backend's answers to a change or to the open itself.
#[cold]
pub(crate) fn dry_run(core: &Core, dirfd: Fd, path: &[u8], op: &OpenOp) -> Result<(), Errno> {
    admit(core, path, op)?;
    let base = core.base(dirfd);
    let at = base.at();
    if op.lookup & walk::lflag::CACHED != 0 {
        // The lock-free walk ended where a try goes on.
        return match tried(core, at, path, op) {
            Ok(()) => Ok(()),
            Err(WalkError::Errno(errno)) => Err(errno),
            Err(WalkError::Restart | WalkError::Stale | WalkError::Moved) => {
                Err(core.refused(Check::Cached, Errno::EAGAIN))
            }
        };
    }
    if op.has(O_PATH) {
        let (pin, _) = walk::lookup(core, at, path, op.lookup)?;
        core.pins.release(pin);
        return Ok(());
    }
    if op.has(O_TMPFILE_ONLY) {
        return tmpfile::open(core, at, path, op).map(drop);
    }
    walk::climb(core, op.lookup, |mode| attempt(core, at, path, op, mode))
}

/// As an open that must not wait, with references from the start.
fn tried(core: &Core, at: PathStart<'_>, path: &[u8], op: &OpenOp) -> Result<(), WalkError> {
    if !op.has(O_PATH) {
        return attempt(core, at, path, op, Mode::Try);
    }
    let (pin, _) = walk::lookup_once(core, at, path, op.lookup, Mode::Try)?;
    core.pins.release(pin);
    Ok(())
}

/// One attempt, as `open_once` makes it.
fn attempt(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    op: &OpenOp,
    mode: Mode,
) -> Result<(), WalkError> {
    let (pin, ended) = reach(core, at, path, op, mode)?;
    let would = would_open(core, &pin, ended, op);
    core.pins.release(pin);
    let would = would?;
    core.tell(|| Step::Skipped(would));
    Ok(())
}

/// Whether the file would be opened: all steps up to the opening itself; for explanations.
///
/// # Errors
/// As [`grant::finish`], except the backend's answers.
fn would_open(
    core: &Core,
    pin: &Pin,
    ended: grant::WalkEnd,
    op: &OpenOp,
) -> Result<SkippedChange, Errno> {
    let truncates = grant::granted(core, pin, ended, op)?.is_some();
    let store = &core.vfs.dcache.store;
    let (Some(inode), Some(mount)) = (store.dentry_payload(pin), store.mount_payload(pin)) else {
        return Err(Errno::ENOENT);
    };
    core.tell_permission(inode, op.access);
    let path_ids = PathIds::of(pin);
    grant::write_access(core, pin, mount, inode, op.flags)
        .and_then(|()| {
            if truncates {
                drop(core.want_write_inode(path_ids, inode)?);
            }
            Ok(())
        })
        .map_err(|errno| core.refused(Check::of_writing(errno), errno))?;
    let breaks = core.would_break(inode, op.flags)?;
    let hooked = inode.flags() & flag::OPEN_HOOK != 0;
    if hooked && op.flags.contains(QUICK) && !mount.sb.options().tries {
        return Err(core.give_up(Reason::OpenHook));
    }
    let waits = breaks
        || if grant::is_special(inode) && inode.flags() & flag::OPEN_HOOK == 0 {
            would_wait(core, inode, op.flags)
                .map_err(|errno| core.refused(Check::Special, errno))?
        } else {
            false
        };
    if op.has(O_DIRECT) && inode.kind() != kinds::S_IFREG {
        return Err(core.refused(Check::Direct, Errno::EINVAL));
    }
    core.tell_place(path_ids, Step::End);
    Ok(match (truncates, waits) {
        (true, _) => SkippedChange::Truncate,
        (false, true) => SkippedChange::Wait,
        (false, false) => SkippedChange::Open,
    })
}

/// Whether opening a FIFO would wait for a peer, or a device can be opened at all.
///
/// # Errors
/// `ENXIO`, `ENODEV`, `EINVAL`, as for an open; a driver is not asked.
fn would_wait(core: &Core, inode: &Inode, flags: OFlags) -> Result<bool, Errno> {
    match inode.kind() {
        kinds::S_IFIFO => would_meet(&inode.rare().pipe, flags),
        kinds::S_IFCHR | kinds::S_IFBLK => core.vfs.devices.driver_of(inode).map(|_| false),
        _ => Err(Errno::ENXIO),
    }
}
