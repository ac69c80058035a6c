// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies mount and mount namespace operations on openpath.

use openpath_abi::{
    AtFlags, Errno, MountAttrFlags, MoveMountFlags, UmountFlags, fcntl as f, mount as m,
};
use openpath_vfs::{MountAttr, MountFlags, MountInfo};

use super::{Done, plain};
use crate::host::KINDS;
use crate::op::Op;
use crate::ours::{Ours, tmpfs};
use crate::outcome::{MountView, Outcome};
use crate::sys::{self, RawStatMount};

impl Ours<'_> {
    pub(super) fn mount_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(plain(match op {
            Op::Mount { path, flags } => {
                let read_only = flags.0 & m::MS_RDONLY != 0;
                let sb = tmpfs(self.stamps.last(), read_only);
                task.mount(sb, &path.0, MountFlags::from_ms(flags.0))
            }
            Op::Bind {
                source,
                target,
                flags,
            } if flags.0 & m::MS_REC != 0 => task.bind_tree(&source.0, &target.0),
            Op::Bind { source, target, .. } => task.bind(&source.0, &target.0),
            Op::RemountBind { path, flags } => self.remount_bind(&path.0, flags.0),
            Op::RemountSb { path, flags } => {
                // mount(2) changes the mount as well as the file system.
                task.remount_sb(&path.0, flags.0 & m::MS_RDONLY != 0)
                    .and_then(|()| self.remount_bind(&path.0, flags.0))
            }
            Op::Umount { path, flags } => {
                task.umount(&path.0, UmountFlags::from_bits_retain(flags.low()))
            }
            Op::Move { source, target } => task.move_mount_to(&source.0, &target.0),
            Op::Spread { flags, .. } if flags.0 & KINDS == 0 => Err(Errno::EINVAL),
            Op::Spread { path, flags } => task.set_propagation(&path.0, flags.0),
            Op::Pivot { new, old } => task.pivot_root(&new.0, &old.0),
            Op::Stack {} => {
                self.stamps.stacked = true;
                self.stack()
            }
            Op::UnshareMounts {} => task.unshare_mounts(),
            Op::MountSetattr {
                at,
                path,
                flags,
                set,
                clear,
                spread,
            } => {
                let attr = MountAttr {
                    attr_set: MountAttrFlags::from_bits_retain(set.0),
                    attr_clr: MountAttrFlags::from_bits_retain(clear.0),
                    propagation: spread.0,
                    userns_fd: 0,
                };
                task.mount_setattr(at.0, &path.0, AtFlags::from_bits_retain(flags.low()), &attr)
            }
            Op::MoveMount {
                at,
                path,
                at2,
                path2,
                flags,
            } => task.move_mount(
                at.0,
                &path.0,
                at2.0,
                &path2.0,
                MoveMountFlags::from_bits_retain(flags.low()),
            ),
            _ => return self.tree_family(op),
        }))
    }

    fn tree_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::OpenTree {
                keep,
                at,
                path,
                flags,
            } => self.opened(
                *keep,
                task.open_tree(at.0, &path.0, AtFlags::from_bits_retain(flags.low())),
            ),
            Op::Fsmount { keep, flags, attr } => {
                let sb = tmpfs(self.stamps.last(), false);
                self.opened(
                    *keep,
                    task.fsmount(sb, flags.low(), MountAttrFlags::from_bits_retain(attr.0)),
                )
            }
            Op::Statmount { path, mask } => {
                let id = self.mount_at(&path.0);
                id.and_then(|id| self.task().statmount(id, 0)).map(|m| {
                    let view = MountView::new(&raw_statmount(&m, mask.0));
                    Outcome::Mount(Box::new(view))
                })
            }
            Op::Listmount { path, skip, max } => {
                let id = self.mount_at(&path.0);
                id.and_then(|id| self.list(id, *skip, *max))
            }
            Op::SaveNs { slot } => {
                let kept = task.namespace();
                Ok(match usize::try_from(*slot).ok() {
                    Some(slot) if slot < self.kept.len() => {
                        self.kept[slot] = Some(kept);
                        Outcome::Ok
                    }
                    _ => Outcome::Err(Errno::EBADF),
                })
            }
            Op::SetNs { slot } => {
                let slot = usize::try_from(*slot).ok().and_then(|s| self.kept.get(s));
                match slot {
                    Some(Some(kept)) => plain(task.set_namespace(kept)),
                    _ => Err(Errno::EBADF),
                }
            }
            _ => return None,
        })
    }

    /// The unique number of the mount at a path.
    fn mount_at(&self, path: &[u8]) -> Result<u64, Errno> {
        let mask = openpath_abi::statx::STATX_MNT_ID_UNIQUE;
        let stat = self
            .task()
            .statx(f::AT_FDCWD, path, AtFlags::empty(), mask)?;
        Ok(stat.mnt_id)
    }

    /// listmount(2) after the first `skip` mounts, with places instead of numbers.
    fn list(&self, id: u64, skip: i64, max: i64) -> Done {
        let task = self.task();
        let few = usize::try_from(skip.clamp(0, 16)).unwrap_or(0);
        let last = match few {
            0 => 0,
            _ => task.listmount(id, 0, 0, few)?.last().copied().unwrap_or(0),
        };
        let max = usize::try_from(max.clamp(0, 64)).unwrap_or(0);
        let places = task.listmount(id, 0, last, max)?.into_iter().map(|id| {
            let place = task.statmount(id, 0)?.path.unwrap_or_default();
            Ok((place, 0))
        });
        places.collect::<Result<_, Errno>>().map(Outcome::places)
    }

    fn remount_bind(&self, path: &[u8], flags: u64) -> Result<(), Errno> {
        let old = self.task().mount_flags(path)?;
        self.task().remount_bind(path, old.remounted(flags))
    }
}

