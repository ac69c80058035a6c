// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether an access moves the access time of a file, and moves it (`atime_needs_update`,
//! `touch_atime`).

use crate::inode::{Inode, SetAttr};
use crate::object::mflag;
use crate::superblock::SuperBlock;
use openpath_abi::{Errno, Timespec};
use openpath_sync::Sample;

const DAY_S: i64 = 24 * 60 * 60;

/// Whether an access now through a mount with these flags moves the access time, if the mount and
/// its superblock may be written.
pub(crate) fn is_due(inode: &Inode, mount: Sample, now: Timespec) -> bool {
    let kept = mount.has(mflag::NO_ATIME) || mount.has(mflag::NO_DIR_ATIME) && inode.is_dir();
    if kept {
        return false;
    }
    let attr = inode.attr();
    if mount.has(mflag::REL_ATIME) {
        let behind = attr.mtime >= attr.atime || attr.ctime >= attr.atime;
        let old = now.sec - attr.atime.sec >= DAY_S;
        if !behind && !old {
            return false;
        }
    }
    // The backend of a tree that confirms keeps them itself.
    attr.atime != now && !inode.is_confirmed()
}

/// Moves the access time if it is due, and the mount and its superblock may be written.
///
/// # Errors
/// Those of the backend; they do not matter to the access itself.
pub(crate) fn touch(
    inode: &Inode,
    sb: &SuperBlock,
    mount: Sample,
    now: Timespec,
) -> Result<(), Errno> {
    let writable = !mount.has(mflag::READ_ONLY) && !sb.is_read_only();
    if writable && is_due(inode, mount, now) {
        let change = SetAttr {
            atime: Some(now),
            ..SetAttr::default()
        };
        inode.shielded(|ops| ops.setattr(inode, &change))?;
    }
    Ok(())
}
