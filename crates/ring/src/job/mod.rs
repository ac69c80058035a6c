// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a job, which takes a call to a worker and brings its result back, and the proxy task in
//! which the worker makes the call.

mod mailbox;

pub(crate) use mailbox::{Mailbox, SharedWaker};

use crate::backend_io;
use crate::op::{Failed, Op, Outcome};
use crate::perform;
use openpath_abi::Errno;
use openpath_sync::Message;
use openpath_vfs::{Interrupter, LastFile, OpenFile, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A task that makes a call on behalf of another: file table and credentials are captured at
/// submission.
pub(crate) struct ProxyTask {
    pub(crate) task: Task,
    pub(crate) interrupter: Interrupter,
}

impl ProxyTask {
    /// A proxy of `task`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn of(task: &Task) -> Result<Self, Errno> {
        let task = task.proxy_task()?;
        let interrupter = task.interrupter();
        Ok(Self { task, interrupter })
    }
}

/// A call on its way to a worker and back.
pub(crate) struct Job {
    /// The number of its request.
    pub(crate) ticket: u32,
    pub(crate) op: Option<Op>,
    /// The files of the call, captured at submission.
    pub(crate) files: [Option<OpenFile>; 2],
    /// The task that makes the call; none in a lock event ([`Job::lock_event`]).
    pub(crate) proxy: Option<ProxyTask>,
    /// The waker of its future, if it has one.
    pub(crate) waker: Option<SharedWaker>,
    /// The mailbox it returns to. While the job is in the mailbox this is `None`: two references to
    /// each other would leak both.
    pub(crate) mailbox: Option<Arc<Mailbox>>,
    pub(crate) outcome: Option<Outcome>,
    /// The result of moving its data, if the backend did that.
    pub(crate) io_result: Option<Result<usize, Errno>>,
    /// The file of its data, if this was the last reference to it.
    pub(crate) last: Option<LastFile>,
}

impl Job {
    /// A message to the owner to poll the lock that a request waits for.
    pub(crate) fn lock_event(ticket: u32, mailbox: &Arc<Mailbox>) -> Message<Self> {
        Message::new(Self {
            ticket,
            op: None,
            files: [None, None],
            proxy: None,
            waker: None,
            mailbox: Some(Arc::clone(mailbox)),
            outcome: None,
            io_result: None,
            last: None,
        })
    }

    /// Makes the call.
    pub(crate) fn run(&mut self) {
        let (Some(op), Some(proxy)) = (self.op.take(), &self.proxy) else {
            return;
        };
        let mut files = std::mem::take(&mut self.files);
        let task = &proxy.task;
        let is_custom = matches!(op, Op::Custom(_));
        let io_result = self.io_result.take();
        let backend_done = io_result.and_then(|io_result| Some((io_result, files[0].take()?)));
        let call = AssertUnwindSafe(|| match &backend_done {
            Some((io_result, file)) => backend_io::complete(task, op, file, *io_result),
            None => perform::perform(task, op, files),
        });
        let outcome = catch_unwind(call).unwrap_or_else(|_| Err(Failed::from(Errno::EIO)));
        if is_custom {
            // Descriptors that such calls left open, as after an error, would stay in a proxy task
            // that is used again.
            let close = AssertUnwindSafe(|| task.close_range(0, u32::MAX, 0));
            let _closed = catch_unwind(close);
        }
        self.outcome = Some(outcome);
        self.last = backend_done.and_then(|(_, file)| file.put());
    }

    /// As [`Job::run`], and releases the file of its data.
    pub(crate) fn complete(&mut self) {
        self.run();
        let last = AssertUnwindSafe(self.last.take());
        let _panicked = catch_unwind(move || drop(last));
    }

    /// Posts the job to its mailbox.
    pub(crate) fn deliver(mut job: Message<Self>) {
        if let Some(mailbox) = job.mailbox.take() {
            mailbox.post(job);
        }
    }
}
