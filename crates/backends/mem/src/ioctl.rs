// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets and sets the flags of a file or directory by ioctl(2).
//!
//! # Kernel analogue
//! `shmem_fileattr_get`, `shmem_fileattr_set`. Of the flags that tmpfs has, an inode here can be
//! immutable and append-only; the core keeps and enforces both.
//!
//! Divergence: L10.

use crate::node::Node;
use openpath_abi::{Errno, mode};
use openpath_vfs::fileattr::{FS_APPEND_FL, FS_IMMUTABLE_FL, FS_IOC_SETFLAGS, inode_flags};
use openpath_vfs::{Inode, flag};

impl Node {
    /// As `InodeOps::ioctl`.
    ///
    /// # Errors
    /// `ENOTTY` for any other request or type of file; `EFAULT` if `arg` is too short;
    /// `EOPNOTSUPP` for another flag.
    pub(crate) fn set_or_get_flags(
        &self,
        inode: &Inode,
        request: u32,
        arg: &mut [u8],
    ) -> Result<i64, Errno> {
        if request != FS_IOC_SETFLAGS {
            return inode_flags(inode, request, arg);
        }
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::ENOTTY);
        }
        let wanted = u32::from_ne_bytes(*arg.first_chunk().ok_or(Errno::EFAULT)?);
        if wanted & !(FS_IMMUTABLE_FL | FS_APPEND_FL) != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        for (name, bit) in [
            (FS_IMMUTABLE_FL, flag::IMMUTABLE),
            (FS_APPEND_FL, flag::APPEND_ONLY),
        ] {
            if wanted & name != 0 {
                inode.set_flags(bit);
            } else {
                inode.clear_flags(bit);
            }
        }
        Ok(0)
    }
}
