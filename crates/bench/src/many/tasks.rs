// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times very many tasks, each with 64 descriptors of files that all of them open.

use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::{Fd, Task, Vfs};

use super::clock::{Clock, Times};
use super::latency;
use crate::calls::Calls;
use crate::error::Error;
use crate::memory::Resident;
use crate::ours;
use crate::row::Row;

/// The beginning of the rows' names.
pub(super) const NAME: &str = "many tasks";
/// Descriptors of a task: as many as fit a word of a bitmap.
const EACH: usize = 64;
/// One task out of this many is forked at the end.
const FORKED: usize = 10;

/// The times of one operation while the tasks grow, and of its control.
struct Pair {
    grown: Times,
    control: Times,
}

impl Pair {
    fn new(room: usize) -> Self {
        Self {
            grown: Times::new(room),
            control: Times::new(room),
        }
    }
}

/// All timed operations.
struct Timed {
    made: Pair,
    open: Pair,
    dup: Pair,
    close: Pair,
    fork: Pair,
}

pub(super) fn rows(count: usize, clock: &Clock) -> Result<Vec<Row>, Error> {
    let vfs = ours::instance()?;
    let maker = ours::task(&vfs)?;
    maker.make_dir(b"/many")?;
    let files: Vec<Vec<u8>> = (0..EACH).map(|i| format!("/many/file{i}").into()).collect();
    for file in &files {
        maker.make_file(file, b"")?;
    }
    let mut timed = Timed {
        made: Pair::new(count),
        open: Pair::new(count * EACH),
        dup: Pair::new(count),
        close: Pair::new(count),
        fork: Pair::new(count / FORKED),
    };
    // Full like the others, with one file that is opened and closed.
    let control = ours::task(&vfs)?;
    for file in &files {
        open(&control, file)?;
    }
    let mut tasks: Vec<Task> = Vec::with_capacity(count);
    let resident = Resident::open()?;
    let empty = resident.bytes()?;
    make(count, &vfs, &mut tasks, &mut timed.made)?;
    let made = resident.bytes()?;
    for task in &tasks {
        fill(task, &control, &files, &mut timed.open)?;
    }
    let full = resident.bytes()?;
    for task in &tasks {
        one_more(task, &control, &mut timed)?;
    }
    for task in tasks.iter().step_by(FORKED) {
        let twins = [
            timed.fork.grown.time(|| task.fork()),
            timed.fork.control.time(|| maker.fork()),
        ];
        if twins.iter().any(Result::is_err) {
            return Err(wrong());
        }
    }
    let per = |bytes: u64| bytes as f64 / count as f64;
    let mut rows = vec![
        Row::count(
            &format!("{NAME} bytes-per-task"),
            "B",
            per(made.saturating_sub(empty)),
        )
        .with_note("without descriptors"),
        Row::count(
            &format!("{NAME} bytes-per-full-task"),
            "B",
            per(full.saturating_sub(empty)),
        )
        .with_note(&format!("with {EACH} descriptors")),
    ];
    for (name, pair) in [
        ("make", &timed.made),
        ("open", &timed.open),
        ("dup", &timed.dup),
        ("close", &timed.close),
        ("fork", &timed.fork),
    ] {
        let name = format!("{NAME} {name}");
        rows.extend(latency(&name, clock, &pair.grown, &pair.control, None));
    }
    Ok(rows)
}

fn wrong() -> Error {
    Error::Wrong(NAME.to_owned())
}

fn open(task: &Task, file: &[u8]) -> Result<Fd, Error> {
    task.open(file, O_RDONLY, 0).map_err(|_| wrong())
}

/// Makes the tasks; the control is a task that is made and dropped.
fn make(count: usize, vfs: &Vfs, tasks: &mut Vec<Task>, times: &mut Pair) -> Result<(), Error> {
    for _ in 0..count {
        tasks.push(times.grown.time(|| ours::task(vfs))?);
        drop(times.control.time(|| ours::task(vfs))?);
    }
    Ok(())
}

fn fill(task: &Task, control: &Task, files: &[Vec<u8>], times: &mut Pair) -> Result<(), Error> {
    for (i, file) in files.iter().enumerate() {
        let fd = times.grown.time(|| open(task, file))?;
        let fresh = times.control.time(|| open(control, file))?;
        if fd as usize != i || control.close(fresh).is_err() {
            return Err(wrong());
        }
    }
    Ok(())
}

/// Duplicates beyond the first word of the bitmap, and closes.
fn one_more(task: &Task, control: &Task, timed: &mut Timed) -> Result<(), Error> {
    for (task, control) in [(task, false), (control, true)] {
        let [dup, close] = [&mut timed.dup, &mut timed.close].map(|pair| {
            if control {
                &mut pair.control
            } else {
                &mut pair.grown
            }
        });
        let fd = dup.time(|| task.dup(0)).map_err(|_| wrong())?;
        close.time(|| task.close(fd)).map_err(|_| wrong())?;
    }
    Ok(())
}
