// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of ioctl(2): the flags of a file or directory.
//!
//! # Kernel analogue
//! `shmem_fileattr_get`. Of the flags that tmpfs has, an inode here can be immutable and
//! append-only; the core keeps both.

use crate::node::Node;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, flag};

/// Asks for the flags, as a `long` of which only the low half is written.
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
/// Asks for the same flags in another form, and for what tmpfs does not have.
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IMMUTABLE_FL: u32 = 0x10;
const FS_APPEND_FL: u32 = 0x20;
const FS_XFLAG_IMMUTABLE: u32 = 0x08;
const FS_XFLAG_APPEND: u32 = 0x10;
/// Bytes of `struct fsxattr`, of which the first four are the flags.
const FSXATTR: usize = 28;

impl Node {
    /// As `InodeOps::ioctl`.
    ///
    /// # Errors
    /// `ENOTTY` for any other request or type of file; `EFAULT` if `arg` is too short.
    pub(crate) fn answer_request(
        &self,
        inode: &Inode,
        request: u32,
        arg: &mut [u8],
    ) -> Result<i64, Errno> {
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::ENOTTY);
        }
        let (len, immutable, append) = match request {
            FS_IOC_GETFLAGS => (4, FS_IMMUTABLE_FL, FS_APPEND_FL),
            FS_IOC_FSGETXATTR => (FSXATTR, FS_XFLAG_IMMUTABLE, FS_XFLAG_APPEND),
            _ => return Err(Errno::ENOTTY),
        };
        let arg = arg.get_mut(..len).ok_or(Errno::EFAULT)?;
        let has = |bit, name| if inode.flags() & bit == 0 { 0 } else { name };
        let flags = has(flag::IMMUTABLE, immutable) | has(flag::APPEND_ONLY, append);
        arg.fill(0);
        arg[..4].copy_from_slice(&flags.to_ne_bytes());
        Ok(0)
    }
}
