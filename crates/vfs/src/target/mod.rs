// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the target of a call, an inode and the mount it was reached through, and the steps that
//! calls share on it: write access, access time, attributes and removal of privileges.

mod events;
mod statfs;

use crate::atime;
use crate::file::Filp;
use crate::inode::{Inode, SetAttr, WaitMode, flag};
use crate::object::{MountData, mflag};
use crate::path::PathIds;
use crate::reason::Reason;
use crate::task::{Core, WriteAccess};
use openpath_abi::{Errno, Timespec, caps, mode};
use openpath_sync::Sample;

/// Nothing of an inode with one of these flags can be set (`may_setattr`, `may_write_xattr`).
pub(crate) const FIXED: u64 = flag::IMMUTABLE | flag::APPEND_ONLY;

/// An inode and the mount it was reached through; the caller pins both as long as this is used.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) core: &'a Core,
    pub(crate) inode: &'a Inode,
    pub(crate) mount: &'a MountData,
    pub(crate) path_ids: PathIds,
}

impl Filp<'_> {
    /// The inode and mount of the file.
    ///
    /// # Errors
    /// `EBADF`, which a file that is open never gives.
    #[inline(always)]
    pub(crate) fn target(&self) -> Result<Target<'_>, Errno> {
        Ok(Target {
            core: self.core,
            inode: self.inode()?,
            mount: self.mount()?,
            path_ids: self.path_ids(),
        })
    }
}

impl<'a> Target<'a> {
    /// The flags of the mount, now.
    #[inline(always)]
    pub(crate) fn mount_flags(&self) -> Sample {
        self.core.vfs.mounts.at(self.path_ids.mount).word().sample()
    }

    /// Whether nothing may be changed through the mount (`__mnt_is_readonly`).
    pub(crate) fn is_read_only(&self) -> bool {
        self.mount_flags().has(mflag::READ_ONLY) || self.mount.sb.is_read_only()
    }

    /// Counts the task as changing something through the mount, until what this returns is dropped
    /// (`mnt_want_write`).
    ///
    /// # Errors
    /// `EROFS`: the mount or its superblock is read-only.
    pub(crate) fn begin_write(&self) -> Result<WriteAccess<'a>, Errno> {
        self.core.want_write(self.path_ids.mount, self.mount)
    }

    /// Whether anything of the inode can be set.
    ///
    /// # Errors
    /// `EPERM`.
    pub(crate) fn must_be_free(&self) -> Result<(), Errno> {
        if self.inode.flags() & FIXED == 0 {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Brings the attributes up to date, if they must be confirmed: for calls by a descriptor.
    ///
    /// # Errors
    /// What the backend meets.
    #[inline]
    pub(crate) fn confirm(&self) -> Result<(), Errno> {
        if self.inode.is_confirmed() {
            self.refresh(WaitMode::Wait)
        } else {
            Ok(())
        }
    }

    /// Asks the backend to bring the attributes up to date.
    ///
    /// # Errors
    /// What it meets; `EAGAIN` if it would have to wait and may not.
    #[cold]
    pub(crate) fn refresh(&self, wait_mode: WaitMode) -> Result<(), Errno> {
        if wait_mode == WaitMode::Cached && !self.mount.sb.options().tries {
            return Err(self.core.give_up(Reason::Revalidate));
        }
        let fresh = self.inode.refresh(wait_mode);
        fresh.map_err(|errno| self.core.would_wait(wait_mode, errno))
    }

    /// Whether an access now would move the access time.
    pub(crate) fn is_atime_due(&self) -> bool {
        let now = self.core.vfs.clock.now();
        !self.is_read_only() && atime::is_due(self.inode, self.mount_flags(), now)
    }

    /// Moves the access time, if it is due (`touch_atime`).
    pub(crate) fn touch_atime(&self) {
        let now = self.core.vfs.clock.now();
        // The call succeeds even if its time cannot be noted.
        let _noted = atime::touch(self.inode, &self.mount.sb, self.mount_flags(), now);
    }

    /// Removes the privileges that a change of data by this task takes from the file: set-id bits,
    /// for which it returns the new mode, and file capabilities, which are gone afterwards
    /// (`file_remove_privs`).
    ///
    /// The file is locked.
    ///
    /// # Errors
    /// What the backend meets.
    pub(crate) fn drop_privileges(&self, now: Timespec) -> Result<Option<u32>, Errno> {
        self.inode.drop_capabilities(now)?;
        Ok(without_privileges(self.core, self.inode))
    }

    /// Whether [`Target::drop_privileges`] would remove nothing.
    pub(crate) fn keeps_privileges(&self) -> bool {
        self.inode.flags() & flag::FILE_CAPS == 0
            && without_privileges(self.core, self.inode).is_none()
    }

    /// Applies a change of attributes at the backend.
    ///
    /// # Errors
    /// What the backend meets.
    pub(crate) fn setattr(&self, change: &SetAttr) -> Result<(), Errno> {
        self.inode.shielded(|ops| ops.setattr(self.inode, change))?;
        self.tell_attributes(change);
        Ok(())
    }
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
