// SPDX-License-Identifier: MIT OR Apache-2.0
//! Denies opens for writing of a running program's file (`ETXTBSY`), as long as the host keeps a
//! handle.
//!
//! # Kernel analogue
//! `deny_write_access`, `allow_write_access`.

use crate::file_ops::Fd;
use crate::inode::Inode;
use crate::task::Task;
use openpath_abi::Errno;
use std::sync::Arc;

/// The file of a running program: opening it for writing is `ETXTBSY` as long as this lives.
pub struct RunningProgram(Arc<Inode>);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.0.allow_writing();
    }
}

impl Task {
    /// Keeps the file at `fd` from being written to, as execve(2) does for the program it starts.
    ///
    /// # Errors
    /// `EBADF`, `EACCES` (not a regular file), `ETXTBSY` (it is open for writing).
    pub fn deny_write(&self, fd: Fd) -> Result<RunningProgram, Errno> {
        let file = self.core.fdget(fd)?;
        let store = &self.core.vfs.dcache.store;
        let inode = store.share_dentry_payload(file.file().pin());
        let inode = inode.ok_or(Errno::EBADF)?;
        if inode.kind() != openpath_abi::mode::S_IFREG {
            return Err(Errno::EACCES);
        }
        inode.deny_writing();
        let running = RunningProgram(inode);
        let writes = store.has_writers(|_, entry| store.has_payload(entry, &running.0));
        if writes == Some(false) {
            Ok(running)
        } else {
            Err(Errno::ETXTBSY)
        }
    }
}
