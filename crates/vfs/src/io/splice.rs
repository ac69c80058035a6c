// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves data of a file into a pipe for sendfile(2), page by page for a regular file.
//!
//! # Kernel analogue
//! `splice_file_to_pipe`, `shmem_file_splice_read`, `copy_splice_read`.
//!
//! # Rules
//! R1. Slots are reserved before the file is read, so that the data has a place; nothing is locked
//!     meanwhile.
//! R2. A slot holds data of one page of a regular file. Data that is read in another way fills
//!     slots one after the other.

use crate::file::Filp;
use crate::pipe::{PipeEnd, SLOT};
use openpath_abi::fcntl::O_DIRECT;
use openpath_abi::{Errno, mode};
use openpath_sync::Waiter;

impl PipeEnd {
    /// Moves up to `count` bytes of `from`, from offset `start` on, into the pipe: as many as there
    /// is room for, and waits only for the first.
    ///
    /// # Errors
    /// `EPIPE` (no readers), `EAGAIN`, `EINTR`, `EINVAL` (`from` has nothing to splice), what
    /// reading it meets.
    pub(crate) fn take_from(
        &self,
        from: &Filp<'_>,
        start: i64,
        count: usize,
        wait: Option<&Waiter>,
    ) -> Result<usize, Errno> {
        let pages = from.inode()?.kind() == mode::S_IFREG && !from.flags().contains(O_DIRECT);
        let skip = if pages { start as usize % SLOT } else { 0 };
        let wanted = (skip + count).div_ceil(SLOT);
        let mut reserved = self.reserve(wanted, wait)?;
        if count == 0 {
            return Ok(0);
        }
        if !from.splices() {
            return Err(Errno::EINVAL);
        }
        let mut done = 0;
        while done < count && reserved.has_room() {
            let at = start.saturating_add_unsigned(done as u64);
            let room = if pages {
                SLOT - at as usize % SLOT
            } else {
                SLOT
            };
            let mut page = vec![0; room.min(count - done)];
            match from.read_at(&mut page, at) {
                Ok(read) => {
                    let all = read == page.len();
                    page.truncate(read);
                    done += read;
                    if read > 0 {
                        reserved.push(page);
                    }
                    if !all {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(done)
    }
}
