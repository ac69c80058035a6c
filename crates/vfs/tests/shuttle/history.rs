// SPDX-License-Identifier: MIT OR Apache-2.0
//! What threads did and were told, and whether some order of steps explains it.
//!
//! A call takes its steps between its beginning and its end, each at one moment. A history is right
//! if some order of all steps, with no call's first step before the end of a call that was over
//! when it began, gives every answer and the table that is left.

use crate::backend::{name, number_at};
use crate::model::{Call, Next, Progress, Said, Slot, Table, Tables};
use openpath_abi::Errno;
use openpath_abi::fcntl::{F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, O_CLOEXEC, O_RDONLY};
use openpath_vfs::Task;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One call: when it began and ended, and what it said.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    call: Call,
    said: Said,
    began: u64,
    ended: u64,
}

/// Counts beginnings and ends. The system's: nothing is switched by a look at it.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<AtomicU64>);

impl Watch {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Makes the calls one after the other.
    pub(crate) fn run(&self, task: &Task, calls: &[Call]) -> Vec<Event> {
        let event = |&call| {
            let began = self.tick();
            let said = make(task, call);
            Event {
                call,
                said,
                began,
                ended: self.tick(),
            }
        };
        calls.iter().map(event).collect()
    }
}

fn listed(task: &Task) -> Said {
    let number = |fd: i32| number_at(task, fd).expect("a listed descriptor is open");
    let fds = task.descriptors();
    let files = fds.into_iter().map(|fd| (fd, number(fd))).collect();
    let next = task.open(&name(false, 1), O_RDONLY, 0);
    if let Ok(fd) = next {
        task.close(fd).expect("close");
    }
    Said::Files(files, next)
}

/// Makes a call.
fn make(task: &Task, call: Call) -> Said {
    let flag = |on: bool| if on { O_CLOEXEC } else { O_RDONLY };
    let done = |result: Result<(), Errno>| result.map(|()| Said::Done);
    let said = match call {
        Call::Open {
            hooked,
            file,
            cloexec,
        } => {
            let opened = task.open(&name(hooked, file), O_RDONLY | flag(cloexec), 0);
            opened.map(Said::Fd)
        }
        Call::OpenNothing => task.open(b"/nothing", O_RDONLY, 0).map(Said::Fd),
        Call::Close(fd) => done(task.close(fd)),
        Call::Dup(fd) => task.dup(fd).map(Said::Fd),
        Call::DupFrom(fd, from) => {
            let fd = task.fcntl(fd, F_DUPFD_CLOEXEC, from as u64);
            fd.map(|fd| Said::Fd(fd as i32))
        }
        Call::DupTo(old, new, cloexec) => task.dup3(old, new, flag(cloexec)).map(Said::Fd),
        Call::CloseRange(first, last) => done(task.close_range(first as u32, last as u32, 0)),
        Call::Read(fd) => number_at(task, fd).map(Said::File),
        Call::SetCloexec(fd, on) => {
            let set = task.fcntl(fd, F_SETFD, u64::from(on));
            set.map(|_| Said::Done)
        }
        Call::List => Ok(Said::Fds(task.descriptors())),
        Call::Fork => task.fork().map(|child| listed(&child)),
        Call::Share => task.clone_files().map(|_| Said::Done),
        Call::Unshare => task.unshare_files().map(|()| listed(task)),
        Call::Exec => task.exec().map(|()| listed(task)),
    };
    said.unwrap_or_else(Said::Error)
}

/// The table of a task that nobody else uses now.
pub(crate) fn table(task: &Task) -> Table {
    let slot = |fd: i32| Slot {
        file: number_at(task, fd).expect("a listed descriptor is open"),
        cloexec: task.fcntl(fd, F_GETFD, 0) == Ok(1),
    };
    let fds = task.descriptors();
    fds.into_iter().map(|fd| (fd, slot(fd))).collect()
}

/// A place in the search: how far each thread is, and the tables.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    threads: Vec<(usize, Progress)>,
    tables: Tables,
}

/// A history to be explained.
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
        let begin = Place {
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

    fn search(&self, at: Place, seen: &mut HashSet<Place>) -> bool {
        let over = |thread: usize| at.threads[thread].0 == self.threads[thread].len();
        if (0..self.threads.len()).all(over) {
            return at.tables.shared == self.after;
        }
        if !seen.insert(at.clone()) {
            return false;
        }
        (0..self.threads.len()).any(|thread| self.go_on(&at, thread, seen))
    }

    /// Whether the history can be explained with `thread` taking the next step.
    fn go_on(&self, at: &Place, thread: usize, seen: &mut HashSet<Place>) -> bool {
        let (done, progress) = at.threads[thread];
        let Some(event) = self.threads[thread].get(done) else {
            return false;
        };
        // The first call that a thread has not finished is the earliest of its calls to end.
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
                Next::Said(said) if said == event.said => {
                    threads[thread] = (done + 1, Progress::default());
                }
                Next::Said(_) => return false,
            }
            self.search(Place { threads, tables }, seen)
        })
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "limit {}, before {:?}", self.limit, self.before)?;
        for (thread, events) in self.threads.iter().enumerate() {
            for e in events {
                let (call, said) = (&e.call, &e.said);
                writeln!(
                    f,
                    "  {thread}: {:3}..{:3} {call:?} = {said:?}",
                    e.began, e.ended
                )?;
            }
        }
        write!(f, "  after {:?}", self.after)
    }
}
