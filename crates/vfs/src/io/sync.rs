// SPDX-License-Identifier: MIT OR Apache-2.0
//! Syncs data to stable storage: fsync(2), fdatasync(2).

use crate::file::Filp;
use crate::file_ops::Fd;
use crate::task::Task;
use openpath_abi::{Errno, mode};

impl Task {
    /// Brings data and attributes of the file at `fd` to stable storage. Linux: fsync(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (a special file), what the backend meets.
    pub fn fsync(&self, fd: Fd) -> Result<(), Errno> {
        self.core.fdget_full(fd)?.sync(false)
    }

    /// Brings data of the file at `fd` to stable storage, with the attributes that reading it
    /// needs. Linux: fdatasync(2).
    ///
    /// # Errors
    /// As [`Task::fsync`].
    pub fn fdatasync(&self, fd: Fd) -> Result<(), Errno> {
        self.core.fdget_full(fd)?.sync(true)
    }
}

impl Filp<'_> {
    pub(super) fn sync(&self, data_only: bool) -> Result<(), Errno> {
        let inode = self.inode()?;
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::EINVAL);
        }
        inode.shielded(|ops| ops.fsync(inode, data_only))
    }
}
