// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connects a ring or an [`crate::AsyncTask`] to its pool: sends its jobs, recalls and interrupts
//! them, and keeps its lane, proxy tasks and completion mailbox.
//!
//! # Rules
//! R1. A job runs in a proxy task, with the state of the owner's task and the files of its
//!     descriptors, both captured at submission.
//! R2. A proxy task belongs to one job until it is returned. An interrupt that ended no wait is
//!     withdrawn when it is.
//! R3. When a client is dropped, its queued jobs are dropped, and running ones are interrupted:
//!     what they opened is closed with the mailbox.

use crate::backend_io::{restore_buffers, take_buffers};
use crate::direct::DirectTable;
use crate::job::{Job, Mailbox, ProxyTask, SharedWaker};
use crate::locks::LockWaker;
use crate::op::{Failed, File, Op, Outcome};
use crate::perform::buffers_of;
use crate::pool::{LaneId, Pool, TimerId};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_sync::{Message, WaitError, Waiter};
use openpath_vfs::{Interrupter, OpenFile, Task};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// A client of a pool.
pub(crate) struct PoolClient {
    pool: Pool,
    lane: LaneId,
    mailbox: Arc<Mailbox>,
    /// Proxy tasks without a job.
    spare: Vec<ProxyTask>,
    /// What interrupts a job, by its number; as many as ever ran at a time.
    interrupters: Vec<Option<Interrupter>>,
    sleeper: Waiter,
    timer: TimerId,
}

/// Proxy tasks that are kept for later.
const SPARE_MAX: usize = 16;

/// The files of an operation, from the tables of its owner. A close takes its file out.
fn files_of(task: &Task, direct: &DirectTable, op: &Op) -> [Option<OpenFile>; 2] {
    let closes = matches!(op, Op::Close(_));
    let get = |task: &Task, fd| {
        if closes {
            task.take_file(fd)
        } else {
            task.file(fd)
        }
        .ok()
    };
    match op.file() {
        Some(File::Fd(fd)) => [get(task, fd), None],
        Some(File::Slot(slot)) => {
            let file = direct.task().zip(direct.fd(slot));
            [file.and_then(|(task, fd)| get(task, fd)), None]
        }
        None => op.dirs().map(|dir| {
            let dir = dir.filter(|&dir| dir != AT_FDCWD);
            dir.and_then(|dir| task.file(dir).ok())
        }),
    }
}

impl PoolClient {
    /// A client with at most `workers` of the pool at a time.
    pub(crate) fn new(pool: &Pool, workers: Option<usize>) -> Self {
        Self {
            pool: pool.clone(),
            lane: pool.new_lane(workers),
            mailbox: Arc::default(),
            spare: Vec::new(),
            interrupters: Vec::new(),
            sleeper: Waiter::default(),
            timer: TimerId::default(),
        }
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// A proxy task with the present state of `task`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn proxy(&mut self, task: &Task) -> Result<ProxyTask, Errno> {
        match self.spare.pop() {
            Some(spare) => {
                task.update_proxy(&spare.task)?;
                Ok(spare)
            }
            None => ProxyTask::of(task),
        }
    }

