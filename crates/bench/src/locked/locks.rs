// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a file lock and its unlock, beside the host kernel.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use openpath_abi::Flock;
use openpath_abi::lock::{
    F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_UN,
};

use crate::common::*;

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
const FILE: &CStr = c"/locked.data";
/// How many operations each thread does in [`together`].
const TURNS: u64 = 500;

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
        let range = |set, wait| {
            let locked = sys::lock_range(fd, if waits { wait } else { set }, true);
            locked && sys::lock_range(fd, set, false)
        };
        let flock = |how| sys::flock(fd, how) && sys::flock(fd, LOCK_UN);
        match self {
            Kind::Posix => range(F_SETLK, F_SETLKW),
            Kind::Ofd => range(F_OFD_SETLK, F_OFD_SETLKW),
            Kind::Flock => flock(if waits { LOCK_EX } else { LOCK_EX | LOCK_NB }),
        }
    }
}

pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
    let threads = threads_max();
    let names = KINDS.map(|(_, word)| {
        let in_turn = format!("locks {word}, {threads}T in turn, tmpfs");
        [format!("locks {word}, tmpfs"), in_turn]
    });
    if !ask.wants_any(names.as_flattened()) {
        return Ok(Vec::new());
    }
    let host = Host::new()?;
    let (root, vfs) = (&host.tmpfs, &ours::instance()?);
    ours::task(vfs)?.make_file(FILE.to_bytes(), b"")?;
    let mut rows = Vec::new();
    for ((kind, _), [alone, turns]) in KINDS.into_iter().zip(&names) {
        let mut plan = Plan::default();
        let one = plan.threads(alone, vec![ours(kind, vfs, false)?], &[1])[0];
        let other = plan.threads(alone, vec![theirs(kind, root, false)], &[1])[0];
        plan.row(Row::faster, alone, one, "tmpfs", other);
        rows.extend(plan.run(ask)?);
        if threads == 1 {
            continue;
        }
        // They wait for each other, so none of them has a window of its own: wall time counts.
        let mut plan = Plan::default();
        let own = plan.own(turns, move || {
            let makes = (0..threads).map(|_| ours(kind, vfs, true));
            together(makes.collect::<Result<_, _>>()?)
        });
        let peer = plan.own(turns, move || {
            together((0..threads).map(|_| theirs(kind, root, true)).collect())
        });
        plan.row(Row::faster, turns, own, "tmpfs", peer)
            .note("by wall time: they sleep");
        rows.extend(plan.run(ask)?);
    }
    host.leave()?;
    Ok(rows)
}

/// Nanoseconds per operation of all threads, started at once.
fn together(makes: Vec<Make<'_>>) -> Result<f64, Error> {
    let all = makes.len();
    let gate = &Barrier::new(all + 1);
    let (wall, done) = thread::scope(|scope| {
        let work = |make: Make<'_>| {
            let burst = make();
            gate.wait();
            burst.map(|mut burst| burst(TURNS))
        };
        let workers = makes
            .into_iter()
            .map(|make| scope.spawn(move || work(make)));
        let workers: Vec<_> = workers.collect();
        gate.wait();
        let begun = Instant::now();
        let done: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        (begun.elapsed(), done)
    });
    for worker in done {
        let wrong = worker.map_err(|_| Error::Setup("a measuring thread ended".to_owned()))??;
        all_right(wrong, "locks in turn")?;
    }
    Ok(wall.as_nanos() as f64 / (TURNS * all as u64) as f64)
}

fn ours<'a>(kind: Kind, vfs: &Vfs, waits: bool) -> Result<Make<'a>, Error> {
    let task = ours::task(vfs)?;
    Ok(Box::new(move || {
        let fd = task.open(FILE.to_bytes(), O_RDWR, 0);
        let fd = fd.setup("open the file to lock")?;
        Ok(Box::new(move |ops| {
            wrong_of(ops, || kind.ours(&task, fd, waits).is_ok())
        }))
    }))
}

fn theirs(kind: Kind, root: &Root, waits: bool) -> Make<'_> {
    Box::new(move || {
        enter_alone(root, true)?;
        let fd = Kernel.open(FILE, O_RDWR | O_CREAT, 0o644);
        let fd = fd.setup("open the file to lock")?;
        Ok(Box::new(move |ops| wrong_of(ops, || kind.host(fd, waits))))
    })
}
