// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that lock a file.

use super::Ring;
use super::request::Stage;
use crate::locks::LockAsk;
use crate::op::{Done, File, Outcome};
use crate::trace;
use openpath_abi::Errno;
use std::task::Poll;

/// What traces call such an operation, which `io_uring` does not have.
const CODE: u8 = 255;

fn answer(told: Result<(), Errno>) -> Outcome {
    Ok(told.map(|()| Done::default())?)
}

impl Ring {
    /// Asks for a lock, and waits in line if somebody is in the way.
    pub(super) fn lock(&mut self, id: u32, file: File, ask: &LockAsk) {
        let data = self.data_of(id);
        trace::submit(self.id(), CODE, data, true);
        let begun = match self.table_of(Some(file)) {
            Some((task, fd)) => ask.begin(task, fd),
            None => Err(Errno::EBADF),
        };
        let wait = match begun {
            Ok(Some(wait)) => wait,
            told => return self.finish(id, answer(told.map(drop))),
        };
        trace::queue(self.id(), data, None);
        let bell = self.crew.bell(id);
        if let Some(request) = self.requests.get(id) {
            request.stage = Stage::InLine;
            request.line = Some(Box::new((wait, bell)));
        }
        self.look_at_lock(id);
    }

    /// There may be an answer. A word that comes late is of an operation that is done: another one
    /// may have its number, and waits on.
    pub(super) fn look_at_lock(&mut self, id: u32) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let file = request.file;
        let Some(line) = request.line.take() else {
            return;
        };
        let (wait, bell) = &*line;
        let told = match self.table_of(file) {
            Some((task, _)) => task.lock_wait(wait, bell),
            // Nobody would end what is granted.
            None => Poll::Ready(Err(Errno::EBADF)),
        };
        match told {
            Poll::Ready(told) => self.finish(id, answer(told)),
            Poll::Pending => {
                if let Some(request) = self.requests.get(id) {
                    request.line = Some(line);
                }
            }
        }
    }

    /// Waits for a lock no more.
    ///
    /// # Errors
    /// `EALREADY`: it has its answer, which it completes with.
    pub(super) fn leave_line(&mut self, id: u32) -> Result<u64, Errno> {
        let request = self.requests.get(id);
        let line = request.and_then(|request| Some((request.file, request.line.take()?)));
        let told = line.and_then(|(file, line)| match self.table_of(file) {
            Some((task, _)) => task.lock_end(&line.0),
            None => Some(Err(Errno::EBADF)),
        });
        match told {
            Some(told) => {
                self.finish(id, answer(told));
                Err(Errno::EALREADY)
            }
            None => {
                self.finish(id, Err(Errno::ECANCELED.into()));
                Ok(0)
            }
        }
    }
}
