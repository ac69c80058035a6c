// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a file into a pipe: sendfile(2).
//!
//! # Kernel analogue
//! `splice_file_to_pipe`, `wait_for_space`, `shmem_file_splice_read`, `copy_splice_read`.
//!
//! # Rules
//! R1. Slots are reserved before the file is read, so that what was read has a place; nothing is
//!     locked meanwhile.
//! R2. A slot holds what lies in one page of a regular file. What is read in another way fills
//!     slots one after the other.

use super::Pipe;
use super::end::End;
use super::ring::SLOT;
use crate::file::Filp;
use openpath_abi::fcntl::O_DIRECT;
use openpath_abi::{Errno, mode};
use openpath_sync::{Sleeper, unfailing};

/// Slots that someone is about to fill.
struct Reserved<'a> {
    pipe: &'a Pipe,
    slots: usize,
    pages: Vec<Vec<u8>>,
}

impl Drop for Reserved<'_> {
    /// What was read goes into the pipe; the slots left are free again.
    fn drop(&mut self) {
        let _step = unfailing();
        let mut state = self.pipe.state.lock();
        state.reserved -= self.slots;
        for page in self.pages.drain(..) {
            state.ring.push_page(page);
        }
        let wake = state.settle();
        drop(state);
        drop(wake);
    }
}

impl End {
    /// Up to `wanted` free slots, at least one; waits for it.
    ///
    /// # Errors
    /// `EPIPE` (nobody reads), `EAGAIN`, `EINTR`.
    fn reserve(&self, wanted: usize, wait: Option<&Sleeper>) -> Result<Reserved<'_>, Errno> {
        let pipe = self.pipe();
        let mut state = pipe.state.lock();
        loop {
            if state.readers == 0 {
                return Err(Errno::EPIPE);
            }
            let room = state.room();
            if room > 0 {
                let slots = room.min(wanted);
                state.reserved += slots;
                return Ok(Reserved {
                    pipe,
                    slots,
                    pages: Vec::new(),
                });
            }
            let sleeper = wait.ok_or(Errno::EAGAIN)?;
            let waited = pipe
                .state
                .wait(state, |state| &mut state.writing, sleeper, None);
            state = waited.map_err(|_| Errno::EINTR)?;
        }
    }

    /// Moves up to `count` bytes of `from`, from offset `start` on, into the pipe: as many as there
    /// is room for, and waits only for the first.
    ///
    /// # Errors
    /// `EPIPE` (nobody reads), `EAGAIN`, `EINTR`, `EINVAL` (`from` has nothing to splice), what
    /// reading it meets.
    pub(crate) fn take_from(
        &self,
        from: &Filp<'_>,
        start: i64,
        count: usize,
        wait: Option<&Sleeper>,
    ) -> Result<usize, Errno> {
        let pages = from.inode()?.kind() == mode::S_IFREG && from.flags() & O_DIRECT == 0;
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
        while done < count && reserved.pages.len() < reserved.slots {
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
                        reserved.pages.push(page);
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
