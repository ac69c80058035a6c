// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the flags of one mount, and translates those of mount(2) and mount_setattr(2).

use super::mflag;
use core::ops::BitOr;
use openpath_abi::{Errno, MountAttrFlags, mount as ms};

/// Flags that can differ between two mounts of one tree (`MNT_*`).
///
/// The default is what mount(2) does without flags: relative access times.
///
/// ```
/// use openpath_vfs::MountFlags;
/// let flags = MountFlags::default() | MountFlags::READ_ONLY;
/// assert!(flags.contains(MountFlags::REL_ATIME));
/// assert_eq!(flags, MountFlags::from_ms(openpath_abi::mount::MS_RDONLY));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MountFlags(pub(crate) u64);

impl Default for MountFlags {
    fn default() -> Self {
        Self::REL_ATIME
    }
}

impl BitOr for MountFlags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Flags of mount(2) and what they mean for a mount.
const FROM_MS: [(u64, u64); 7] = [
    (ms::MS_RDONLY, mflag::READ_ONLY),
    (ms::MS_NOSUID, mflag::NO_SUID),
    (ms::MS_NODEV, mflag::NO_DEV),
    (ms::MS_NOEXEC, mflag::NO_EXEC),
    (ms::MS_NOATIME, mflag::NO_ATIME),
    (ms::MS_NODIRATIME, mflag::NO_DIR_ATIME),
    (ms::MS_NOSYMFOLLOW, mflag::NO_SYM_FOLLOW),
];

/// Attributes of mount_setattr(2) and what they mean for a mount, but for access times.
const FROM_ATTR: [(MountAttrFlags, u64); 6] = [
    (ms::MOUNT_ATTR_RDONLY, mflag::READ_ONLY),
    (ms::MOUNT_ATTR_NOSUID, mflag::NO_SUID),
    (ms::MOUNT_ATTR_NODEV, mflag::NO_DEV),
    (ms::MOUNT_ATTR_NOEXEC, mflag::NO_EXEC),
    (ms::MOUNT_ATTR_NODIRATIME, mflag::NO_DIR_ATIME),
    (ms::MOUNT_ATTR_NOSYMFOLLOW, mflag::NO_SYM_FOLLOW),
];

/// Flags of mount(2) about access times; without any, a remount keeps them as they are.
const MS_ATIME: u64 = ms::MS_NOATIME | ms::MS_NODIRATIME | ms::MS_RELATIME | ms::MS_STRICTATIME;
/// What a mount keeps of its access times.
const ATIME: u64 = mflag::NO_ATIME | mflag::NO_DIR_ATIME | mflag::REL_ATIME;

impl MountFlags {
    /// None: access times move with each access.
    pub const NONE: Self = Self(0);
    /// Nothing may be changed through the mount.
    pub const READ_ONLY: Self = Self(mflag::READ_ONLY);
    /// Set-user-id bits do not count.
    pub const NO_SUID: Self = Self(mflag::NO_SUID);
    /// Devices cannot be opened.
    pub const NO_DEV: Self = Self(mflag::NO_DEV);
    /// Programs cannot be executed.
    pub const NO_EXEC: Self = Self(mflag::NO_EXEC);
    /// Access times stay.
    pub const NO_ATIME: Self = Self(mflag::NO_ATIME);
    /// Access times of directories stay.
    pub const NO_DIR_ATIME: Self = Self(mflag::NO_DIR_ATIME);
    /// Access times move only when they are behind, or a day old.
    pub const REL_ATIME: Self = Self(mflag::REL_ATIME);
    /// Symbolic links are not followed.
    pub const NO_SYM_FOLLOW: Self = Self(mflag::NO_SYM_FOLLOW);

    /// Whether all of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The flags that mount(2) makes of `MS_*` for a new mount (`path_mount`); all others are
    /// ignored.
    #[must_use]
    pub fn from_ms(flags: u64) -> Self {
        let mut bits = if flags & ms::MS_NOATIME == 0 {
            mflag::REL_ATIME
        } else {
            0
        };
        for (from, to) in FROM_MS {
            if flags & from != 0 {
                bits |= to;
            }
        }
        if flags & ms::MS_STRICTATIME != 0 {
            bits &= !(mflag::REL_ATIME | mflag::NO_ATIME);
        }
        Self(bits)
    }

    /// What fsmount(2) makes of `MOUNT_ATTR_*`.
    ///
    /// # Errors
    /// `EINVAL`: unknown attributes, or more than one choice about access times.
    pub fn from_attr(attr: MountAttrFlags) -> Result<Self, Errno> {
        let mut bits = match attr & ms::MOUNT_ATTR__ATIME {
            ms::MOUNT_ATTR_RELATIME => mflag::REL_ATIME,
            ms::MOUNT_ATTR_NOATIME => mflag::NO_ATIME,
            ms::MOUNT_ATTR_STRICTATIME => 0,
            _ => return Err(Errno::EINVAL),
        };
        let mut rest = attr & !ms::MOUNT_ATTR__ATIME;
        for (from, to) in FROM_ATTR {
            if rest.contains(from) {
                bits |= to;
            }
            rest &= !from;
        }
        if rest.is_empty() {
            Ok(Self(bits))
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// What mount(2) makes of `MS_*` for a remount of a mount that has these flags.
    #[must_use]
    pub fn remounted(self, flags: u64) -> Self {
        let new = Self::from_ms(flags);
        if flags & MS_ATIME != 0 {
            return new;
        }
        Self(new.0 & !ATIME | self.0 & ATIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_times_are_relative_unless_told_otherwise() {
        let of = MountFlags::from_ms;
        assert_eq!(of(0), MountFlags::REL_ATIME);
        assert_eq!(of(ms::MS_NOATIME), MountFlags::NO_ATIME);
        assert_eq!(of(ms::MS_STRICTATIME), MountFlags::NONE);
        assert_eq!(of(ms::MS_STRICTATIME | ms::MS_NOATIME), MountFlags::NONE);
        let dirs = MountFlags::NO_DIR_ATIME | MountFlags::REL_ATIME;
        assert_eq!(of(ms::MS_NODIRATIME), dirs);
    }

    #[test]
    fn a_remount_keeps_access_times_and_nothing_else() {
        let old = MountFlags::NO_ATIME | MountFlags::NO_DEV;
        let read_only = MountFlags::NO_ATIME | MountFlags::READ_ONLY;
        assert_eq!(old.remounted(ms::MS_RDONLY), read_only);
        assert_eq!(old.remounted(ms::MS_RELATIME), MountFlags::REL_ATIME);
    }
}
