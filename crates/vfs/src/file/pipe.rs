// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the pipe end of an open file, and implements `F_GETPIPE_SZ` and `F_SETPIPE_SZ` for it.

use super::Filp;
use crate::pipe::PipeEnd;
use openpath_abi::Errno;

impl Filp<'_> {
    /// The end of a pipe, if it is one.
    pub(crate) fn pipe_end(&self) -> Option<&PipeEnd> {
        self.own_ops()?.as_any().downcast_ref()
    }

    /// `F_GETPIPE_SZ`.
    ///
    /// # Errors
    /// `EBADF`: it is no pipe.
    pub(crate) fn pipe_size(&self) -> Result<u64, Errno> {
        Ok(self.pipe_end().ok_or(Errno::EBADF)?.size())
    }

    /// `F_SETPIPE_SZ`.
    ///
    /// # Errors
    /// `EBADF` (no pipe), then those of [`PipeEnd::set_size`].
    pub(crate) fn set_pipe_size(&self, bytes: u32) -> Result<u64, Errno> {
        let end = self.pipe_end().ok_or(Errno::EBADF)?;
        end.set_size(bytes, &self.core.cred(), &self.core.vfs.config.limits)
    }
}
