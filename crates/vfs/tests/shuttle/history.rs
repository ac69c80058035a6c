// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records histories of calls on descriptor tables by several threads, and searches for an order of
//! their steps that explains a history.
//!
//! A call takes its steps between its start and its end, each at one moment. A history is right if
//! some order of all steps gives every answer and the final table. No call's first step may come
//! before the end of a call that was over when it began.

use crate::backend::{name, number_at};
use crate::model::{Answer, Call, Next, Progress, Slot, Table, Tables};
use openpath_abi::Errno;
use openpath_abi::fcntl::{F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, O_CLOEXEC, O_RDONLY};
use openpath_vfs::Task;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One call: when it began and ended, and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    call: Call,
    answer: Answer,
    began: u64,
    ended: u64,
}

/// A counter of starts and ends. It is the system's: reading it causes no switch.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes the calls one after the other.
    pub(crate) fn run(&self, task: &Task, calls: &[Call]) -> Vec<Event> {
        let event = |&call| {
            let began = self.tick();
            let answer = make(task, call);
            Event {
                call,
                answer,
                began,
                ended: self.tick(),
            }
        };
        calls.iter().map(event).collect()
    }
}

fn listed(task: &Task) -> Answer {
    let number = |fd: i32| number_at(task, fd).expect("a listed descriptor is open");
    let fds = task.descriptors();
    let files = fds.into_iter().map(|fd| (fd, number(fd))).collect();
    let next = task.open(&name(false, 1), O_RDONLY, 0);
    if let Ok(fd) = next {
        task.close(fd).expect("close");
    }
    Answer::Files(files, next)
}

/// Makes a call.
fn make(task: &Task, call: Call) -> Answer {
    let flag = |on: bool| if on { O_CLOEXEC } else { O_RDONLY };
    let done = |result: Result<(), Errno>| result.map(|()| Answer::Done);
    let answer = match call {
        Call::Open {
            hooked,
            file,
            cloexec,
        } => {
            let opened = task.open(&name(hooked, file), O_RDONLY | flag(cloexec), 0);
            opened.map(Answer::Fd)
        }
        Call::OpenNothing => task.open(b"/nothing", O_RDONLY, 0).map(Answer::Fd),
        Call::Close(fd) => done(task.close(fd)),
        Call::Dup(fd) => task.dup(fd).map(Answer::Fd),
        Call::DupFrom(fd, from) => {
            let fd = task.fcntl(fd, F_DUPFD_CLOEXEC, from as u64);
            fd.map(|fd| Answer::Fd(fd as i32))
        }
        Call::DupTo(old, new, cloexec) => task.dup3(old, new, flag(cloexec)).map(Answer::Fd),
        Call::CloseRange(first, last) => done(task.close_range(first as u32, last as u32, 0)),
        Call::Read(fd) => number_at(task, fd).map(Answer::File),
        Call::SetCloexec(fd, on) => {
            let set = task.fcntl(fd, F_SETFD, u64::from(on));
            set.map(|_| Answer::Done)
        }
        Call::List => Ok(Answer::Fds(task.descriptors())),
        Call::Fork => task.fork().map(|child| listed(&child)),
        Call::Share => task.clone_files().map(|_| Answer::Done),
        Call::Unshare => task.unshare_files().map(|()| listed(task)),
        Call::Exec => task.exec().map(|()| listed(task)),
    };
    answer.unwrap_or_else(Answer::Error)
}

/// The table of a task that no other thread uses now.
pub(crate) fn table(task: &Task) -> Table {
    let slot = |fd: i32| Slot {
        file: number_at(task, fd).expect("a listed descriptor is open"),
        cloexec: task.fcntl(fd, F_GETFD, 0) == Ok(1),
    };
    let fds = task.descriptors();
    fds.into_iter().map(|fd| (fd, slot(fd))).collect()
}

/// A state of the search: the progress of each thread, and the tables.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    threads: Vec<(usize, Progress)>,
    tables: Tables,
}

/// A history to explain.
pub(crate) struct History {
    pub(crate) threads: Vec<Vec<Event>>,
    pub(crate) before: Table,
    pub(crate) after: Table,
    pub(crate) limit: i32,
}

impl History {
    /// # Panics
    /// If no order of steps explains the history.
    pub(crate) fn assert_explained(&self) {
        let begin = State {
            threads: vec![Default::default(); self.threads.len()],
            tables: Tables {
                shared: self.before.clone(),
                own: vec![None; self.threads.len()],
                limit: self.limit,
            },
        };
        let explained = self.search(begin, &mut HashSet::new());
        assert!(explained, "no order explains {self:#?}");
    }

    fn search(&self, at: State, seen: &mut HashSet<State>) -> bool {
        let over = |thread: usize| at.threads[thread].0 == self.threads[thread].len();
        if (0..self.threads.len()).all(over) {
            return at.tables.shared == self.after;
        }
        if !seen.insert(at.clone()) {
            return false;
        }
        (0..self.threads.len()).any(|thread| self.search_from(&at, thread, seen))
    }

    /// Whether the history can be explained if `thread` takes the next step.
    fn search_from(&self, at: &State, thread: usize, seen: &mut HashSet<State>) -> bool {
        let (done, progress) = at.threads[thread];
        let Some(event) = self.threads[thread].get(done) else {
            return false;
        };
        // The first unfinished call of a thread is the first of its calls to end.
        let pending = |other: usize| self.threads[other].get(at.threads[other].0);
        let too_early = |other| pending(other).is_some_and(|p| p.ended < event.began);
        if (0..self.threads.len()).any(too_early) {
            return false;
        }
        let steps = at.tables.step(thread, event.call, progress);
        steps.into_iter().any(|(tables, next)| {
            let mut threads = at.threads.clone();
            match next {
                Next::More(progress) => threads[thread].1 = progress,
                Next::Answer(answer) if answer == event.answer => {
                    threads[thread] = (done + 1, Progress::default());
                }
                Next::Answer(_) => return false,
            }
            self.search(State { threads, tables }, seen)
        })
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "limit {}, before {:?}", self.limit, self.before)?;
        for (thread, events) in self.threads.iter().enumerate() {
            for e in events {
                let (call, answer) = (&e.call, &e.answer);
                writeln!(
                    f,
                    "  {thread}: {:3}..{:3} {call:?} = {answer:?}",
                    e.began, e.ended
                )?;
            }
        }
        write!(f, "  after {:?}", self.after)
    }
}
