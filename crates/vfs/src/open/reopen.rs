// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens the file of a descriptor once more, as an open file of its own.
//!
//! # Kernel analogue
//! open(2) of `/proc/self/fd/N`, `O_EMPTYPATH` of later kernels. The path that led to the file does
//! not matter; its present permissions do.

use super::{OpenOp, do_open, how};
use crate::file_ops::Fd;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::{Errno, OFlags};

impl Task {
    /// Opens the file at `fd` once more, as a file of its own. The file may have lost its name, or
    /// be open with `O_PATH`. Linux: open(2) of `/proc/self/fd/N`.
    ///
    /// ```
    /// # use openpath_abi::fcntl::{O_CREAT, O_PATH, O_RDWR, O_WRONLY};
    /// # fn shown(task: &openpath_vfs::Task) -> Result<(), openpath_abi::Errno> {
    /// let place = task.open(b"/notes", O_PATH, 0)?;
    /// task.unlink(b"/notes")?;
    /// let fd = task.reopen(place, O_RDWR)?;
    /// task.write(fd, b"still here")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of the flags, `EMFILE`, `ENFILE`, `EBADF`, `ELOOP` (a link), then those of any open
    /// from the permissions on.
    pub fn reopen(&self, fd: Fd, flags: OFlags) -> Result<Fd, Errno> {
        let profile = self.core.vfs.config.profile;
        let op = how::build(&how::lenient(flags, 0, profile), profile)?;
        let op = OpenOp {
            lookup: op.lookup | lflag::EMPTY,
            ..op
        };
        do_open(&self.core, fd, b"", &op)
    }
}
