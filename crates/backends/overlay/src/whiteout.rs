// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells the overlay's whiteouts from a guest's devices 0:0, which are ordinary files, by the mode
//! with which the upper tree stores them.
//!
//! An overlay mounted inside this one uses character devices 0:0 for its own whiteouts. They must
//! be visible here, and are stored in the upper tree with the sticky bit set. No whiteout has that
//! bit: neither this overlay nor Linux sets it. Guests never see the bit, and cannot set it on such
//! a device. Unlike a device of another number or an extended attribute, it needs no privilege, and
//! mknod(2) sets it together with the name.
//!
//! # Rules
//! R1. In the upper tree, and in a lower tree that is a layer of overlays, a device 0:0 without the
//!     bit is a whiteout, and one with it a file. With [`crate::OverlayOptions::null_devices`] each
//!     one in a lower tree is a file.

use openpath_abi::mode;
use openpath_vfs::{Inode, SetAttr};

/// Whether `mode` and `rdev` are those of a character device 0:0.
fn is_null_device(mode: u32, rdev: u64) -> bool {
    mode::is_chr(mode) && rdev == 0
}

/// Whether an inode of a layer of overlays is a whiteout (R1).
pub(crate) fn is_whiteout(inode: &Inode) -> bool {
    let mode = inode.mode();
    is_null_device(mode, inode.rdev()) && mode & mode::S_ISVTX == 0
}

/// The mode that the upper tree stores for a guest's file.
pub(crate) fn stored_mode(mode: u32, rdev: u64) -> u32 {
    match is_null_device(mode, rdev) {
        true => mode | mode::S_ISVTX,
        false => mode,
    }
}

/// The mode that a guest sees of a file that a layer stores with `mode`.
pub(crate) fn shown_mode(mode: u32, rdev: u64) -> u32 {
    match is_null_device(mode, rdev) {
        true => mode & !mode::S_ISVTX,
        false => mode,
    }
}

/// A guest's change of attributes, as it is applied to an inode of the upper tree.
pub(crate) fn stored_change(upper: &Inode, to: &SetAttr) -> SetAttr {
    let (kind, rdev) = (upper.kind(), upper.rdev());
    SetAttr {
        mode: to.mode.map(|bits| match is_null_device(kind, rdev) {
            true => bits | mode::S_ISVTX,
            false => bits,
        }),
        ..*to
    }
}
