// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which mount flags of the host a server of the tree enforces, and decides which mounts of
//! the host may be entered because of it.
//!
//! A server that shows a tree to callers (a face) shows the mounts of the host in it through one
//! mount, which has flags of its own. `nosuid`, `nodev` and `noexec` of a mount of the host hold
//! there only if the face enforces them at that path. A mount with a flag that is not enforced is
//! not entered.
//!
//! # States
//! The flags of a mount are enforced -> lost, for good. They are lost when the face reports it
//! ([`EnforcedFlags::give_up`]), and when a directory on the way to the mount is missing or has
//! become another directory: the kernel drops what is mounted below a name that changed its
//! meaning.
//!
//! # Rules
//! R1. Paths begin at the root of the tree and have no slash at either end.
//! R2. The flags of a mount hold below it, up to the next mount. Below a lost one nothing is
//!     enforced.

use crate::sys::Id;
use openpath_abi::MountAttrFlags;
use openpath_abi::mount::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID};
use openpath_sync::{Word, WriteOnce};
use std::collections::BTreeSet;
use std::fmt;

/// The flags that can be enforced: `MOUNT_ATTR_NOSUID`, `MOUNT_ATTR_NODEV`, `MOUNT_ATTR_NOEXEC`,
/// the same bits as in statvfs(3) and mount(2).
pub const HELD: MountAttrFlags = MOUNT_ATTR_NOSUID
    .union(MOUNT_ATTR_NODEV)
    .union(MOUNT_ATTR_NOEXEC);

/// The mounts of a tree with flags that a face enforces.
#[derive(Debug, Default)]
pub struct EnforcedFlags {
    mounts: Vec<EnforcedMount>,
    /// Directories on the way to these mounts.
    ancestors: Vec<Ancestor>,
}

#[derive(Debug)]
struct EnforcedMount {
    path: Vec<u8>,
    flags: MountAttrFlags,
    lost: Word,
}

struct Ancestor {
    path: Vec<u8>,
    /// The directory that was found first.
    first: WriteOnce<Id>,
}

impl fmt::Debug for Ancestor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.escape_ascii().fmt(f)
    }
}

/// Whether `path` is `above` or lies below it.
fn is_within(path: &[u8], above: &[u8]) -> bool {
    above.is_empty()
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl EnforcedFlags {
    /// Mounts by their paths, each with the flags that are enforced there.
    #[must_use]
    pub fn new(mounts: impl IntoIterator<Item = (Vec<u8>, MountAttrFlags)>) -> Self {
        let mounts: Vec<_> = mounts
            .into_iter()
            .map(|(path, flags)| EnforcedMount {
                path: trimmed(&path),
                flags: flags & HELD,
                lost: Word::new(0),
            })
            .collect();
        let mut ancestors = BTreeSet::new();
        for mount in &mounts {
            let ends = mount.path.iter().enumerate();
            let ends = ends.filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            ancestors.extend(ends.map(|end| mount.path[..end].to_vec()));
        }
        let ancestor = |path| Ancestor {
            path,
            first: WriteOnce::default(),
        };
        Self {
            mounts,
            ancestors: ancestors.into_iter().map(ancestor).collect(),
        }
    }

    /// Notes that flags are no longer enforced at this path and below; whether that is new.
    pub fn give_up(&self, path: &[u8]) -> bool {
        let mut any = false;
        for mount in &self.mounts {
            any |= is_within(&mount.path, path) && mount.lost.swap_if(0, 1);
        }
        any
    }

    /// Whether a mount with these flags may be entered at `path`.
    #[must_use]
    pub fn admits(&self, path: &[u8], flags: MountAttrFlags) -> bool {
        let above = self.mounts.iter().filter(|p| is_within(path, &p.path));
        let nearest = above.max_by_key(|mount| mount.path.len());
        let enforced = nearest.map_or(MountAttrFlags::empty(), |mount| {
            mount.flags.only_if(mount.lost.get() == 0)
        });
        !(flags & HELD).intersects(!enforced)
    }

    /// Whether `path` is on the way to a mount.
    pub(crate) fn is_ancestor(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return !self.mounts.is_empty();
        }
        self.ancestor(path).is_some()
    }

    /// Reports what was found at `path`, `None` for nothing. If it is on the way to a mount and not
    /// what was found first, the flags are lost. Whether some were lost by this.
    pub(crate) fn check_ancestor(&self, path: &[u8], id: Option<Id>) -> bool {
        let Some(ancestor) = self.ancestor(path) else {
            return false;
        };
        let same = match (id, ancestor.first.get()) {
            (Some(id), None) => *ancestor.first.set(id) == id,
            (Some(id), Some(first)) => id == *first,
            (None, _) => false,
        };
        !same && self.give_up(path)
    }

    fn ancestor(&self, path: &[u8]) -> Option<&Ancestor> {
        let at = self.ancestors.binary_search_by(|a| a.path[..].cmp(path));
        at.ok().map(|at| &self.ancestors[at])
    }
}

/// A path without slashes at its ends.
fn trimmed(path: &[u8]) -> Vec<u8> {
    let begin = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|b| *b != b'/');
    path[begin..end.map_or(begin, |at| at + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::{EnforcedFlags, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID};

    #[test]
    fn mount_with_a_flag_that_is_not_enforced_is_not_admitted() {
        let both = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
        let held = EnforcedFlags::new([
            (b"/run/".to_vec(), both),
            (b"/run/user/7".to_vec(), MOUNT_ATTR_NOSUID),
        ]);
        for (path, flags, admitted) in [
            (&b"run"[..], both, true),
            (b"run/lock", MOUNT_ATTR_NOEXEC, true),
            (b"run/user/7/x", MOUNT_ATTR_NOSUID, true),
            (b"run/user/7/x", MOUNT_ATTR_NOEXEC, false),
            (b"run/user/70", MOUNT_ATTR_NOEXEC, true),
            (b"runner", MOUNT_ATTR_NOEXEC, false),
            (b"", MOUNT_ATTR_NOSUID, false),
            (b"mnt", openpath_abi::MountAttrFlags::empty(), true),
        ] {
            assert_eq!(held.admits(path, flags), admitted, "{path:?} {flags:?}");
        }
        assert!(held.is_ancestor(b"") && held.is_ancestor(b"run") && held.is_ancestor(b"run/user"));
        assert!(!held.is_ancestor(b"run/user/7") && !held.is_ancestor(b"mnt"));
        held.give_up(b"run/user");
        assert!(!held.admits(b"run/user/7/x", MOUNT_ATTR_NOSUID));
        assert!(held.admits(b"run", both));
    }

    #[test]
    fn flags_below_a_missing_directory_are_lost() {
        let mount = b"home/u/mnt".to_vec();
        let held = EnforcedFlags::new([(mount.clone(), MOUNT_ATTR_NOSUID)]);
        assert!(!held.check_ancestor(b"home/u/other", None));
        assert!(!held.check_ancestor(b"home/u/mnt", None));
        assert!(held.admits(&mount, MOUNT_ATTR_NOSUID));
        assert!(held.check_ancestor(b"home/u", None));
        assert!(!held.check_ancestor(b"home/u", None));
        assert!(!held.admits(&mount, MOUNT_ATTR_NOSUID));
    }
}
