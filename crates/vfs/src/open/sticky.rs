// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks whether an open with `O_CREAT` may use another user's existing file in a sticky
//! directory.
//!
//! # Kernel analogue
//! `may_create_in_sticky`; `fs.protected_regular`, `fs.protected_fifos`.

use crate::inode::Inode;
use crate::steps::Check;
use crate::task::Core;
use openpath_abi::{Errno, mode};
use openpath_sync::Pin;

/// Whether `O_CREAT` may open another user's file in a sticky directory (`may_create_in_sticky`).
#[inline(always)]
pub(super) fn sticky_allows(core: &Core, pin: &Pin, inode: &Inode) -> Result<(), Errno> {
    if sticky_level(core, inode) == 0 {
        return Ok(());
    }
    sticky_decides(core, pin, inode)
}

/// How strict the sticky rules are for this kind of file: as its control says, and always strict
/// for all but regular files and FIFOs.
#[inline(always)]
pub(super) fn sticky_level(core: &Core, inode: &Inode) -> u8 {
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
        Err(core.refused(Check::Sticky, Errno::EACCES))
    } else {
        Ok(())
    }
}
