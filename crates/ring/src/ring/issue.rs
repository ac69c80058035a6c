// SPDX-License-Identifier: MIT OR Apache-2.0
//! Issues operations of a ring, inline or to a worker, and posts their completions.
//!
//! # Kernel analogue
//! `io_issue_sqe`, `io_queue_iowq`, `io_req_complete_post`.

use super::request::{Request, Stage};
use super::{Ready, Ring};
use crate::attempt::{self, Attempted};
use crate::cqe::Cqe;
use crate::op::{Destination, Done, Failed, File, Op, Outcome};
use crate::perform::buffers_of;
use crate::sqe::{Work, sflag};
use crate::trace;
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CLOEXEC, O_RDONLY};
use openpath_vfs::{Fd, Reason, Task};

/// The result of an inline attempt.
pub(super) enum OpAttempt {
    Answered(Outcome),
    WouldBlock(Op, Option<Reason>),
}

impl Ring {
    /// Begins an operation.
    pub(super) fn start(&mut self, id: u32) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let Some(work) = request.work.take() else {
            return;
        };
        self.arm_linked_timeout(id);
        match work {
            Work::Nop => self.finish(id, Ok(Done::default())),
            Work::Call(op) => self.issue(id, op),
            Work::ReadMany(file, len) => self.read_many(id, file, len),
            Work::Timeout(time) => self.start_timer(id, time),
            // Valid only behind the operation that it can cancel, which starts it.
            Work::LinkTimeout(_) => self.finish(id, Err(Errno::EINVAL.into())),
            Work::TimeoutRemove(of) => {
                let removed = self.remove_timer(of);
                self.finish(id, answer(removed));
            }
            Work::TimeoutUpdate(of, after) => {
                let updated = self.update_timer(of, after);
                self.finish(id, answer(updated));
            }
            Work::Cancel(which, all) => {
                let cancelled = self.cancel(id, which, all);
                self.finish(id, answer(cancelled));
            }
            Work::Install(slot, cloexec) => {
                let file = self.direct.file(slot);
                let flags = if cloexec { O_CLOEXEC } else { O_RDONLY };
                let fd = file.and_then(|file| self.task.install(&file, flags));
                self.finish(id, fd.map(Done::installed).map_err(Into::into));
            }
            Work::Lock(file, request_) => self.lock(id, file, &request_),
            Work::FilesUpdate(fd, place) => {
                let kept = self.store_fd(fd, place);
                self.finish(id, answer(kept));
            }
        }
    }

    /// Answers a call inline, or sends it to a worker.
    fn issue(&mut self, id: u32, op: Op) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let (flags, data) = (request.flags, request.user_data);
        let opens = matches!(op, Op::Open(..));
        let file = op.file().filter(|_| !matches!(op, Op::Close(_)));
        let writes = op.writes();
        let attempted = flags & sflag::ASYNC == 0 && self.options.inline;
        trace::submit(self.id(), op.code(), data, attempted);
        let (op, why) = match self.attempt(op, attempted) {
            OpAttempt::Answered(mut outcome) => {
                if opens {
                    self.task.count_open(false);
                }
                if let Err(failed) = &mut outcome
                    && self.is_closed(file, writes)
                {
                    failed.errno = Errno::EBADF;
                }
                return self.finish(id, outcome);
            }
            OpAttempt::WouldBlock(op, why) => (op, why),
        };
        if opens {
            self.task.count_open(true);
        }
        trace::queue(self.id(), data, why);
        self.send(id, op);
    }

    /// Sends a call to a worker.
    fn send(&mut self, id: u32, op: Op) {
        if self.is_closed(op.file(), op.writes()) {
            let (errno, returned) = (Errno::EBADF, buffers_of(op));
            return self.finish(id, Err(Failed { errno, returned }));
        }
        if let Some(request) = self.requests.get(id) {
            request.stage = Stage::Offloaded(false);
        }
        let sent = self.client.send(&self.task, &self.direct, id, op, None);
        if let Err(failed) = sent {
            self.finish(id, Err(failed));
        }
    }

    /// Attempts a call inline.
    fn attempt(&mut self, mut op: Op, wanted: bool) -> OpAttempt {
        if let Op::Close(File::Slot(slot)) = op
            && let Err(errno) = self.check_slot(slot)
        {
            return OpAttempt::Answered(Err(errno.into()));
        }
        if !wanted {
            return OpAttempt::WouldBlock(op, None);
        }
        if matches!(&op, Op::Open(_, _, into) if *into != Destination::Fd) {
            return self.open_into_slot(op);
        }
        let Some((task, fd)) = self.table_of(op.file()) else {
            return OpAttempt::Answered(Err(Errno::EBADF.into()));
        };
        if let Some(moved) = attempt::move_data(task, fd, &mut op) {
            return OpAttempt::Answered(moved);
        }
        match attempt::attempt(task, fd, &mut op) {
            Attempted::Answered(answer) => OpAttempt::Answered(answer.map_err(Into::into)),
            Attempted::WouldBlock(why) => OpAttempt::WouldBlock(op, why),
        }
    }

    /// The task and descriptor of a file; the owner's task for a path.
    pub(super) fn table_of(&self, file: Option<File>) -> Option<(&Task, Fd)> {
        match file {
            None => Some((&self.task, -1)),
            Some(File::Fd(fd)) => Some((&self.task, fd)),
            Some(File::Slot(slot)) => self.direct.task().zip(self.direct.fd(slot)),
        }
    }

    /// Reads once more from a stream, and posts the result.
    fn read_many(&mut self, id: u32, file: File, len: usize) {
        let again = Work::ReadMany(file, len);
        let Some(request) = self.requests.get(id) else {
            return;
        };
        request.work = Some(again);
        let inline = request.flags & sflag::ASYNC == 0 && self.options.inline;
        let op = Op::Read(file, vec![0; len], -1);
        trace::submit(self.id(), op.code(), self.data_of(id), inline);
        match self.attempt(op, inline) {
            OpAttempt::Answered(outcome) => self.finish(id, outcome),
            OpAttempt::WouldBlock(op, why) => {
                trace::queue(self.id(), self.data_of(id), why);
                self.send(id, op);
            }
        }
    }

    pub(super) fn data_of(&mut self, id: u32) -> u64 {
        self.requests.get(id).map_or(0, |request| request.user_data)
    }

    /// A job came back.
    pub(super) fn returned(&mut self, id: u32, outcome: Outcome) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let asked = request.stage == Stage::Offloaded(true);
        let outcome = match outcome {
            Err(mut failed) if asked && failed.errno == Errno::EINTR => {
                failed.errno = Errno::ECANCELED;
                Err(failed)
            }
            outcome => outcome,
        };
        if asked {
            // It is not repeated.
            request.work = None;
        }
        self.finish(id, outcome);
    }

    /// Posts the result of an operation, and begins those that waited for it.
    pub(super) fn finish(&mut self, id: u32, outcome: Outcome) {
        if self.is_repeated(id, &outcome) {
            let data = self.data_of(id);
            self.post(data, outcome, true);
            if let Some(request) = self.requests.get(id) {
                request.stage = Stage::Held;
            }
            self.runnable.push_back(id);
            return;
        }
        let Some(request) = self.requests.remove(id) else {
            return;
        };
        self.forget_timer(id, &request);
        let is_timer = request.deadline.is_some();
        let etime_is_fine = is_timer && is_success(&request);
        let outcome = self.install_opened(request.into, outcome);
        let failed = match &outcome {
            Ok(done) => done.short,
            Err(failed) => !(etime_is_fine && failed.errno == Errno::ETIME),
        };
        self.leave_barrier(&request);
        let silent = request.flags & sflag::SKIP != 0;
        if !silent || failed {
            self.post(request.user_data, outcome, false);
            if is_timer {
                self.posted -= 1;
            }
        }
        self.cancel_linked_timeout(request.linked_timeout);
        let broken = failed && request.flags & sflag::HARDLINK == 0;
        self.continue_chain(request.next, broken, silent);
    }

    /// Whether a repeated operation goes on.
    fn is_repeated(&mut self, id: u32, outcome: &Outcome) -> bool {
        let some = matches!(outcome, Ok(done) if done.result > 0);
        let room = self.has_room(1);
        let request = self.requests.get(id);
        some && room
            && request.is_some_and(|request| matches!(request.work, Some(Work::ReadMany(..))))
    }

    /// Installs the file that was opened (R3 of the module); without a free descriptor or slot it
    /// is closed.
    fn install_opened(&mut self, into: Destination, outcome: Outcome) -> Outcome {
        let mut done = outcome?;
        let Some((file, cloexec)) = done.opened.take() else {
            return Ok(done);
        };
        if into != Destination::Fd {
            return answer(self.store_opened(into, &file));
        }
        let flags = if cloexec { O_CLOEXEC } else { O_RDONLY };
        Ok(self.task.install(&file, flags).map(Done::installed)?)
    }

    /// Posts a completion; the caller has made sure that there is room.
    pub(super) fn post(&mut self, user_data: u64, outcome: Outcome, more: bool) {
        let (result, output, installed) = match outcome {
            Ok(done) => (Ok(done.result), done.output, done.installed),
            Err(failed) => (Err(failed.errno), failed.returned.into(), None),
        };
        trace::complete(self.id(), user_data, result);
        let cqe = Cqe {
            user_data,
            result,
            output,
            more,
        };
        self.posted += 1;
        self.completions.push_back(Ready { cqe, installed });
    }
}

/// Whether expiry is a success for the chain.
fn is_success(request: &Request) -> bool {
    matches!(&request.work, Some(Work::Timeout(time)) if time.is_success)
}

/// The result of an operation that returns a number.
fn answer(result: Result<u64, Errno>) -> Outcome {
    Ok(Done::of(result?))
}
