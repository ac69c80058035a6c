// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares file locks of openpath with those of the running kernel: very many scripts of lock
//! calls run on both, within one process.
//!
//! A "process" of the kernel is a thread here that has called unshare(2) with `CLONE_FILES`: it has
//! a descriptor table, and so a lock owner, of its own. It then spawns the other threads of that
//! process. Ours are tasks of one `Vfs`: a fork, and tasks that share its table.
//!
//! # Shape
//! A [`Script`] is a setup and calls, each by one of those threads; both sides run it in order, and
//! every result of a call is compared. A table begins empty, or with descriptors 0 to 2 on one open
//! file of each file, which all processes share.
//!
//! # Rules
//! R1. All processes have one pid, so of a lock's owner only whether it is -1, an open file's, is
//!     compared.
//! R2. A script has no call that waits; those are in [`circles`].
//! R3. Descriptors from [`HIDDEN`] on are for inspection: no other call gets one.

mod both;
pub mod circles;
pub mod every;
mod kernel;
mod ours;
pub mod part;
pub mod random;
mod text;
mod turns;

use openpath_abi::lock as l;
use openpath_abi::{Errno, Flock};

/// How many files there are.
pub const FILES: i32 = 3;
/// The initial size of each file.
const SIZE: usize = 10;
/// The first descriptor for inspection: an open file of each file.
pub const HIDDEN: i32 = 20;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the call of its name")]
pub enum Op {
    /// open(2) of a file, with flags.
    Open(i32, u32),
    Close(i32),
    CloseRange(u32, u32),
    Dup(i32),
    Dup2(i32, i32),
    Seek(i32, i64),
    Truncate(i32, i64),
    /// fcntl(2) with one of the lock commands.
    Fcntl(i32, u32, Flock),
    Flock(i32, u32),
    /// An inspection of the locks of three files.
    Look(Look),
}

/// Inspects three files by three descriptors: the lock that conflicts at each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The first descriptor.
    pub base: i32,
    /// How many bytes to test one by one; then the rest.
    pub bytes: i64,
    /// Whether to ask flock(2) too; the descriptors have no such lock afterwards, even if they had
    /// one.
    pub flock: bool,
}

/// A call, and the thread that makes it, numbered through all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread.
    pub thread: usize,
    /// The call.
    pub op: Op,
}

/// The result of a call.
pub type Answer = Result<Told, Errno>;

/// The result of a call that succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A number: a descriptor, a position, or 0.
    Number(i64),
    /// A lock. R1
    Lock {
        /// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
        kind: i16,
        /// `SEEK_SET` and the like.
        whence: i16,
        /// The first byte.
        start: i64,
        /// How many bytes.
        len: i64,
        /// Whether the owner is an open file.
        of_file: bool,
    },
    /// What an inspection found, in the order of `Look::ops`.
    Seen(Vec<Answer>),
}

impl Told {
    fn lock(lock: &Flock) -> Self {
        Self::Lock {
            kind: lock.kind,
            whence: lock.whence,
            start: lock.start,
            len: lock.len,
            of_file: lock.pid == -1,
        }
    }
}

impl Look {
    /// The calls of an inspection.
    fn ops(self) -> impl Iterator<Item = Op> {
        let fds = self.base..self.base + FILES;
        fds.flat_map(move |fd| {
            let each = (0..=self.bytes).map(move |at| (at, i64::from(at < self.bytes)));
            let write = each.map(|(at, len)| Flock::new(l::F_WRLCK, at, len));
            let asks = write.chain([Flock::new(l::F_RDLCK, 0, 0)]);
            let tests = asks.flat_map(move |ask| {
                [l::F_GETLK, l::F_OFD_GETLK].map(|call| Op::Fcntl(fd, call, ask))
            });
            let tried = [l::LOCK_EX | l::LOCK_NB, l::LOCK_SH | l::LOCK_NB, l::LOCK_UN];
            let tried = tried.into_iter().filter(move |_| self.flock);
            tests.chain(tried.map(move |op| Op::Flock(fd, op)))
        })
    }
}

/// The processes and their threads, and what their tables begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How many threads each process has.
    pub threads: &'static [usize],
    /// Whether tables begin with open files that all processes share.
    pub common: bool,
}

impl Layout {
    /// How many threads there are in all.
    #[must_use]
    pub fn count(&self) -> usize {
        self.threads.iter().sum()
    }

    /// The number of the first thread of each process.
    pub fn firsts(&self) -> impl Iterator<Item = usize> {
        let before = |at| self.threads[..at].iter().sum();
        (0..self.threads.len()).map(before)
    }

    /// The name of a thread: its process and its number there.
    fn name(&self, thread: usize) -> String {
        let process = self.firsts().filter(|first| *first <= thread).count() - 1;
        let first = self.firsts().nth(process).unwrap_or(0);
        let call = char::from(b'a' + u8::try_from(process).unwrap_or(0));
        format!("{call}{}", thread - first + 1)
    }
}

/// The input of both sides. See the module head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The processes.
    pub layout: Layout,
    /// The calls that shrinking keeps.
    pub setup: Vec<Step>,
    /// The calls after the setup.
    pub steps: Vec<Step>,
    /// The inspection that the calling thread makes after each step.
    pub look: Option<Look>,
}

impl Script {
    /// All calls, each with the number of its step.
    fn all(&self) -> Vec<(usize, Step)> {
        let mut all: Vec<_> = self.setup.iter().map(|step| (0, *step)).collect();
        for (at, step) in self.steps.iter().enumerate() {
            all.push((at, *step));
            all.extend(self.look.map(|look| {
                let op = Op::Look(look);
                (
                    at,
                    Step {
                        thread: step.thread,
                        op,
                    },
                )
            }));
        }
        all
    }
}

/// Checks that a setup succeeded.
///
/// # Errors
/// The call that failed: nothing after it would have a meaning.
fn is_set_up(setup: &[Step], answers: &[Answer]) -> Result<(), String> {
    let mut calls = setup.iter().zip(answers);
    let failed = calls.find(|(_, answer)| answer.is_err());
    failed.map_or(Ok(()), |(Step { thread, op }, answer)| {
        let said = text::said(answer);
        Err(format!("the setup fails: thread {thread}, {op} = {said}"))
    })
}

/// Gives the first thread of each process an open file of each file for inspection.
fn hidden(layout: &Layout) -> Vec<Step> {
    let mut steps = Vec::new();
    for thread in layout.firsts() {
        for file in 0..FILES {
            // The lowest free number in a table that begins with three.
            let low = if layout.common { FILES } else { 0 };
            let ops = [
                Op::Open(file, openpath_abi::fcntl::O_RDWR.bits()),
                Op::Dup2(low, HIDDEN + file),
                Op::Close(low),
            ];
            steps.extend(ops.map(|op| Step { thread, op }));
        }
    }
    steps
}
