// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads symbolic links: readlink(2), readlinkat(2).

use super::resolve;
use crate::file_ops::Fd;
use crate::inode::{WaitMode, flag};
use crate::reason::Reason;
use crate::target::Target;
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
        self.readlinkat_by(dirfd, path, 0)
    }

    /// As [`Task::readlinkat`], walking with these flags besides.
    pub(super) fn readlinkat_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        lookup: u32,
    ) -> Result<Vec<u8>, Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        let held = resolve(&self.core, at, path, lflag::EMPTY | lookup)?;
        let target = held.target()?;
        let inode = target.inode;
        if inode.kind() != mode::S_IFLNK {
            return Err(if path.is_empty() {
                Errno::ENOENT
            } else {
                Errno::EINVAL
            });
        }
        let wait_mode = if lookup & lflag::CACHED == 0 {
            target.touch_atime();
            WaitMode::Wait
        } else {
            target.reads_link_at_once()?;
            WaitMode::Cached
        };
        if inode.flags() & flag::MAGIC == 0 {
            let body = inode.read_link(wait_mode).map(<[u8]>::to_vec);
            return body.map_err(|errno| self.core.would_wait(wait_mode, errno));
        }
        // The body of a magic link may differ each time.
        let body = inode.shielded(|ops| ops.readlink(inode, wait_mode));
        let body = body.map_err(|errno| self.core.would_wait(wait_mode, errno))?;
        Ok(body.into_owned())
    }
}

impl Target<'_> {
    /// Whether the link can be read without a wait: its access time need not move, and its body was
    /// read before, or its backend answers at once.
    ///
    /// # Errors
    /// `EAGAIN`.
    fn reads_link_at_once(&self) -> Result<(), Errno> {
        if self.is_atime_due() {
            return Err(self.core.give_up(Reason::AccessTime));
        }
        let known = self.inode.flags() & flag::MAGIC == 0 && self.inode.cached_link().is_some();
        if known || self.mount.sb.options().tries {
            Ok(())
        } else {
            Err(self.core.give_up(Reason::LinkBody))
        }
    }
}