/// The flags of a mount that statmount(2) reports, except access times.
const ATTRS: [(MountFlags, u64); 6] = [
    (MountFlags::READ_ONLY, m::MOUNT_ATTR_RDONLY.bits()),
    (MountFlags::NO_SUID, m::MOUNT_ATTR_NOSUID.bits()),
    (MountFlags::NO_DEV, m::MOUNT_ATTR_NODEV.bits()),
    (MountFlags::NO_EXEC, m::MOUNT_ATTR_NOEXEC.bits()),
    (MountFlags::NO_DIR_ATIME, m::MOUNT_ATTR_NODIRATIME.bits()),
    (MountFlags::NO_SYM_FOLLOW, m::MOUNT_ATTR_NOSYMFOLLOW.bits()),
];

/// The fields of statmount(2) that the mask requests.
fn raw_statmount(info: &MountInfo, mask: u64) -> RawStatMount {
    let mut said = RawStatMount {
        mask,
        ..RawStatMount::default()
    };
    let group = |group: Option<u32>| group.map_or(0, u64::from);
    if mask & sys::SB_BASIC != 0 {
        said.sb_flags = u32::from(info.read_only_tree);
    }
    if mask & sys::MNT_BASIC != 0 {
        (said.id, said.parent) = (info.unique_id, info.unique_parent);
        let times = [
            (MountFlags::NO_ATIME, m::MOUNT_ATTR_NOATIME.bits()),
            (MountFlags::REL_ATIME, m::MOUNT_ATTR_RELATIME.bits()),
        ];
        let mut all = ATTRS.iter().chain(&times);
        let set = |(flag, _): &&(MountFlags, u64)| info.flags.contains(*flag);
        said.attr = all.clone().filter(set).fold(0, |sum, (_, bit)| sum | bit);
        if !all.any(|one| times.contains(one) && set(&one)) {
            said.attr |= m::MOUNT_ATTR_STRICTATIME.bits();
        }
        let kinds = [
            (info.shared.is_some(), m::MS_SHARED),
            (info.master.is_some(), m::MS_SLAVE),
            (info.unbindable, m::MS_UNBINDABLE),
        ];
        let kinds = kinds.iter().filter(|(is, _)| *is);
        said.propagation = match kinds.fold(0, |sum, (_, bit)| sum | bit) {
            0 => m::MS_PRIVATE,
            some => some,
        };
        (said.peers, said.master) = (group(info.shared), group(info.master));
    }
    if mask & sys::PROPAGATE_FROM != 0 {
        said.from = group(info.propagate_from);
    }
    if mask & sys::MNT_ROOT != 0 {
        said.root = info.root.clone();
    }
    match &info.path {
        Some(path) if mask & sys::MNT_POINT != 0 => said.point.clone_from(path),
        // A mount that the root does not lead to has no mount point.
        _ => said.mask &= !sys::MNT_POINT,
    }
    said
}
