// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: the host's. Where the tree keeps its own things in some
//! ([`Ownership::Xattr`]), those are not seen, and a guest's of such a name is kept under another.
//!
//! Regular files and directories are asked by a handle that can be read, everything else by its
//! number in `/proc/self/fd`; where there is no `/proc`, it has none.

use crate::handles::number;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::{ESCAPED, OWN};
use crate::pool::{Handle, Use};
use crate::sys::errno;
use openpath_abi::Errno;
use openpath_abi::xattr::{
    SECURITY_PREFIX, TRUSTED_PREFIX, USER_PREFIX, XATTR_LIST_MAX, XATTR_SIZE_MAX,
};
use openpath_vfs::{Inode, Patience};
use rustix::fs::{AtFlags, XattrFlags};
use std::borrow::Cow;
use std::sync::Arc;

const WAIT: Patience = Patience::Wait;

/// By what a file's attributes are reached.
enum By {
    /// An open file.
    File(Arc<Handle>),
    /// A path, and what keeps it valid.
    Path(String, Arc<Handle>),
}

impl By {
    /// Whether it leads nowhere, for want of a `/proc`.
    fn is_nowhere(&self) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        match self {
            Self::File(_) => false,
            Self::Path(path, _) => rustix::fs::statat(rustix::fs::CWD, path, flags).is_err(),
        }
    }
}

impl Node {
    fn by(self: &Arc<Self>) -> Result<By, Errno> {
        if self.is_file() || self.is_dir() {
            return Ok(By::File(self.handle(Use::Read, WAIT)?));
        }
        let handle = self.handle(Use::Path, WAIT)?;
        let path = format!("/proc/self/fd/{}", number(&handle));
        Ok(By::Path(path, handle))
    }

    /// Whether the tree keeps its own things in attributes.
    fn keeps(&self) -> bool {
        matches!(self.tree.options.ownership, Ownership::Xattr { .. })
    }

    /// The host's name for a guest's attribute.
    fn beneath<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        match name.strip_prefix(OWN) {
            Some(rest) if self.keeps() => Cow::Owned([ESCAPED, rest].concat()),
            _ => Cow::Borrowed(name),
        }
    }

    /// The guest's name for an attribute of the host; none for one of the tree's own.
    fn shown(&self, name: &[u8]) -> Option<Vec<u8>> {
        if !self.keeps() || !name.starts_with(OWN) {
            return Some(name.to_vec());
        }
        let rest = name.strip_prefix(ESCAPED)?;
        Some([OWN, rest].concat())
    }

    /// As `InodeOps::getxattr`.
    pub(crate) fn get_xattr(self: &Arc<Self>, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let name = &*self.beneath(name);
        let by = self.by()?;
        if by.is_nowhere() {
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
            let got = match &by {
                By::File(file) => rustix::fs::fgetxattr(&**file, name, &mut value),
                By::Path(path, _) => rustix::fs::getxattr(path, name, &mut value),
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
        flags: u32,
    ) -> Result<(), Errno> {
        let name = &*self.beneath(name);
        let flags = XattrFlags::from_bits_retain(flags);
        let done = match self.by()? {
            By::File(file) => rustix::fs::fsetxattr(&*file, name, value, flags),
            by if by.is_nowhere() => return Err(Errno::EOPNOTSUPP),
            By::Path(path, _held) => rustix::fs::setxattr(path, name, value, flags),
        };
        self.settle(inode);
        done.map_err(errno)
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(self: &Arc<Self>) -> Result<Vec<Vec<u8>>, Errno> {
        let by = self.by()?;
        if by.is_nowhere() {
            return Ok(Vec::new());
        }
        let mut list = vec![0; 1024];
        let len = loop {
            let got = match &by {
                By::File(file) => rustix::fs::flistxattr(&**file, &mut list),
                By::Path(path, _) => rustix::fs::listxattr(path, &mut list),
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
        Ok(names.filter_map(|name| self.shown(name)).collect())
    }

    /// As `InodeOps::removexattr`.
    pub(crate) fn remove_xattr(self: &Arc<Self>, inode: &Inode, name: &[u8]) -> Result<(), Errno> {
        let name = &*self.beneath(name);
        let done = match self.by()? {
            By::File(file) => rustix::fs::fremovexattr(&*file, name),
            by if by.is_nowhere() => return Err(Errno::ENODATA),
            By::Path(path, _held) => rustix::fs::removexattr(path, name),
        };
        self.settle(inode);
        done.map_err(errno)
    }
}
