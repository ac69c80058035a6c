// SPDX-License-Identifier: MIT OR Apache-2.0
//! A worker thread, and the jobs it runs.

use super::{Inner, State};
use crate::carry;
use crate::desk::{Desk, Signal};
use crate::op::{Failed, Op, Outcome};
use crate::perform;
use openpath_abi::Errno;
use openpath_sync::{Ended, Parcel, Sleeper};
use openpath_vfs::{Interrupter, LastFile, OpenFile, Task};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A task that does a call on behalf of another.
pub(crate) struct StandIn {
    pub(crate) task: Task,
    pub(crate) interrupter: Interrupter,
}

impl StandIn {
    /// A stand-in of `task`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn of(task: &Task) -> Result<Self, Errno> {
        let task = task.stand_in()?;
        let interrupter = task.interrupter();
        Ok(Self { task, interrupter })
    }
}

/// A call on its way to a worker and back.
pub(crate) struct Job {
    /// Which request of its ring it is.
    pub(crate) ticket: u32,
    pub(crate) op: Option<Op>,
    /// The files it is about, as they were when it was submitted.
    pub(crate) files: [Option<OpenFile>; 2],
    /// Who makes it; nobody: it is only a word ([`Job::word`]).
    pub(crate) stand_in: Option<StandIn>,
    /// Who is told beside the desk.
    pub(crate) signal: Option<Signal>,
    /// Where it is left. It is not there with the job: else neither would ever go.
    pub(crate) desk: Option<Arc<Desk>>,
    pub(crate) outcome: Option<Outcome>,
    /// What came of its data, if the tree carried it.
    pub(crate) moved: Option<Result<usize, Errno>>,
    /// The file that the tree carried its data for, if nobody else has it any more.
    pub(crate) last: Option<LastFile>,
}

impl Job {
    /// A word to a desk, that one should look at what the request waits for.
    pub(crate) fn word(ticket: u32, desk: &Arc<Desk>) -> Parcel<Self> {
        Parcel::new(Self {
            ticket,
            op: None,
            files: [None, None],
            stand_in: None,
            signal: None,
            desk: Some(Arc::clone(desk)),
            outcome: None,
            moved: None,
            last: None,
        })
    }

    /// Does what is to be done.
    pub(crate) fn run(&mut self) {
        let (Some(op), Some(stand_in)) = (self.op.take(), &self.stand_in) else {
            return;
        };
        let mut files = std::mem::take(&mut self.files);
        let task = &stand_in.task;
        let own = matches!(op, Op::Own(_));
        let moved = self.moved.take();
        let carried = moved.and_then(|moved| Some((moved, files[0].take()?)));
        let call = AssertUnwindSafe(|| match &carried {
            Some((moved, file)) => carry::close(task, op, file, *moved),
            None => perform::perform(task, op, files),
        });
        let outcome = catch_unwind(call).unwrap_or_else(|_| Err(Failed::from(Errno::EIO)));
        if own {
            // What such calls left open, as those do that fail midway, would stay with who goes on
            // to stand in for others.
            let close = AssertUnwindSafe(|| task.close_range(0, u32::MAX, 0));
            let _closed = catch_unwind(close);
        }
        self.outcome = Some(outcome);
        self.last = carried.and_then(|(_, file)| file.put());
    }

    /// As [`Job::run`], and ends what ends with it.
    pub(crate) fn complete(&mut self) {
        self.run();
        let last = AssertUnwindSafe(self.last.take());
        let _panicked = catch_unwind(move || drop(last));
    }

    /// Leaves it at the desk it came from.
    pub(crate) fn deliver(mut job: Parcel<Self>) {
        if let Some(desk) = job.desk.take() {
            desk.deliver(job);
        }
    }
}

/// What a worker thread does until there is nothing to do for long enough.
pub(super) fn work(inner: &Arc<Inner>) {
    let sleeper = Sleeper::default();
    let mut state = inner.state.lock();
    let mut until = None;
    loop {
        if let Some((lane, mut job)) = state.lanes.next() {
            drop(state);
            job.complete();
            state = inner.state.lock();
            // The lane is free before anyone learns that the job is done.
            state.lanes.done(lane);
            drop(state);
            Job::deliver(job);
            until = None;
            state = inner.state.lock();
            continue;
        }
        if state.over {
            break;
        }
        let until = *until.get_or_insert_with(|| Instant::now() + inner.options.idle);
        state.idle += 1;
        let waited = inner.state.wait(
            state,
            |state: &mut State| &mut state.asleep,
            &sleeper,
            Some(until),
        );
        let ended;
        (state, ended) = match waited {
            Ok(state) => (state, None),
            Err((state, why)) => (state, Some(why)),
        };
        state.idle -= 1;
        state.woken = state.woken.saturating_sub(1);
        if ended == Some(Ended::TimedOut) {
            break;
        }
    }
    state.threads -= 1;
    let ends = state.ends.wake_all();
    drop(state);
    drop(ends);
}
