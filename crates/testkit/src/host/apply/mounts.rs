// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies mount and mount namespace operations on the host.

use openpath_abi::{Errno, fcntl as f, mount as m};

use super::{Done, Given, fd, plain};
use crate::host::actor::{Stage, aside};
use crate::host::{CLONE_NEWNS, KINDS, TMPFS_OPTIONS};
use crate::op::Op;
use crate::outcome::{MountView, Outcome};
use crate::skips;
use crate::sys;

/// The unique number of a mount, as statx(2) says it.
const MNT_ID_UNIQUE: u32 = openpath_abi::statx::STATX_MNT_ID_UNIQUE.bits();

/// The number of the mount that a path leads to.
fn id_at(path: &[u8]) -> Result<u64, Errno> {
    sys::statx(f::AT_FDCWD, path, 0, MNT_ID_UNIQUE).map(|s| s.mnt_id)
}

/// fsopen(2), fsconfig(2), fsmount(2).
fn fsmount(flags: u32, attr: u32) -> sys::Ret {
    let fs = fd(sys::fsopen(b"tmpfs", 0)).and_then(aside)?;
    let work = || {
        let options = TMPFS_OPTIONS.split(|c| *c == b',');
        for option in options {
            let at = option.iter().position(|c| *c == b'=').unwrap_or(0);
            sys::fs_option(fs, &option[..at], &option[at + 1..])?;
        }
        sys::fs_create(fs)?;
        sys::fsmount(fs, flags, attr)
    };
    let made = work();
    sys::close(fs)?;
    made
}

impl Stage {
    /// Whether the operation unmounts something while the task stands below the case (R3).
    fn uncovers(&self, op: &Op) -> bool {
        let at = match op {
            Op::Umount { .. } | Op::Move { .. } | Op::Pivot { .. } => f::AT_FDCWD,
            Op::MoveMount { at, .. } => at.0,
            _ => return false,
        };
        let places = [(f::AT_FDCWD, &b"/"[..]), (f::AT_FDCWD, b""), (at, b"")];
        places.into_iter().any(|(at, path)| {
            let stat = sys::fstatat(at, path, f::AT_EMPTY_PATH.bits());
            stat.is_ok_and(|s| s.dev == self.below)
        })
    }

    pub(super) fn mount_family(&mut self, op: &Op) -> Option<Done> {
        if self.uncovers(op) {
            return Some(Ok(Outcome::Skip(skips::BELOW)));
        }
        Some(match op {
            Op::Mount { path, flags } => {
                let path = &path.0;
                plain(sys::mount(b"none", path, b"tmpfs", flags.0, TMPFS_OPTIONS))
            }
            Op::Bind {
                source,
                target,
                flags,
            } => {
                let flags = m::MS_BIND | flags.0;
                plain(sys::mount(&source.0, &target.0, b"", flags, b""))
            }
            Op::RemountBind { path, flags } => {
                let flags = m::MS_REMOUNT | m::MS_BIND | flags.0;
                plain(sys::mount(b"none", &path.0, b"", flags, b""))
            }
            Op::RemountSb { path, flags } => {
                let flags = m::MS_REMOUNT | flags.0;
                plain(sys::mount(b"none", &path.0, b"", flags, b""))
            }
            Op::Move { source, target } => {
                plain(sys::mount(&source.0, &target.0, b"", m::MS_MOVE, b""))
            }
            // Without one of these flags mount(2) would do something else.
            Op::Spread { flags, .. } if flags.0 & KINDS == 0 => Err(Errno::EINVAL),
            Op::Spread { path, flags } => plain(sys::mount(b"none", &path.0, b"", flags.0, b"")),
            Op::Umount { path, flags } => plain(sys::umount2(&path.0, flags.low())),
            Op::Pivot { new, old } => plain(sys::pivot_root(&new.0, &old.0)),
            Op::UnshareMounts {} => plain(sys::unshare(CLONE_NEWNS)),
            Op::MountSetattr {
                at,
                path,
                flags,
                set,
                clear,
                spread,
            } => {
                let words = [set.0, clear.0, spread.0];
                plain(sys::mount_setattr(at.0, &path.0, flags.low(), words))
            }
            Op::MoveMount {
                at,
                path,
                at2,
                path2,
                flags,
            } => {
                let (from, to) = ((at.0, &path.0), (at2.0, &path2.0));
                plain(sys::move_mount(from.0, from.1, to.0, to.1, flags.low()))
            }
            Op::Statmount { path, mask } => id_at(&path.0)
                .and_then(|id| sys::statmount(id, mask.0))
                .map(|s| Outcome::Mount(Box::new(MountView::new(&s)))),
            Op::Listmount { path, skip, max } => {
                id_at(&path.0).and_then(|id| list(id, *skip, *max))
            }
            _ => return None,
        })
    }

    pub(super) fn tree_family(&mut self, op: &Op) -> Option<Given> {
        Some(match op {
            Op::OpenTree {
                keep,
                at,
                path,
                flags,
            } => Self::opened(*keep, sys::open_tree(at.0, &path.0, flags.low())),
            Op::Fsmount { keep, flags, attr } => {
                Self::opened(*keep, fsmount(flags.low(), attr.low()))
            }
            _ => return None,
        })
    }
}

/// listmount(2) after the first `skip` mounts, with places instead of numbers.
fn list(id: u64, skip: i64, max: i64) -> Done {
    let few = usize::try_from(skip.clamp(0, 16)).unwrap_or(0);
    let last = match few {
        0 => 0,
        _ => sys::listmount(id, 0, few)?.last().copied().unwrap_or(0),
    };
    let max = usize::try_from(max.clamp(0, 64)).unwrap_or(0);
    let places = sys::listmount(id, last, max)?.into_iter().map(|id| {
        let place = sys::statmount(id, sys::MNT_POINT)?.point;
        Ok((place, 0))
    });
    places.collect::<Result<_, Errno>>().map(Outcome::places)
}
