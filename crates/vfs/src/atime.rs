// SPDX-License-Identifier: MIT OR Apache-2.0
//! When an access moves the access time (`atime_needs_update`, `touch_atime`).

use crate::inode::{Inode, SetAttr};
use crate::mount::mflag;
use openpath_abi::{Errno, Timespec};
use openpath_sync::Sample;

const DAY_S: i64 = 24 * 60 * 60;

/// Whether an access now through a mount with these flags moves the access time.
pub(crate) fn is_due(inode: &Inode, mount: Sample, now: Timespec) -> bool {
    if mount.has(mflag::NO_ATIME) || mount.has(mflag::READ_ONLY) {
        return false;
    }
    if mount.has(mflag::NO_DIR_ATIME) && inode.is_dir() {
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
    attr.atime != now
}

/// Moves the access time; an error of the backend is nobody's business.
pub(crate) fn touch(inode: &Inode, mount: Sample, now: Timespec) -> Result<(), Errno> {
    if is_due(inode, mount, now) {
        let change = SetAttr {
            atime: Some(now),
            ..SetAttr::default()
        };
        inode.shielded(|ops| ops.setattr(inode, &change))?;
    }
    Ok(())
}
