// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the flags of setxattr(2), and the limits, name prefixes and special names of extended
//! attributes (xattr(7)).

use crate::flags::flags;

flags! {
    /// Flags of setxattr(2).
    XattrFlags(u32):
        XATTR_CREATE XATTR_REPLACE
}

/// setxattr(2): it must be absent.
pub const XATTR_CREATE: XattrFlags = XattrFlags::from_bits_retain(0x1);
/// setxattr(2): it must exist.
pub const XATTR_REPLACE: XattrFlags = XattrFlags::from_bits_retain(0x2);
/// Bytes of a name with its prefix, without its NUL.
pub const XATTR_NAME_MAX: usize = 255;
/// Bytes of a value.
pub const XATTR_SIZE_MAX: usize = 65536;
/// Bytes of the list of names.
pub const XATTR_LIST_MAX: usize = 65536;

/// For any task that may write the file; regular files and directories only.
pub const USER_PREFIX: &[u8] = b"user.";
/// For `CAP_SYS_ADMIN`; hidden from others.
pub const TRUSTED_PREFIX: &[u8] = b"trusted.";
/// For security modules.
pub const SECURITY_PREFIX: &[u8] = b"security.";
/// For the kernel: access control lists.
pub const SYSTEM_PREFIX: &[u8] = b"system.";
/// File capabilities; writing or chown removes them.
pub const CAPABILITY_NAME: &[u8] = b"security.capability";
/// The access control list.
pub const ACL_ACCESS_NAME: &[u8] = b"system.posix_acl_access";
/// The list that a directory gives to what is created in it.
pub const ACL_DEFAULT_NAME: &[u8] = b"system.posix_acl_default";
