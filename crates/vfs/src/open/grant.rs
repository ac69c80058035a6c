// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands at the end of an open: may it be opened so, by this task (`do_open`, `may_open`,
//! `do_dentry_open`)?

use super::OpenOp;
use crate::file::OpenFile;
use crate::inode::{Inode, SetAttr, flag};
use crate::mount::{MountData, mflag};
use crate::perm::{self, MAY_WRITE};
use crate::task::Core;
use crate::walk::lflag;
use openpath_abi::fcntl::{
    O_ACCMODE, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_EXCL, O_LARGEFILE, O_NOATIME, O_NOCTTY,
    O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC,
};
use openpath_abi::{Errno, caps, mode};
use openpath_sync::{Pin, Sample};

/// Turns what a walk ended at into an open file: checks, counts, and hands the walk's pin over.
///
/// `walked` are the walk's flags, `created` says whether the file was made on the way.
///
/// # Errors
/// In this order: `EEXIST`, `EISDIR`, `EACCES` (sticky rules) for `O_CREAT`; `ENOTDIR`; `EROFS`
/// (truncation); those
/// of [`may_open`]; those of [`open_inode`]; `ETXTBSY`, `EPERM` and the backend's for truncation.
#[inline(always)]
pub(super) fn finish<'t>(
    core: &'t Core,
    pin: Pin,
    sample: Sample,
    op: &OpenOp,
    walked: u32,
    created: bool,
) -> Result<OpenFile<'t>, Errno> {
    let granted = match reads_plainly(core, &pin, op, walked) {
        Some(granted) => granted,
        None => granted(core, &pin, sample, op, walked, created),
    };
    match granted {
        Ok(counted) => Ok(OpenFile::install(core, pin, op.flags, counted)),
        Err(errno) => {
            // Nothing of a failed open is left: the pin was all there was.
            core.pins.release(pin);
            Err(errno)
        }
    }
}

/// Flags that change nothing about whether a regular file may be opened for reading.
const IDLE: u32 = O_LARGEFILE | O_NONBLOCK | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;

/// The answer for a regular file opened only for reading, which needs no more than its permissions.
#[inline(always)]
fn reads_plainly(core: &Core, pin: &Pin, op: &OpenOp, walked: u32) -> Option<Result<bool, Errno>> {
    if op.flags & !IDLE != 0 || walked & lflag::DIRECTORY != 0 {
        return None;
    }
    let inode = core.vfs.dcache.store.dentry_payload(pin)?;
    let mode_bits = inode.mode();
    if mode_bits & mode::S_IFMT != mode::S_IFREG {
        return None;
    }
    if mode_bits & 0o444 != 0o444 {
        let cred = core.cred();
        if let Err(errno) = perm::generic_permission(&cred, mode_bits, inode.ids(), perm::MAY_READ)
        {
            return Some(Err(errno));
        }
    }
    lock_context(core, inode);
    Some(Ok(false))
}

/// Everything between the walk and the file; whether the file was counted as open for writing.
#[inline(never)]
fn granted(
    core: &Core,
    pin: &Pin,
    sample: Sample,
    op: &OpenOp,
    walked: u32,
    created: bool,
) -> Result<bool, Errno> {
    let store = &core.vfs.dcache.store;
    let (Some(inode), Some(mount)) = (store.dentry_payload(pin), store.mount_payload(pin)) else {
        return Err(Errno::ENOENT);
    };
    let mount_flags = core.vfs.mounts.at(pin.mount()).word().sample();
    if op.has(O_CREAT) {
        if op.has(O_EXCL) && !created {
            return Err(Errno::EEXIST);
        }
        if inode.is_dir() {
            return Err(Errno::EISDIR);
        }
        sticky_allows(core, pin, inode)?;
    }
    if walked & lflag::REGULAR != 0 && inode.kind() != mode::S_IFREG {
        return Err(Errno::EFTYPE);
    }
    if walked & lflag::DIRECTORY != 0 && sample.has(crate::dcache::dflag::NOT_DIR) {
        return Err(Errno::ENOTDIR);
    }
    let truncates = !created && op.has(O_TRUNC) && inode.kind() == mode::S_IFREG;
    let _writing = if truncates {
        Some(core.vfs.want_write(pin.mount(), mount)?)
    } else {
        None
    };
    let (access, flags) = if created {
        (0, op.flags & !O_TRUNC)
    } else {
        (op.access, op.flags)
    };
    may_open(core, mount, mount_flags, inode, access, flags)?;
    let counted = open_inode(core, pin.mount(), mount, inode, flags)?;
    if truncates && let Err(errno) = truncate(core, inode) {
        if counted {
            uncount(mount, inode);
        }
        return Err(errno);
    }
    Ok(counted)
}

