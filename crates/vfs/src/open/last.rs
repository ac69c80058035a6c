// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last component of an open (`open_last_lookups`, `lookup_open`).

use super::OpenOp;
use crate::dcache::dflag;
use crate::inode::{Found, Inode, NewInode, Patience, flag};
use crate::mount::{MountData, mflag};
use crate::name::NameKey;
use crate::perm;
use crate::walk::{Fail, Last, LastKind, Spot, Text, Walk, lflag};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_EXCL};
use openpath_sync::{Pin, Sample};

/// What the walk stands at after the last component.
pub(super) enum Entered {
    /// Something that was there.
    Existing,
    /// A file made just now.
    Created,
    /// A link to be followed.
    Link,
}

/// Enters the last component, and makes it if that is asked for and it is absent.
///
/// # Errors
/// `EISDIR` (a slash after what is to be made), those of the step, `ENOENT`; for a missing file:
/// `ENAMETOOLONG`,
/// `EROFS`, `EACCES`, what the backend meets.
#[inline(always)]
pub(super) fn open_last(
    walk: &mut Walk<'_>,
    text: &Text<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<Entered, Fail> {
    if last.kind != LastKind::Norm || !op.has(O_CREAT) {
        let link = walk.into_last(text, last)?;
        return Ok(if link {
            Entered::Link
        } else {
            Entered::Existing
        });
    }
    create_last(walk, text, last, op)
}

/// As [`open_last`] for `O_CREAT`.
fn create_last(
    walk: &mut Walk<'_>,
    text: &Text<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<Entered, Fail> {
    if last.slash {
        return Err(Errno::EISDIR.into());
    }
    let entered = if try_existing(walk, text, last, op)? {
        Entered::Existing
    } else {
        walk.unlazy_to_create()?;
        create_locked(walk, text, last, op)?
    };
    let link = walk.at_dentry.has(dflag::LINK) && walk.wants(lflag::FOLLOW);
    Ok(if link { Entered::Link } else { entered })
}

/// Enters a file that exists and is cached, without its directory's lock.
fn try_existing(
    walk: &mut Walk<'_>,
    text: &Text<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<bool, Fail> {
    if op.has(O_EXCL) || !walk.core.vfs.config.tuning.create_looks_first {
        return Ok(false);
    }
    walk.step_if_positive(text.bytes(), last.start, last.end)
}

/// Enters or makes the file with its directory locked.
fn create_locked(
    walk: &mut Walk<'_>,
    text: &Text<'_>,
    last: &Last,
    op: &OpenOp,
) -> Result<Entered, Fail> {
    let name = text.name(last);
    let core = walk.core;
    let store = &core.vfs.dcache.store;
    let (pin, sample, created) = {
        let parent = walk.held().ok_or(Fail::Restart)?;
        let (Some(dir), Some(mount)) = (store.dentry_payload(parent), store.mount_payload(parent))
        else {
            return Err(Errno::ENOTDIR.into());
        };
        let writable = walk.mount_writable(mount);
        let _names = dir.lock_names();
        if dir.flags() & flag::DEAD != 0 {
            return Err(Errno::ENOENT.into());
        }
        find_or_make(walk, Place { dir, mount, name }, writable, op)?
    };
    let at = Spot {
        mount: walk.at.mount,
        dentry: pin.dentry(),
    };
    walk.enter_pinned(at, sample, pin);
    if sample.has(dflag::MOUNTED) {
        walk.cross_mounts()?;
    }
    Ok(if created {
        Entered::Created
    } else {
        Entered::Existing
    })
}

/// A name in a locked directory.
struct Place<'a> {
    dir: &'a Inode,
    mount: &'a MountData,
    name: &'a [u8],
}

/// The entry of the name, with a new file behind it if there was none; whether it is new. The
/// directory is locked.
fn find_or_make(
    walk: &Walk<'_>,
    place: Place<'_>,
    writable: Result<(), Errno>,
    op: &OpenOp,
) -> Result<(Pin, Sample, bool), Fail> {
    let dcache = &walk.core.vfs.dcache;
    let Place { dir, mount, name } = place;
    let key = NameKey::of(dcache.key, name, 0, name.len());
    let mut entry = dcache.find_locked(walk.at.dentry, key, name);
    if entry.is_none() {
        if name.len() > mount.sb.options().name_max {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if let Found::Inode(inode) = dir.shielded(|ops| ops.lookup(dir, name, Patience::Wait))? {
            entry = Some(dcache.add(walk.at.dentry, key, name, Some(inode))?);
        }
    }
    if let Some((child, sample)) = entry
        && !sample.has(dflag::NEGATIVE)
    {
        return Ok((walk.pin_child(child)?, sample, false));
    }
    let cred = walk.core.cred();
    let allowed = writable.and_then(|()| perm::may_create(&cred, &mount.sb, dir));
    if let Err(errno) = allowed {
        if entry.is_none() {
            dcache.add(walk.at.dentry, key, name, None)?;
        }
        return Err(errno.into());
    }
    let mode = perm::new_mode(&cred, dir, op.mode, walk.core.umask.get());
    let (uid, gid, mode) = perm::new_owner(&cred, dir, mode);
    let now = walk.core.vfs.clock.now();
    let new = NewInode {
        mode,
        uid,
        gid,
        rdev: 0,
        body: b"",
        now,
    };
    let inode = dir.shielded(|ops| ops.create(dir, name, &new))?;
    let (child, sample) = match entry {
        Some((child, _)) => (child, dcache.instantiate(child, inode)),
        None => dcache.add(walk.at.dentry, key, name, Some(inode))?,
    };
    Ok((walk.pin_child(child)?, sample, true))
}

impl Walk<'_> {
    /// Whether files may be changed through the mount stood in (`mnt_want_write`).
    fn mount_writable(&self, mount: &MountData) -> Result<(), Errno> {
        let flags = self.core.vfs.mounts.at(self.at.mount).word().sample();
        if flags.has(mflag::READ_ONLY) || mount.sb.is_read_only() {
            return Err(Errno::EROFS);
        }
        Ok(())
    }
}
