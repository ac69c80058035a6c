// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `Task::read_pages`, which shows a caller the data of a file in place, without a copy,
//! for the length of the call.

use super::{ONCE_MAX, counted, verify_area};
use crate::file_ops::Fd;
use crate::task::Task;
use openpath_abi::{Errno, mode};

impl Task {
    /// Shows up to `len` bytes of the file at `fd` from `offset` on, in place and piece by piece;
    /// how many there were. Data cannot change while a piece is shown, so `show` must not read or
    /// write any file of the same file system. Linux has no such call; it is pread(2) without the
    /// copy.
    ///
    /// # Errors
    /// `EINVAL` (negative), `EBADF` (not open, `O_PATH`, not open for reading), `EINVAL` (the end
    /// overflows, not a regular file), `EOPNOTSUPP` (the backend has nothing to lend), what the
    /// backend meets.
    pub fn read_pages(
        &self,
        fd: Fd,
        offset: i64,
        len: usize,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let from = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let file = self.core.fdget_full(fd)?;
        if !file.readable() {
            return Err(Errno::EBADF);
        }
        verify_area(offset, len)?;
        let target = file.target()?;
        let inode = target.inode;
        if inode.kind() != mode::S_IFREG {
            return Err(Errno::EINVAL);
        }
        let len = len.min(ONCE_MAX);
        let shown = inode.shielded(|ops| ops.with_pages(inode, from, len, show))?;
        counted(shown, len)?;
        file.accessed(&target);
        file.tell_read(shown);
        Ok(shown)
    }
}