    /// Takes a proxy task back (R2).
    pub(crate) fn return_proxy(&mut self, proxy: ProxyTask) {
        let _stale = proxy.interrupter.withdraw();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(proxy);
        }
    }

    /// Has the backend do a call, or queues it for the workers.
    ///
    /// # Errors
    /// `ENOMEM` (no proxy task), `EAGAIN` (no thread).
    pub(crate) fn send(
        &mut self,
        task: &Task,
        direct: &DirectTable,
        ticket: u32,
        op: Op,
        waker: Option<SharedWaker>,
    ) -> Result<(), Failed> {
        let proxy = match self.proxy(task) {
            Ok(proxy) => proxy,
            Err(errno) => {
                let returned = buffers_of(op);
                return Err(Failed { errno, returned });
            }
        };
        let interrupter = proxy.interrupter.clone();
        let job = Job {
            ticket,
            files: files_of(task, direct, &op),
            op: Some(op),
            proxy: Some(proxy),
            waker,
            mailbox: Some(Arc::clone(&self.mailbox)),
            outcome: None,
            io_result: None,
            last: None,
        };
        let at = ticket as usize;
        if at >= self.interrupters.len() {
            self.interrupters.resize_with(at + 1, || None);
        }
        self.interrupters[at] = Some(interrupter);
        let queued = start_backend_io(&self.pool, Message::new(job))
            .or_else(|job| self.pool.put(self.lane, job));
        queued.map_err(|job| self.refuse(job, Errno::EAGAIN))
    }

    /// Ends a job that no worker has.
    fn refuse(&mut self, job: Message<Job>, errno: Errno) -> Failed {
        let job = job.open();
        self.interrupters[job.ticket as usize] = None;
        let returned = job.op.map(buffers_of).unwrap_or_default();
        if let Some(proxy) = job.proxy {
            self.return_proxy(proxy);
        }
        Failed { errno, returned }
    }

    /// Recalls a job that no worker has begun, as if cancelled.
    pub(crate) fn recall(&mut self, ticket: u32) -> Option<Failed> {
        let job = self.pool.recall(self.lane, ticket)?;
        Some(self.refuse(job, Errno::ECANCELED))
    }

    /// Interrupts a job that a worker has.
    pub(crate) fn interrupt(&self, ticket: u32) {
        if let Some(Some(interrupter)) = self.interrupters.get(ticket as usize) {
            interrupter.interrupt();
        }
    }

    /// Whether nothing has come back since the last call.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.mailbox.inbox.is_empty()
    }

    /// Passes on what has come back: the result of a job, or `None` for a lock event
    /// ([`Job::lock_event`]).
    pub(crate) fn returned(&mut self, mut each: impl FnMut(u32, Option<Outcome>)) {
        for job in self.mailbox.inbox.take() {
            let job = job.open();
            let Some(proxy) = job.proxy else {
                each(job.ticket, None);
                continue;
            };
            self.interrupters[job.ticket as usize] = None;
            self.return_proxy(proxy);
            let outcome = job.outcome.unwrap_or_else(|| Err(Errno::EIO.into()));
            each(job.ticket, Some(outcome));
        }
    }

    /// Wakes the owner when the lock of a request may be granted.
    pub(crate) fn lock_waker(&self, ticket: u32) -> Waker {
        LockWaker::waker(Job::lock_event(ticket, &self.mailbox))
    }

    /// Sleeps until something comes back.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Result<(), WaitError> {
        self.mailbox.sleep(&self.sleeper, until)
    }

    /// Ends the sleep of the owner, as a signal does.
    pub(crate) fn sleeper(&self) -> &Waiter {
        &self.sleeper
    }

    /// Has the owner notified at `at`, wherever it waits.
    pub(crate) fn set_timer(&mut self, at: Option<Instant>) {
        self.pool.set_timer(&mut self.timer, &self.mailbox, at);
    }
}

/// Has the backend move the data of a job.
///
/// # Errors
/// The job, unchanged, for a worker.
pub(crate) fn start_backend_io(pool: &Pool, mut job: Message<Job>) -> Result<(), Message<Job>> {
    let it = &mut *job;
    let (Some(op), Some(proxy)) = (&mut it.op, &it.proxy) else {
        return Err(job);
    };
    let [Some(file), None] = &it.files else {
        return Err(job);
    };
    let Some((request, offset)) = take_buffers(op) else {
        return Err(job);
    };
    let Some(operation) = proxy.task.prepare_io(file, &request, offset) else {
        restore_buffers(op, request);
        return Err(job);
    };
    let completions = pool.completions();
    operation.begin(request, move |request, io_result| {
        let may_wait = request.may_wait(&io_result);
        if let Some(op) = &mut job.op {
            restore_buffers(op, request);
        }
        job.io_result = Some(io_result);
        if !may_wait {
            job.run();
            if job.last.is_none() {
                return Job::deliver(job);
            }
        }
        if let Err(mut job) = completions.put(job) {
            job.complete();
            Job::deliver(job);
        }
    });
    Ok(())
}

impl Drop for PoolClient {
    /// R3
    fn drop(&mut self) {
        self.set_timer(None);
        self.mailbox.set_hook(None);
        let queued = self.pool.end_lane(self.lane);
        drop(queued);
        for interrupter in self.interrupters.iter().flatten() {
            interrupter.interrupt();
        }
    }
}
