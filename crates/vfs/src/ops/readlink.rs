// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a symbolic link says: readlink(2), readlinkat(2).

use super::resolve;
use crate::file::Fd;
use crate::inode::flag;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::{Errno, mode};

impl Task {
    /// The body of the link `path`. Linux: readlink(2).
    ///
    /// # Errors
    /// As [`Task::readlinkat`].
    pub fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.readlinkat(AT_FDCWD, path)
    }

    /// The whole body of the link `path`, relative to `dirfd`; with an empty path, of the link that
    /// `dirfd` was opened at with `O_PATH` and `O_NOFOLLOW`. Linux: readlinkat(2).
    ///
    /// # Errors
    /// `ENAMETOOLONG`, those of the walk, `EINVAL` (not a link), `ENOENT` (not a link, empty path),
    /// what the backend meets.
    pub fn readlinkat(&self, dirfd: Fd, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        let held = resolve(&self.core, at, path, lflag::EMPTY)?;
        let target = held.target()?;
        let inode = target.inode;
        if inode.kind() != mode::S_IFLNK {
            return Err(if path.is_empty() {
                Errno::ENOENT
            } else {
                Errno::EINVAL
            });
        }
        target.touch_atime();
        if inode.flags() & flag::MAGIC == 0 {
            return inode.read_link().map(<[u8]>::to_vec);
        }
        // What a magic link says may be another thing each time.
        let body = inode.shielded(|ops| ops.readlink(inode))?;
        Ok(body.into_owned())
    }
}