/// Whether the kind of file, its flags and its permissions allow `access` (`may_open`).
///
/// # Errors
/// `ELOOP` (a link), `EISDIR` (a directory for writing), `EACCES` (a device on a `nodev` mount),
/// those of
/// [`perm::inode_permission`], `EPERM` (append-only opened otherwise; `O_NOATIME` by a stranger).
#[inline(always)]
pub(super) fn may_open(
    core: &Core,
    mount: &MountData,
    mount_flags: Sample,
    inode: &Inode,
    access: u32,
    flags: u32,
) -> Result<(), Errno> {
    match inode.kind() {
        mode::S_IFREG => {}
        mode::S_IFLNK => return Err(Errno::ELOOP),
        mode::S_IFDIR if access & MAY_WRITE != 0 => return Err(Errno::EISDIR),
        mode::S_IFBLK | mode::S_IFCHR if mount_flags.has(mflag::NO_DEV) => {
            return Err(Errno::EACCES);
        }
        _ => {}
    }
    let cred = core.cred();
    perm::inode_permission(&cred, &mount.sb, inode, access)?;
    if inode.flags() & flag::APPEND_ONLY != 0
        && (flags & O_ACCMODE != O_RDONLY && flags & O_APPEND == 0 || flags & O_TRUNC != 0)
    {
        return Err(Errno::EPERM);
    }
    if flags & O_NOATIME != 0 && !cred.owner_or_capable(inode.ids().0) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Opens the inode itself (`do_dentry_open`); whether it was counted as open for writing.
///
/// # Errors
/// `ETXTBSY`, `EROFS` (mount), `ENXIO` (socket, device without a driver, FIFO for writing without a
/// reader),
/// `EINVAL` (`O_DIRECT` where there is none).
#[inline(always)]
pub(super) fn open_inode(
    core: &Core,
    mount_index: u32,
    mount: &MountData,
    inode: &Inode,
    flags: u32,
) -> Result<bool, Errno> {
    let writes = matches!(flags & O_ACCMODE, 1 | 2);
    let special = !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR | mode::S_IFLNK);
    let counted = writes && !special;
    if counted {
        inode.get_write_access()?;
        match core.vfs.want_write(mount_index, mount) {
            // From now on the file counts, until `uncount`.
            Ok(writing) => writing.keep(),
            Err(errno) => {
                inode.put_write_access();
                return Err(errno);
            }
        }
    }
    lock_context(core, inode);
    let opened = if special {
        crate::special::open(inode, flags)
    } else {
        Ok(())
    };
    let direct = flags & O_DIRECT != 0 && inode.kind() != mode::S_IFREG;
    let result = match opened {
        Ok(()) if direct => Err(Errno::EINVAL),
        other => other,
    };
    if let Err(errno) = result {
        if counted {
            uncount(mount, inode);
        }
        return Err(errno);
    }
    Ok(counted)
}

/// Takes back the counts of an open for writing.
pub(crate) fn uncount(mount: &MountData, inode: &Inode) {
    mount.writers.sub(1);
    inode.put_write_access();
}

