// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures very many tasks, each with 64 descriptors of files that all of them open.

use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::Task;

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
struct Pair([Times; 2]);

impl Pair {
    fn new(room: usize) -> Self {
        Self([(); 2].map(|()| Times::new(room)))
    }

    /// Runs both operations; returns what they return.
    #[inline(always)]
    fn time<T, E>(
        &mut self,
        grown: impl FnOnce() -> Result<T, E>,
        control: impl FnOnce() -> Result<T, E>,
    ) -> Result<[T; 2], Error> {
        let [times, of_control] = &mut self.0;
        let both = (times.time(grown), of_control.time(control));
        match both {
            (Ok(grown), Ok(control)) => Ok([grown, control]),
            _ => Err(Error::Wrong(NAME.to_owned())),
        }
    }
}

pub(super) fn rows(count: usize, clock: &Clock) -> Result<Vec<Row>, Error> {
    let vfs = ours::instance()?;
    let maker = ours::task(&vfs)?;
    maker.make_dir(b"/many")?;
    let files: Vec<Vec<u8>> = (0..EACH).map(|i| format!("/many/file{i}").into()).collect();
    for file in &files {
        maker.make_file(file, b"")?;
    }
    let mut times = [count, count * EACH, count, count, count / FORKED].map(Pair::new);
    let [make, open, dup, close, fork] = &mut times;
    let wrong = || Error::Wrong(NAME.to_owned());
    // Full like the others, with one file that is opened and closed.
    let control = ours::task(&vfs)?;
    for file in &files {
        control.open(file, O_RDONLY, 0).map_err(|_| wrong())?;
    }
    let mut tasks: Vec<Task> = Vec::with_capacity(count);
    let resident = Resident::open()?;
    let empty = resident.bytes()?;
    for _ in 0..count {
        // The control is a task that is made and dropped.
        let [task, _] = make.time(|| ours::task(&vfs), || ours::task(&vfs))?;
        tasks.push(task);
    }
    let made = resident.bytes()?;
    for task in &tasks {
        for (i, file) in files.iter().enumerate() {
            let by = |task: &Task| task.open(file, O_RDONLY, 0);
            let [fd, fresh] = open.time(|| by(task), || by(&control))?;
            if fd as usize != i || control.close(fresh).is_err() {
                return Err(wrong());
            }
        }
    }
    let full = resident.bytes()?;
    for task in &tasks {
        // Beyond the first word of the bitmap.
        let [fd, fresh] = dup.time(|| task.dup(0), || control.dup(0))?;
        close.time(|| task.close(fd), || control.close(fresh))?;
    }
    for task in tasks.iter().step_by(FORKED) {
        fork.time(|| task.fork(), || maker.fork())?;
    }
    let memory = |what: &str, bytes: u64| {
        let each = bytes.saturating_sub(empty) as f64 / count as f64;
        Row::count(&format!("{NAME} {what}"), "B", each)
    };
    let full = memory("bytes-per-full-task", full);
    let mut rows = vec![
        memory("bytes-per-task", made).with_note("without descriptors"),
        full.with_note(&format!("with {EACH} descriptors")),
    ];
    let names = ["make", "open", "dup", "close", "fork"];
    for (name, Pair([grown, control])) in names.into_iter().zip(&times) {
        rows.extend(latency(
            &format!("{NAME} {name}"),
            clock,
            grown,
            control,
            None,
        ));
    }
    Ok(rows)
}
