// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files beside the running kernel, very many of them in one process.
//!
//! A "process" of the kernel is a thread here that has called unshare(2) with `CLONE_FILES`: it has
//! a descriptor table, and so an owner of locks, of its own. The other threads of such a process
//! are spawned by it afterwards. Ours are tasks of one `Vfs`: a fork, and what shares its table.
//!
//! # Shape
//! A [`Script`] is a setup and calls, each by one thread of those; both sides do it in its order,
//! and everything that a call gives is compared. A table begins empty, or with descriptors 0 to 2
//! of one open file of each file, which all processes have in common.
//!
//! # Rules
//! R1. All processes have one number, so of who has a lock is compared only whether it is -1, an
//!     open file's.
//! R2. A script has no call that waits; those are of [`circles`].
//! R3. Descriptors from [`HIDDEN`] on are for looking: no other call is given one.

mod both;
pub mod circles;
mod crew;
pub mod every;
mod kernel;
mod ours;
pub mod part;
pub mod random;
mod text;

use openpath_abi::lock as l;
use openpath_abi::{Errno, Flock};

/// How many files there are.
pub const FILES: i32 = 3;
/// How many bytes each has at first.
const SIZE: usize = 10;
/// The first of the descriptors that are for looking: an open file of each file.
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
    /// fcntl(2) with one of the commands of locks.
    Fcntl(i32, u32, Flock),
    Flock(i32, u32),
    /// What is locked of three files.
    Look(Look),
}

/// Looks at three files by three descriptors: what is in the way of each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The first descriptor.
    pub base: i32,
    /// So many bytes, each by itself, and then the rest.
    pub bytes: i64,
    /// And what flock(2) says; the descriptors have no such lock then, whether they had one or not.
    pub flock: bool,
}

/// A call, and who does it: a thread by its number through all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub who: usize,
    /// What.
    pub op: Op,
}

/// What a call gives.
pub type Answer = Result<Told, Errno>;

/// What a call that succeeds gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A number: a descriptor, a place, or nothing.
    Number(i64),
    /// A lock. R1
    Lock {
        /// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
        kind: i16,
        /// `SEEK_SET` and its kin.
        whence: i16,
        /// The first byte.
        start: i64,
        /// How many.
        len: i64,
        /// Whether it is an open file's.
        of_file: bool,
    },
    /// What was seen, in the order of `Look::ops`.
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
    /// The calls that it is made of.
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

/// Who there is, and what their tables begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// How many threads each process has.
    pub threads: &'static [usize],
    /// Whether tables begin with open files that all have in common.
    pub common: bool,
}

impl Cast {
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

    /// What a thread is called: its process and its number there.
    fn name(&self, who: usize) -> String {
        let process = self.firsts().filter(|first| *first <= who).count() - 1;
        let first = self.firsts().nth(process).unwrap_or(0);
        let letter = char::from(b'a' + u8::try_from(process).unwrap_or(0));
        format!("{letter}{}", who - first + 1)
    }
}

/// What both sides do. See the module head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Who.
    pub cast: Cast,
    /// What a smaller one keeps.
    pub setup: Vec<Step>,
    /// What is done then.
    pub steps: Vec<Step>,
    /// With what who has done a step looks around, each time.
    pub look: Option<Look>,
}

impl Script {
    /// All that is done, and for each call the number of the step that it belongs to.
    fn all(&self) -> Vec<(usize, Step)> {
        let mut all: Vec<_> = self.setup.iter().map(|step| (0, *step)).collect();
        for (at, step) in self.steps.iter().enumerate() {
            all.push((at, *step));
            all.extend(self.look.map(|look| {
                let op = Op::Look(look);
                (at, Step { who: step.who, op })
            }));
        }
        all
    }
}

/// That a setup did what it is for.
///
/// # Errors
/// What did not: nothing that comes after it would say anything.
fn is_set_up(setup: &[Step], answers: &[Answer]) -> Result<(), String> {
    let mut calls = setup.iter().zip(answers);
    let failed = calls.find(|(_, answer)| answer.is_err());
    failed.map_or(Ok(()), |(Step { who, op }, answer)| {
        let said = text::said(answer);
        Err(format!("the setup fails: thread {who}, {op} = {said}"))
    })
}

/// Gives the first thread of each process an open file of each file for looking.
fn hidden(cast: &Cast) -> Vec<Step> {
    let mut steps = Vec::new();
    for who in cast.firsts() {
        for file in 0..FILES {
            // The lowest number, as a table that begins with three has it.
            let low = if cast.common { FILES } else { 0 };
            let ops = [
                Op::Open(file, openpath_abi::fcntl::O_RDWR.bits()),
                Op::Dup2(low, HIDDEN + file),
                Op::Close(low),
            ];
            steps.extend(ops.map(|op| Step { who, op }));
        }
    }
    steps
}
