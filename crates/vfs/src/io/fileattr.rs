// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the file flags of lsattr(1) and chattr(1), which they read and set by ioctl(2).
//!
//! A backend answers the reading requests with [`inode_flags`] and takes [`FS_IOC_SETFLAGS`]
//! alone. The core checks privileges and translates the other form of the request.
//!
//! # Kernel analogue
//! `vfs_fileattr_get`, `vfs_fileattr_set`, `fileattr_set_prepare`.

use crate::file::Filp;
use crate::inode::{Inode, SetAttr, flag};
use openpath_abi::{Errno, caps, mode};

/// Reads the flags. The argument is declared as a `long`; the low half is written.
pub const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
/// Sets the flags.
pub const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
/// Reads the flags as a `struct fsxattr`.
pub const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
/// Sets the flags from a `struct fsxattr`.
pub const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
/// The file cannot be changed, linked or removed.
pub const FS_IMMUTABLE_FL: u32 = 0x10;
/// The file can only be appended to.
pub const FS_APPEND_FL: u32 = 0x20;

const FS_XFLAG_IMMUTABLE: u32 = 0x08;
const FS_XFLAG_APPEND: u32 = 0x10;
/// Bytes of `struct fsxattr`. The first four are the flags.
const FSXATTR: usize = 28;

/// Answers [`FS_IOC_GETFLAGS`] and [`FS_IOC_FSGETXATTR`] from the flags that the core keeps.
///
/// # Errors
/// `ENOTTY`: another request, or neither a regular file nor a directory. `EFAULT`: `arg` is too
/// short.
pub fn inode_flags(inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
    let (len, immutable, append) = match request {
        FS_IOC_GETFLAGS => (4, FS_IMMUTABLE_FL, FS_APPEND_FL),
        FS_IOC_FSGETXATTR => (FSXATTR, FS_XFLAG_IMMUTABLE, FS_XFLAG_APPEND),
        _ => return Err(Errno::ENOTTY),
    };
    if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
        return Err(Errno::ENOTTY);
    }
    let arg = arg.get_mut(..len).ok_or(Errno::EFAULT)?;
    let has = |bit, name| if inode.flags() & bit == 0 { 0 } else { name };
    let flags = has(flag::IMMUTABLE, immutable) | has(flag::APPEND_ONLY, append);
    arg.fill(0);
    arg[..4].copy_from_slice(&flags.to_ne_bytes());
    Ok(0)
}

/// The flags that a setting request asks for, as [`FS_IOC_SETFLAGS`] has them.
fn wanted(request: u32, arg: &[u8]) -> Result<u32, Errno> {
    let first = *arg.first_chunk().ok_or(Errno::EFAULT)?;
    let first = u32::from_ne_bytes(first);
    if request == FS_IOC_SETFLAGS {
        return Ok(first);
    }
    let rest = arg.get(4..FSXATTR).ok_or(Errno::EFAULT)?;
    // No file here has extent sizes or projects.
    let known = FS_XFLAG_IMMUTABLE | FS_XFLAG_APPEND;
    if first & !known != 0 || rest.iter().any(|&byte| byte != 0) {
        return Err(Errno::EOPNOTSUPP);
    }
    let has = |bit, name| if first & bit == 0 { 0 } else { name };
    Ok(has(FS_XFLAG_IMMUTABLE, FS_IMMUTABLE_FL) | has(FS_XFLAG_APPEND, FS_APPEND_FL))
}

/// The flags that the inode has now, from its backend.
fn current(inode: &Inode) -> Result<u32, Errno> {
    let mut flags = [0; 4];
    inode.shielded(|ops| ops.ioctl(inode, FS_IOC_GETFLAGS, &mut flags))?;
    Ok(u32::from_ne_bytes(flags))
}

impl Filp<'_> {
    /// Sets the flags of the open file.
    ///
    /// # Errors
    /// `ENOTTY` (the backend has none), `EFAULT`, `EOPNOTSUPP` (a flag that it does not have),
    /// `EROFS`, `EPERM` (not the owner; a change without `CAP_LINUX_IMMUTABLE`), what the backend
    /// meets.
    pub(super) fn set_inode_flags(&self, request: u32, arg: &[u8]) -> Result<i64, Errno> {
        let target = self.target()?;
        target.confirm()?;
        let inode = target.inode;
        current(inode)?;
        let wanted = wanted(request, arg)?;
        let _writing = target.begin_write()?;
        let _held = inode.lock_names();
        let changed = current(inode)? ^ wanted;
        {
            let cred = target.core.cred();
            let fixes = changed & (FS_IMMUTABLE_FL | FS_APPEND_FL) != 0;
            if !cred.owner_or_capable(inode.ids().0)
                || fixes && !cred.capable(caps::CAP_LINUX_IMMUTABLE)
            {
                return Err(Errno::EPERM);
            }
        }
        let mut flags = wanted.to_ne_bytes();
        inode.shielded(|ops| ops.ioctl(inode, FS_IOC_SETFLAGS, &mut flags))?;
        target.setattr(&SetAttr {
            ctime: Some(target.core.vfs.clock.now()),
            ..SetAttr::default()
        })?;
        Ok(0)
    }
}
