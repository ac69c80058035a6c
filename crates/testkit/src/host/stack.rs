// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts the kernel's overlay over the tree that a case has made so far.

use openpath_abi::{Errno, fcntl as f};

use super::actor::aside;
use super::{TMPFS_OPTIONS, fd};
use crate::sys;

/// Options of the kernel's overlay: stable inode numbers, movable directories, hard links broken at
/// copy-up.
const OPTIONS: &[u8] = b"lowerdir=.,upperdir=/upper,workdir=/work,\
redirect_dir=on,xino=on,index=off,metacopy=off";

/// Mounts an overlay over the acting thread's root and makes it the root.
pub(super) fn stack() -> Result<(), Errno> {
    // Open descriptors would refer to the lower tree.
    sys::close_range(0, u32::MAX, 0)?;
    let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
    let lower = aside(fd(sys::openat(f::AT_FDCWD, b"/", flags.bits(), 0))?)?;
    let was = sys::fstat(lower)?;
    sys::mount(b"upper", b"/", b"tmpfs", 0, TMPFS_OPTIONS)?;
    enter()?;
    let mask = u32::try_from(sys::umask(0)?).unwrap_or(0);
    for dir in [&b"/upper"[..], b"/work"] {
        sys::mkdirat(f::AT_FDCWD, dir, was.mode & 0o7777)?;
    }
    sys::umask(mask)?;
    sys::fchownat(f::AT_FDCWD, b"/upper", was.uid, was.gid, 0)?;
    let times = [was.atime, was.mtime].map(|t| (t.sec, i64::from(t.nsec)));
    sys::utimensat(f::AT_FDCWD, Some(b"/upper"), times, 0)?;
    sys::fchdir(lower)?;
    sys::mount(b"overlay", b"/", b"overlay", 0, OPTIONS)?;
    enter()?;
    sys::close(lower)?;
    Ok(())
}

/// Enters the file system that was just mounted on the root.
fn enter() -> Result<(), Errno> {
    sys::chroot(b"/..")?;
    sys::chdir(b"/")?;
    Ok(())
}
