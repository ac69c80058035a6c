// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a new file without a name (`O_TMPFILE`; `do_tmpfile`, `vfs_tmpfile`).

use super::{OpenOp, grant};
use crate::file::{Filp, PathStart};
use crate::inode::{NewInode, flag};
use crate::perm::{self, MAY_EXEC, MAY_WRITE, new_file};
use crate::steps::{Check, SkippedChange};
use crate::task::Core;
use crate::tenant_lru::Kind;
use crate::walk::{self, lflag};
use openpath_abi::Errno;
use openpath_abi::fcntl::O_EXCL;
use openpath_sync::Pin;

/// Opens a new file in the directory `path`, without a name.
///
/// # Errors
/// Those of the walk (`ENOTDIR` for what is no directory), `EROFS`, `EACCES`, `EOPNOTSUPP`, what
/// the backend meets, then those of opening it.
pub(super) fn open<'t>(
    core: &'t Core,
    at: PathStart<'_>,
    path: &[u8],
    op: &OpenOp,
) -> Result<Filp<'t>, Errno> {
    let (dir, _) = walk::lookup(core, at, path, op.lookup | lflag::DIRECTORY)?;
    let made = make(core, &dir, op);
    core.pins.release(dir);
    // A file without a name was not created by a lookup (`FMODE_CREATED`). It is open for writing
    // at least, and is marked so.
    grant::open_at(core, made?, op.flags, false)
}

/// Makes the file, and pins it.
fn make(core: &Core, dir_pin: &Pin, op: &OpenOp) -> Result<Pin, Errno> {
    let vfs = &core.vfs;
    let store = &vfs.dcache.store;
    let (Some(dir), Some(mount)) = (store.dentry_payload(dir_pin), store.mount_payload(dir_pin))
    else {
        return Err(Errno::ENOTDIR);
    };
    let mount_flags = vfs.mounts.at(dir_pin.mount()).word().sample();
    let writing = core.want_write(dir_pin.mount(), mount);
    let _writing = writing.map_err(|errno| core.refused(Check::of_writing(errno), errno))?;
    let cred = core.cred();
    perm::inode_permission(&cred, &mount.sb, dir, MAY_WRITE | MAY_EXEC)
        .map_err(|errno| core.denied(dir, MAY_WRITE | MAY_EXEC, errno))?;
    core.tell_permission(dir, MAY_WRITE | MAY_EXEC);
    core.stop_before(SkippedChange::CreateUnnamed)?;
    let file = new_file(&cred, dir, op.mode, core.umask.get())?;
    let new = NewInode {
        mode: file.mode,
        uid: file.uid,
        gid: file.gid,
        rdev: 0,
        body: b"",
        now: vfs.clock.now(),
        tenant: Some(&core.tenant()),
        acls: file.acls.as_ref(),
    };
    core.room(Kind::Positive)?;
    let made = || dir.shielded(|ops| ops.tmpfile(dir, &new));
    let inode = vfs.dcache.with_room(made)?;
    if !op.has(O_EXCL) {
        inode.set_flags(flag::LINKABLE);
    }
    let (entry, _) = vfs
        .dcache
        .add_nameless(core.tenant().lru(), dir_pin.dentry(), inode)?;
    let pin = core.pins.pin_now(dir_pin.mount(), entry);
    // No lookup finds it: it lives as long as it is open.
    vfs.dcache.defer_free(entry);
    let pin = pin.ok_or(Errno::ENOMEM)?;
    let allowed = match store.dentry_payload(&pin) {
        Some(inode) => grant::may_open(core, mount, mount_flags, inode, 0, op.flags),
        None => Err(Errno::ENOENT),
    };
    if let Err(errno) = allowed {
        core.pins.release(pin);
        return Err(errno);
    }
    Ok(pin)
}
