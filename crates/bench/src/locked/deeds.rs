// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock and its end, beside the host kernel.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_abi::lock::{
    F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_UN,
};
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, Task, Vfs};

use crate::error::Error;
use crate::harness::{Effort, Steal};
use crate::host::{Host, Root};
use crate::row::Row;
use crate::stats::Samples;
use crate::team::{Make, Team, counts};
use crate::{Ask, ours, sys};

/// Which lock.
#[derive(Clone, Copy)]
enum Kind {
    Posix,
    Ofd,
    Flock,
}

const KINDS: [(Kind, &str); 3] = [
    (Kind::Posix, "posix"),
    (Kind::Ofd, "ofd"),
    (Kind::Flock, "flock"),
];

const ALONE: Flock = Flock::new(F_WRLCK, 0, 0);
const NONE: Flock = Flock::new(F_UNLCK, 0, 0);
const FILE: &std::ffi::CStr = c"/locked.data";

impl Kind {
    #[inline(always)]
    fn ours(self, task: &Task, fd: Fd, waits: bool) -> Result<(), Errno> {
        match (self, waits) {
            (Kind::Posix, false) => task.fcntl_setlk(fd, &ALONE)?,
            (Kind::Posix, true) => task.fcntl_setlkw(fd, &ALONE)?,
            (Kind::Ofd, false) => task.ofd_setlk(fd, &ALONE)?,
            (Kind::Ofd, true) => task.ofd_setlkw(fd, &ALONE)?,
            (Kind::Flock, false) => task.flock(fd, LOCK_EX | LOCK_NB)?,
            (Kind::Flock, true) => task.flock(fd, LOCK_EX)?,
        }
        match self {
            Kind::Posix => task.fcntl_setlk(fd, &NONE),
            Kind::Ofd => task.ofd_setlk(fd, &NONE),
            Kind::Flock => task.flock(fd, LOCK_UN),
        }
    }

    #[inline(always)]
    fn host(self, fd: i32, waits: bool) -> bool {
        let locked = match (self, waits) {
            (Kind::Posix, false) => sys::lock_range(fd, F_SETLK, true),
            (Kind::Posix, true) => sys::lock_range(fd, F_SETLKW, true),
            (Kind::Ofd, false) => sys::lock_range(fd, F_OFD_SETLK, true),
            (Kind::Ofd, true) => sys::lock_range(fd, F_OFD_SETLKW, true),
            (Kind::Flock, false) => sys::flock(fd, LOCK_EX | LOCK_NB),
            (Kind::Flock, true) => sys::flock(fd, LOCK_EX),
        };
        locked
            && match self {
                Kind::Posix => sys::lock_range(fd, F_SETLK, false),
                Kind::Ofd => sys::lock_range(fd, F_OFD_SETLK, false),
                Kind::Flock => sys::flock(fd, LOCK_UN),
            }
    }
}

/// The rows that are wanted.
///
/// # Errors
/// As [`super::run`].
pub(super) fn rows(ask: &Ask, steal: &Steal) -> Result<Vec<Row>, Error> {
    let threads = counts().into_iter().max().unwrap_or(1);
    let names = KINDS.map(|(_, word)| {
        let in_turn = format!("locks {word}, {threads}T in turn, tmpfs");
        [format!("locks {word}, tmpfs"), in_turn]
    });
    if !ask.wants_any(names.as_flattened()) {
        return Ok(Vec::new());
    }
    let host = Host::new()?;
    let vfs = ours::instance()?;
    ours::touch(&ours::task(&vfs)?, FILE.to_bytes())?;
    let mut rows = Vec::new();
    for ((kind, _), [alone, turns]) in KINDS.into_iter().zip(&names) {
        if ask.wants(alone) {
            let mut team = Team::default();
            team.add(alone, vec![ours(kind, &vfs, false)?]);
            team.add(alone, vec![theirs(kind, &host.tmpfs, false)]);
            let samples = team.run(&[1], ask.effort, steal)?;
            rows.push(Row::faster(alone, &samples[0][0], "tmpfs", &samples[1][0]));
        }
        if ask.wants(turns) && threads > 1 {
            let [own, peer] = in_turn(kind, &vfs, &host.tmpfs, threads, ask.effort)?;
            let row = Row::faster(turns, &own, "tmpfs", &peer);
            rows.push(row.with_note("by wall time: they sleep"));
        }
    }
    host.leave()?;
    Ok(rows)
}

/// What all of several threads take for a lock and its end, by the wall's clock: they wait for each
/// other, so none of them has a window of its own.
fn in_turn(
    kind: Kind,
    vfs: &Vfs,
    root: &Root,
    threads: usize,
    effort: Effort,
) -> Result<[Samples; 2], Error> {
    let begun = Instant::now();
    let mut taken = [Vec::new(), Vec::new()];
    for round in 0..effort.rounds {
        if round > 0 && begun.elapsed() > effort.time {
            break;
        }
        let own = (0..threads).map(|_| ours(kind, vfs, true));
        taken[0].push(together(own.collect::<Result<_, _>>()?)?);
        let peer = (0..threads).map(|_| theirs(kind, root, true));
        taken[1].push(together(peer.collect())?);
    }
    Ok(taken.map(|taken| Samples::new(taken, 0)))
}

/// How many operations each does in [`together`].
const TURNS: u64 = 500;

/// Nanoseconds per operation of all of them, begun at once.
fn together(makes: Vec<Make<'_>>) -> Result<f64, Error> {
    let all = makes.len();
    let gate = Barrier::new(all + 1);
    let (wall, done) = thread::scope(|scope| {
        let workers: Vec<_> = makes
            .into_iter()
            .map(|make| {
                let gate = &gate;
                scope.spawn(move || {
                    let burst = make();
                    gate.wait();
                    burst.map(|mut burst| burst(TURNS))
                })
            })
            .collect();
        gate.wait();
        let begun = Instant::now();
        let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        (begun.elapsed(), done)
    });
    for worker in done {
        let wrong = worker.map_err(|_| Error::Setup("a measuring thread ended".to_owned()))??;
        if wrong != 0 {
            return Err(Error::Wrong(format!("{wrong} locks in turn")));
        }
    }
    Ok(wall.as_nanos() as f64 / (TURNS * all as u64) as f64)
}

fn ours<'a>(kind: Kind, vfs: &Vfs, waits: bool) -> Result<Make<'a>, Error> {
    let task = ours::task(vfs)?;
    Ok(Box::new(move || {
        let fd = task.open(FILE.to_bytes(), O_RDWR, 0);
        let fd = fd.map_err(|e| Error::setup("open the file to lock", e))?;
        Ok(Box::new(move |ops| {
            let wrong = |_: &u64| kind.ours(&task, fd, waits).is_err();
            (0..ops).filter(wrong).count() as u64
        }))
    }))
}

fn theirs(kind: Kind, root: &Root, waits: bool) -> Make<'_> {
    Box::new(move || {
        sys::unshare_thread(true)
            .map_err(|e| Error::host("a root and a table of its own for a thread", e))?;
        root.enter()?;
        let fd = sys::open(FILE, O_RDWR | O_CREAT, 0o644);
        Ok(Box::new(move |ops| {
            let wrong = |_: &u64| !kind.host(fd, waits);
            (0..ops).filter(wrong).count() as u64
        }))
    })
}
