// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and changes extended attributes of the host. With [`Ownership::Xattr`] the tree's own
//! attributes are hidden, and a guest's attribute with such a name is stored under another name.
//!
//! Regular files and directories are reached by a readable handle, other files by their number in
//! `/proc/self/fd`. Without a `/proc` those have no attributes.

use crate::handles::fd_name;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::{ESCAPED_PREFIX, OWN_PREFIX};
use crate::pool::{Handle, HandleKind};
use crate::sys::errno;
use openpath_abi::Errno;
use openpath_abi::xattr::{
    SECURITY_PREFIX, TRUSTED_PREFIX, USER_PREFIX, XATTR_LIST_MAX, XATTR_SIZE_MAX,
};
use openpath_vfs::{Inode, WaitMode};
use rustix::fs::{AtFlags, XattrFlags};
use std::borrow::Cow;
use std::sync::Arc;

const WAIT: WaitMode = WaitMode::Wait;

/// How a file's attributes are reached.
enum Target {
    /// An open file.
    File(Arc<Handle>),
    /// A path, and the handle that keeps it valid.
    Path(String, Arc<Handle>),
}

impl Target {
    /// Whether it leads nowhere, for want of a `/proc`.
    fn is_unreachable(&self) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match self {
            Self::File(_) => false,
            Self::Path(path, _) => rustix::fs::statat(rustix::fs::CWD, path, flags).is_err(),
        }
    }
}

impl Node {
    fn xattr_target(self: &Arc<Self>) -> Result<Target, Errno> {
        if self.is_file() || self.is_dir() {
            return Ok(Target::File(self.handle(HandleKind::Read, WAIT)?));
        }
        let handle = self.handle(HandleKind::Path, WAIT)?;
        let path = format!("/proc/self/fd/{}", fd_name(&handle));
        Ok(Target::Path(path, handle))
    }

    /// Whether the tree stores attributes of its own.
    fn reserves_names(&self) -> bool {
        matches!(self.tree.options.ownership, Ownership::Xattr { .. })
    }

    /// The host's name for a guest's attribute.
    fn host_name<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        match name.strip_prefix(OWN_PREFIX) {
            Some(rest) if self.reserves_names() => Cow::Owned([ESCAPED_PREFIX, rest].concat()),
            _ => Cow::Borrowed(name),
        }
    }

    /// The guest's name for an attribute of the host; `None` for one of the tree's own.
    fn guest_name(&self, name: &[u8]) -> Option<Vec<u8>> {
        if !self.reserves_names() || !name.starts_with(OWN_PREFIX) {
            return Some(name.to_vec());
        }
        let rest = name.strip_prefix(ESCAPED_PREFIX)?;
        Some([OWN_PREFIX, rest].concat())
    }

    /// As `InodeOps::getxattr`.
    pub(crate) fn get_xattr(self: &Arc<Self>, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let name = &*self.host_name(name);
        let target = self.xattr_target()?;
        if target.is_unreachable() {
            let known = [USER_PREFIX, TRUSTED_PREFIX, SECURITY_PREFIX];
            let stored = known.iter().any(|prefix| name.starts_with(prefix));
            return Err(if stored {
                Errno::ENODATA
            } else {
                Errno::EOPNOTSUPP
            });
        }
        let mut value = vec![0; 256];
        loop {
            let got = match &target {
                Target::File(file) => rustix::fs::fgetxattr(&**file, name, &mut value),
                Target::Path(path, _) => rustix::fs::getxattr(path, name, &mut value),
            };
            match got {
                Ok(len) => {
                    value.truncate(len);
                    return Ok(value);
                }
                Err(rustix::io::Errno::RANGE) if value.len() < XATTR_SIZE_MAX => {
                    value.resize(XATTR_SIZE_MAX, 0);
                }
                Err(error) => return Err(errno(error)),
            }
        }
    }

    /// As `InodeOps::setxattr`.
    pub(crate) fn set_xattr(
        self: &Arc<Self>,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: openpath_abi::XattrFlags,
    ) -> Result<(), Errno> {
        let name = &*self.host_name(name);
        let flags = XattrFlags::from_bits_retain(flags.bits());
        let done = match self.xattr_target()? {
            Target::File(file) => rustix::fs::fsetxattr(&*file, name, value, flags),
            target if target.is_unreachable() => return Err(Errno::EOPNOTSUPP),
            Target::Path(path, _held) => rustix::fs::setxattr(path, name, value, flags),
        };
        self.refresh_after_change(inode);
        done.map_err(errno)
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(self: &Arc<Self>) -> Result<Vec<Vec<u8>>, Errno> {
        let target = self.xattr_target()?;
        if target.is_unreachable() {
            return Ok(Vec::new());
        }
        let mut list = vec![0; 1024];
        let len = loop {
            let got = match &target {
                Target::File(file) => rustix::fs::flistxattr(&**file, &mut list),
                Target::Path(path, _) => rustix::fs::listxattr(path, &mut list),
            };
            match got {
                Ok(len) => break len,
                Err(rustix::io::Errno::RANGE) if list.len() < XATTR_LIST_MAX => {
                    list.resize(XATTR_LIST_MAX, 0);
                }
                Err(error) => return Err(errno(error)),
            }
        };
        let names = list[..len].split(|byte| *byte == 0);
        let names = names.filter(|name| !name.is_empty());
        Ok(names.filter_map(|name| self.guest_name(name)).collect())
    }

    /// As `InodeOps::removexattr`.
    pub(crate) fn remove_xattr(self: &Arc<Self>, inode: &Inode, name: &[u8]) -> Result<(), Errno> {
        let name = &*self.host_name(name);
        let done = match self.xattr_target()? {
            Target::File(file) => rustix::fs::fremovexattr(&*file, name),
            target if target.is_unreachable() => return Err(Errno::ENODATA),
            Target::Path(path, _held) => rustix::fs::removexattr(path, name),
        };
        self.refresh_after_change(inode);
        done.map_err(errno)
    }
}
