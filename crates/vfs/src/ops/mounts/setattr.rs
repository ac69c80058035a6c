// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the attributes of a mount or of a whole tree of mounts: mount_setattr(2).
//!
//! # Kernel analogue
//! `do_mount_setattr`, `build_mount_kattr`.

use super::may_mount;
use crate::file_ops::Fd;
use crate::mount::{MountFlags, Propagation};
use crate::object::{MountData, mflag};
use crate::ops::resolve;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW};
use openpath_abi::mount::{MOUNT_ATTR__ATIME, MOUNT_ATTR_IDMAP, MOUNT_ATTR_RELATIME};
use openpath_abi::{AtFlags, Errno, MountAttrFlags};
use std::sync::Arc;

/// The changes of mount_setattr(2) (`struct mount_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MountAttr {
    /// `MOUNT_ATTR_*` to set.
    pub attr_set: MountAttrFlags,
    /// `MOUNT_ATTR_*` to clear, before.
    pub attr_clr: MountAttrFlags,
    /// One of `MS_SHARED`, `MS_SLAVE`, `MS_PRIVATE`, `MS_UNBINDABLE`; 0: as it is.
    pub propagation: u64,
    /// The user namespace of `MOUNT_ATTR_IDMAP`.
    pub userns_fd: u64,
}

/// The flags of a mount that change.
struct FlagChange {
    set: u64,
    clear: u64,
    propagation: Option<Propagation>,
}

impl Task {
    /// Changes the attributes of the mount at `path`, and with `AT_RECURSIVE` of all mounts in it:
    /// all of them or none. Linux: mount_setattr(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (`at_flags`); `EPERM` (without `CAP_SYS_ADMIN`);
    /// * `EINVAL` (`propagation`, attributes; `MOUNT_ATTR_IDMAP`, as there are no user namespaces);
    /// * those of the walk;
    /// * `EINVAL` (`path` is not the root of a mount, or its mount is in another namespace);
    /// * `EBUSY` (read-only, during a write or with a file open for writing through one of them).
    ///
    /// With nothing to change, `path` is not looked at.
    pub fn mount_setattr(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        attr: &MountAttr,
    ) -> Result<(), Errno> {
        let core = &self.core;
        let known = AT_EMPTY_PATH | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
        if at_flags.intersects(!known) {
            return Err(Errno::EINVAL);
        }
        may_mount(core)?;
        if attr.attr_set.is_empty() && attr.attr_clr.is_empty() && attr.propagation == 0 {
            return Ok(());
        }
        let change = FlagChange::of(attr)?;
        let mut how = lflag::FOLLOW;
        if at_flags.contains(AT_SYMLINK_NOFOLLOW) {
            how = 0;
        }
        if at_flags.contains(AT_EMPTY_PATH) {
            how |= lflag::EMPTY;
        }
        let base = core.base(dirfd);
        let target = resolve(core, base.at(), path, how)?;
        let topology = &mut *core.vfs.mounts.topology.lock();
        let top = target.path_ids().mount;
        let ours = target.is_local(topology) || topology.is_anonymous_root(top);
        if !target.is_mount_root() || !ours {
            return Err(Errno::EINVAL);
        }
        let tree = if !at_flags.contains(AT_RECURSIVE) {
            vec![top]
        } else {
            topology.tree(top)
        };
        let flags_of = |mount: u32| core.vfs.mounts.at(mount).word().sample();
        let turned: Vec<(u32, Arc<MountData>)> = tree
            .iter()
            .filter(|&&m| change.set & !flags_of(m).flags() & mflag::READ_ONLY != 0)
            .filter_map(|&m| Some((m, Arc::clone(&topology.nodes.get(&m)?.data))))
            .collect();
        let no_writers = MountData::keep_writers_out(&core.vfs.dcache.store, &turned);
        let _no_writers = no_writers.ok_or(Errno::EBUSY)?;
        for mount in tree {
            let word = core.vfs.mounts.at(mount).word();
            word.change().clear(change.clear).set(change.set);
            if let Some(how) = change.propagation {
                topology.set_propagation(mount, how);
            }
        }
        Ok(())
    }
}

impl FlagChange {
    /// # Errors
    /// `EINVAL`: unknown or contradictory attributes.
    fn of(attr: &MountAttr) -> Result<Self, Errno> {
        let MountAttr {
            attr_set, attr_clr, ..
        } = *attr;
        if (attr_set | attr_clr).contains(MOUNT_ATTR_IDMAP) {
            return Err(Errno::EINVAL);
        }
        let propagation = match attr.propagation {
            0 => None,
            flag => Some(Propagation::from_ms(flag).ok_or(Errno::EINVAL)?),
        };
        let mut set = MountFlags::from_attr(attr_set)?.0;
        let mut clear = MountFlags::from_attr(attr_clr & !MOUNT_ATTR__ATIME)?.0;
        clear &= !MountFlags::REL_ATIME.0;
        match attr_clr & MOUNT_ATTR__ATIME {
            // The update of access times is one choice of three: it is made anew or left alone.
            MOUNT_ATTR__ATIME => clear |= mflag::NO_ATIME | mflag::REL_ATIME,
            MOUNT_ATTR_RELATIME if !attr_set.intersects(MOUNT_ATTR__ATIME) => {
                set &= !MountFlags::REL_ATIME.0;
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(Self {
            set,
            clear,
            propagation,
        })
    }
}
