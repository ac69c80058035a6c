// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tells whether a read or write of an open file may block its caller, which a ring asks before it
//! makes the call. Also counts the opens that a ring submitted.
//!
//! # Kernel analogue
//! `FMODE_NOWAIT`, `file_can_poll`, and what `io_file_supports_nowait` makes of them.

use crate::file::Filp;
use crate::file_ops::Fd;
use crate::task::Task;
use crate::tenant::count;
use openpath_abi::falloc::RWF_NOWAIT;
use openpath_abi::fcntl::O_NONBLOCK;
use openpath_abi::mode;

/// Whether a read or write of a file may block its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataWait {
    /// Never: the data is in memory.
    Never,
    /// Unless the call forbids it (`RWF_NOWAIT`).
    Asked {
        /// Whether no call waits there anyway (`O_NONBLOCK`).
        nonblocking: bool,
    },
    /// It cannot be known beforehand.
    Always,
}

impl Task {
    /// Whether reads and writes at `fd` may block their caller; `None` if it is not open. Linux:
    /// `FMODE_NOWAIT`.
    #[must_use]
    pub fn data_wait(&self, fd: Fd) -> Option<DataWait> {
        let file = self.core.fdget(fd).ok()?;
        Some(file.data_wait())
    }

    /// Counts an open that a ring submitted, for [`crate::Activity`]: left to a worker, or answered
    /// in place.
    #[inline]
    pub fn count_open(&self, offloaded: bool) {
        self.core.count(if offloaded {
            count::OPENS_OFFLOADED
        } else {
            count::OPENS_INLINE
        });
    }
}

impl Filp<'_> {
    fn data_wait(&self) -> DataWait {
        let nonblocking = self.flags().contains(O_NONBLOCK);
        if let Some(own) = self.own_ops() {
            return match own.rw_flags(false) & own.rw_flags(true) & RWF_NOWAIT {
                0 if nonblocking => DataWait::Never,
                0 => DataWait::Always,
                _ => DataWait::Asked { nonblocking },
            };
        }
        let (Ok(inode), Ok(mount)) = (self.inode(), self.mount()) else {
            return DataWait::Never;
        };
        let waits = inode.kind() == mode::S_IFREG && mount.sb.options().blocking_io;
        if waits {
            DataWait::Always
        } else {
            DataWait::Never
        }
    }
}
