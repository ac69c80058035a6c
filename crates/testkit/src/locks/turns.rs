// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the steps of a script in order on several threads. Each thread makes its own calls, and
//! then passes the turn to the thread of the next step.
//!
//! # States
//! A batch is a sequence of steps. It is sent to the threads that take part in it, and is done when
//! its last call is. A thread that takes part and does not have the turn is parked.
//!
//! # Locks
//! The lock of a batch's turn is held to read the turn or to pass it on: over no call and no other
//! lock. The thread that began the batch takes it only when the batch is over.
//!
//! # Rules
//! R1. A thread that makes a call holds no lock meanwhile: a call may wait.
//! R2. `begun` is set before the first call, and `over` after the last one. In a batch of one
//!     thread only a call may sleep between the two: a thread that sleeps then counts as waiting in
//!     its call. So no memory is allocated or freed there, because a thread may sleep until another
//!     one leaves the allocator.

use super::{Answer, Look, Op, Step, Told};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Makes the calls of one thread.
pub(super) trait Caller {
    /// Makes a call that is not a look.
    fn call(&self, op: &Op) -> Answer;

    /// Makes a call.
    fn act(&self, op: &Op) -> Answer {
        match op {
            Op::Look(look) => Ok(self.look(*look)),
            op => self.call(op),
        }
    }

    /// Inspects the locks.
    fn look(&self, look: Look) -> Told {
        Told::Seen(look.ops().map(|op| self.call(&op)).collect())
    }
}

struct Turn {
    /// How many calls are done.
    done: usize,
    answers: Vec<Answer>,
}

/// Calls that several threads make in turn.
pub(super) struct Batch {
    steps: Vec<Step>,
    begun: AtomicBool,
    over: AtomicBool,
    turn: Mutex<Turn>,
    group: Arc<[Thread]>,
    starter: Thread,
}

impl Batch {
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the first call has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// The answers, if all have been given.
    pub(super) fn answers(&self) -> Option<Vec<Answer>> {
        let is_over = self.over.load(Ordering::Acquire);
        is_over.then(|| core::mem::take(&mut self.turn().answers))
    }

    /// Waits for the answers.
    pub(super) fn wait(&self) -> Vec<Answer> {
        loop {
            if let Some(answers) = self.answers() {
                return answers;
            }
            std::thread::park();
        }
    }

    /// Makes this thread's calls until the batch is done.
    fn run_turns(&self, me: usize, caller: &impl Caller) {
        loop {
            let turn = self.turn();
            let rest = self.steps.get(turn.done..).unwrap_or(&[]);
            if rest.first().is_none_or(|step| step.thread != me) {
                let is_over = rest.is_empty();
                drop(turn);
                if is_over {
                    return;
                }
                std::thread::park();
                continue;
            }
            drop(turn);
            let mut answers = Vec::with_capacity(rest.len());
            self.begun.store(true, Ordering::Release);
            // R2
            let own = rest.iter().take_while(|step| step.thread == me);
            answers.extend(own.map(|step| caller.act(&step.op)));
            let next = rest.get(answers.len());
            let mut turn = self.turn();
            turn.done += answers.len();
            turn.answers.append(&mut answers);
            drop(turn);
            if let Some(next) = next {
                self.group[next.thread].unpark();
                continue;
            }
            self.over.store(true, Ordering::Release);
            self.group.iter().for_each(Thread::unpark);
            self.starter.unpark();
            return;
        }
    }
}

/// Takes part in every batch that is received, until the channel closes.
pub(super) fn serve(me: usize, batches: &Receiver<Arc<Batch>>, caller: &impl Caller) {
    for batch in batches {
        batch.run_turns(me, caller);
    }
}

/// A set of threads that run sequences.
pub(super) struct ThreadGroup {
    batches: Vec<Sender<Arc<Batch>>>,
    threads: Arc<[Thread]>,
}

impl ThreadGroup {
    /// Takes serving threads, each with its channel.
    pub(super) fn new(members: Vec<(Sender<Arc<Batch>>, Thread)>) -> Self {
        let (batches, threads): (_, Vec<_>) = members.into_iter().unzip();
        let threads = threads.into();
        Self { batches, threads }
    }

    /// Closes the channels, so that the threads end.
    pub(super) fn close(&mut self) {
        self.batches.clear();
    }

    /// Sends a batch to all threads that take part in it.
    pub(super) fn begin(&self, steps: Vec<Step>) -> Arc<Batch> {
        let turn = Turn {
            done: 0,
            answers: Vec::with_capacity(steps.len()),
        };
        let batch = Arc::new(Batch {
            begun: AtomicBool::new(false),
            over: AtomicBool::new(steps.is_empty()),
            steps,
            turn: Mutex::new(turn),
            group: Arc::clone(&self.threads),
            starter: std::thread::current(),
        });
        for (thread, batches) in self.batches.iter().enumerate() {
            if batch.steps.iter().any(|step| step.thread == thread) {
                // The thread serves until the channels are closed.
                let _served = batches.send(Arc::clone(&batch));
            }
        }
        batch
    }
}
