// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles the last component of an open: looks it up, or makes the file if it is absent
//! (`open_last_lookups`, `lookup_open`).

use super::OpenOp;
use crate::inode::{Inode, NewInode, flag};
use crate::object::dflag;
use crate::path::PathIds;
use crate::perm::{self, MAY_EXEC, MAY_WRITE, new_file};
use crate::reason::Reason;
use crate::steps::{Check, SkippedChange};
use crate::task::WriteAccess;
use crate::tenant_lru::Kind;
use crate::walk::{Disowned, Last, LastKind, LockedDir, Walk, WalkError, WalkText, lflag};
use openpath_abi::Errno;
use openpath_abi::fcntl::O_CREAT;
use openpath_sync::{Pin, Sample};
use std::sync::Arc;

/// What the walk found at the last component.
pub(super) enum LastLookup {
    /// An existing file.
    Existing,
    /// A file made just now.
    Created,
    /// A link to be followed.
    Link,
}

/// Enters the last component, and makes it if it is absent and the flags say so.
///
/// # Errors
/// `EISDIR` (a slash after a name that is to be made), those of the step, `ENOENT`; for a missing
/// file: `ENAMETOOLONG`, `EROFS`, `EACCES`, what the backend meets.
#[inline(always)]
pub(super) fn open_last(
    walk: &mut Walk<'_>,
    text: &WalkText<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<LastLookup, WalkError> {
    if last.kind != LastKind::Norm || !op.has(O_CREAT) {
        let link = walk.step_last(text, last)?;
        return Ok(if link {
            LastLookup::Link
        } else {
            LastLookup::Existing
        });
    }
    create_last(walk, text, last, op)
}

/// As [`open_last`] for `O_CREAT`.
#[inline(always)]
fn create_last(
    walk: &mut Walk<'_>,
    text: &WalkText<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<LastLookup, WalkError> {
    if last.slash {
        return Err(walk.refuse(Check::TrailingSlash, Errno::EISDIR));
    }
    let entered = if try_existing(walk, text, last, op)? {
        LastLookup::Existing
    } else {
        walk.unlazy_to_create()?;
        let core = walk.core;
        core.past_delegations(|| create_locked(walk, text, last, op))?
    };
    let link = walk.at_dentry.has(dflag::LINK) && walk.wants(lflag::FOLLOW);
    Ok(if link { LastLookup::Link } else { entered })
}

/// Enters a file that exists and is cached, without its directory's lock.
fn try_existing(
    walk: &mut Walk<'_>,
    text: &WalkText<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<bool, WalkError> {
    if op.has(walk.core.locked_look) {
        return Ok(false);
    }
    walk.step_if_positive(text.bytes(), last.start, last.end)
}

/// Enters or makes the file with its directory locked.
fn create_locked(
    walk: &mut Walk<'_>,
    text: &WalkText<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<LastLookup, WalkError> {
    let name = text.name(last);
    let core = walk.core;
    let store = &core.vfs.dcache.store;
    let (pin, sample, created) = {
        let parent = walk.held().ok_or_else(|| walk.restart(Reason::Busy))?;
        let (Some(dir), Some(mount)) = (store.dentry_payload(parent), store.mount_payload(parent))
        else {
            return Err(walk.refuse(Check::NotDirectory, Errno::ENOTDIR));
        };
        // A read-only mount matters only if the file must be made.
        let writing = core.want_write(walk.at.mount, mount);
        let disowned = Disowned::new(core);
        let _names = dir.lock_names();
        if dir.flags() & flag::DEAD != 0 {
            return Err(walk.refuse(Check::Removed, Errno::ENOENT));
        }
        if let Some(errno) = core.absent(walk.at.mount, mount, walk.at.dentry, name) {
            return Err(walk.refuse(Check::AbsentRule, errno));
        }
        let place = LockedDir {
            core,
            at: walk.at,
            inode: dir,
            sb: &mount.sb,
            disowned: &disowned,
        };
        find_or_make(place, name, writing, op)?
    };
    let at = PathIds {
        mount: walk.at.mount,
        dentry: pin.dentry(),
    };
    walk.enter_pinned(at, sample, pin);
    if sample.has(dflag::MOUNTED) {
        walk.cross_mounts()?;
    }
    Ok(if created {
        LastLookup::Created
    } else {
        LastLookup::Existing
    })
}

/// The entry of the name, with a new file behind it if there was none; whether it is new.
fn find_or_make(
    place: LockedDir<'_>,
    name: &[u8],
    writing: Result<WriteAccess<'_>, Errno>,
    op: &OpenOp,
) -> Result<(Pin, Sample, bool), WalkError> {
    let core = place.core;
    place.tell(name);
    let seen = core.vfs.dcache.seen(place.at.dentry);
    let found = place.find(name);
    let negative = match found.map_err(|errno| core.refused(Check::of_lookup(errno), errno))? {
        Some((pin, sample)) if !sample.has(dflag::NEGATIVE) => {
            core.tell_found(&pin);
            return Ok((pin, sample, false));
        }
        other => other.map(|(pin, _)| pin),
    };
    let writing = writing.map_err(|errno| core.refused(Check::of_writing(errno), errno));
    match (writing.and_then(|_writing| make(place, name, op)), negative) {
        (Ok(inode), Some(pin)) => {
            let sample = core
                .vfs
                .dcache
                .instantiate(core.tenant().lru(), pin.dentry(), inode);
            core.vfs.tell_created(place.inode, name, false);
            Ok((pin, sample, true))
        }
        (Ok(inode), None) => {
            let (pin, sample) = place.add(name, inode, seen)?;
            core.vfs.tell_created(place.inode, name, false);
            Ok((pin, sample, true))
        }
        (Err(errno), Some(pin)) => {
            core.pins.release(pin);
            Err(errno.into())
        }
        (Err(errno), None) => {
            place.note(name, None, seen);
            Err(errno.into())
        }
    }
}

/// Makes the file, if the task may.
fn make(place: LockedDir<'_>, name: &[u8], op: &OpenOp) -> Result<Arc<Inode>, Errno> {
    let LockedDir {
        core,
        inode: dir,
        sb,
        ..
    } = place;
    let cred = core.cred();
    perm::may_create(&cred, sb, dir)
        .map_err(|errno| core.denied(dir, MAY_WRITE | MAY_EXEC, errno))?;
    core.tell_permission(dir, MAY_WRITE | MAY_EXEC);
    core.stop_before(SkippedChange::Create)?;
    core.try_break(dir)?;
    let file = new_file(&cred, dir, op.mode, core.umask.get())?;
    let new = NewInode {
        mode: file.mode,
        uid: file.uid,
        gid: file.gid,
        rdev: 0,
        body: b"",
        now: core.vfs.clock.now(),
        tenant: Some(&core.tenant()),
        acls: file.acls.as_ref(),
    };
    core.room(Kind::Positive)?;
    let dcache = &core.vfs.dcache;
    dcache.with_room(|| dir.shielded(|ops| ops.create(dir, name, &new)))
}
