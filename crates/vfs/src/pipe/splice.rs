// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reserves slots of a pipe for sendfile(2), before it reads the file whose pages fill them.
//!
//! # Kernel analogue
//! `wait_for_space`.

use super::Pipe;
use super::end::PipeEnd;
use openpath_abi::Errno;
use openpath_sync::{Waiter, no_fault_injection};

/// Reserved slots, about to be filled.
pub(crate) struct ReservedSlots<'a> {
    pipe: &'a Pipe,
    slots: usize,
    pages: Vec<Vec<u8>>,
}

impl ReservedSlots<'_> {
    /// Whether there is a slot for one more page.
    pub(crate) fn has_room(&self) -> bool {
        self.pages.len() < self.slots
    }

    /// Fills a slot.
    pub(crate) fn push(&mut self, page: Vec<u8>) {
        self.pages.push(page);
    }
}

impl Drop for ReservedSlots<'_> {
    /// Puts the filled slots into the pipe, and frees the others.
    fn drop(&mut self) {
        let _step = no_fault_injection();
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

impl PipeEnd {
    /// Up to `wanted` free slots, at least one; waits for it.
    ///
    /// # Errors
    /// `EPIPE` (no readers), `EAGAIN`, `EINTR`.
    pub(crate) fn reserve(
        &self,
        wanted: usize,
        wait: Option<&Waiter>,
    ) -> Result<ReservedSlots<'_>, Errno> {
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
                return Ok(ReservedSlots {
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
}