/// Whether the inode has locks or leases that an open must mind, by the flag in its read-mostly
/// word.
#[inline(always)]
fn lock_context(core: &Core, inode: &Inode) -> bool {
    core.vfs.config.tuning.lock_context_flag && inode.flags() & flag::LOCK_CONTEXT != 0
}

/// Cuts the file to nothing for `O_TRUNC` (`handle_truncate`).
fn truncate(core: &Core, inode: &Inode) -> Result<(), Errno> {
    inode.get_write_access()?;
    let now = core.vfs.clock.now();
    let _held = inode.lock_names();
    let cut = inode.drop_capabilities(now).and_then(|()| {
        let change = SetAttr {
            size: Some(0),
            mtime: Some(now),
            ctime: Some(now),
            mode: without_privileges(core, inode),
            ..SetAttr::default()
        };
        inode.shielded(|ops| ops.setattr(inode, &change))
    });
    inode.put_write_access();
    cut
}

/// The mode without set-id bits, if a change of data by this task drops them (`file_remove_privs`).
pub(crate) fn without_privileges(core: &Core, inode: &Inode) -> Option<u32> {
    let bits = inode.mode();
    if bits & mode::S_IFMT != mode::S_IFREG || core.cred().capable(caps::CAP_FSETID) {
        return None;
    }
    let mut kept = bits & !mode::S_ISUID;
    let executable_by_group = bits & 0o010 != 0;
    if bits & mode::S_ISGID != 0 && (executable_by_group || !core.cred().in_group(inode.ids().1)) {
        kept &= !mode::S_ISGID;
    }
    (kept != bits).then_some(kept)
}

/// Whether `O_CREAT` may open what someone else put into a sticky directory
/// (`may_create_in_sticky`).
#[inline(always)]
fn sticky_allows(core: &Core, pin: &Pin, inode: &Inode) -> Result<(), Errno> {
    if sticky_level(core, inode) == 0 {
        return Ok(());
    }
    sticky_decides(core, pin, inode)
}

/// How strictly the sticky rules are to be kept for this kind of file: as its control says, and for
/// all but regular files and FIFOs always.
#[inline(always)]
fn sticky_level(core: &Core, inode: &Inode) -> u8 {
    let sysctl = &core.vfs.config.sysctl;
    match inode.kind() {
        mode::S_IFREG => sysctl.protected_regular,
        mode::S_IFIFO => sysctl.protected_fifos,
        _ => 1,
    }
}

#[cold]
fn sticky_decides(core: &Core, pin: &Pin, inode: &Inode) -> Result<(), Errno> {
    let dcache = &core.vfs.dcache;
    let parent = dcache.at(pin.dentry()).parent.get();
    let Some(held) = core.pins.pin_now(0, parent) else {
        return Ok(());
    };
    let dir = dcache
        .store
        .dentry_payload(&held)
        .map(|d| (d.mode(), d.ids().0));
    core.pins.release(held);
    let Some((dir_mode, dir_uid)) = dir else {
        return Ok(());
    };
    let level = sticky_level(core, inode);
    let owner = inode.ids().0;
    if dir_mode & mode::S_ISVTX == 0 || owner == dir_uid || owner == core.cred().fsuid {
        return Ok(());
    }
    let forbidden = dir_mode & mode::S_IWOTH != 0 || dir_mode & mode::S_IWGRP != 0 && level >= 2;
    if forbidden {
        Err(Errno::EACCES)
    } else {
        Ok(())
    }
}

/// Whether one more file may be open in the whole `Vfs`; `CAP_SYS_ADMIN` may always.
///
/// # Errors
/// `ENFILE`.
#[inline(always)]
pub(super) fn check_files_max(core: &Core) -> Result<(), Errno> {
    let limit = core.vfs.config.limits.files_max;
    if limit == u64::MAX || core.vfs.files.get() < limit {
        return Ok(());
    }
    if core.cred().capable(caps::CAP_SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::ENFILE)
    }
}
