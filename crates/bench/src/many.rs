// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `many`: a million descriptors in one table, and ten thousand tasks with 64 each.
//!
//! Memory is the growth of the resident set. The control is the same operation in a table that does
//! not grow, measured in turn with it: times that both have are the machine's, the rest is growth
//! or scan. The host's own table is measured in turn with them, up to its limit of descriptors.

mod clock;
mod table;

use crate::common::*;
use clock::{Clock, QUANTILES, Times};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Descriptors in one table.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one)]
    descriptors: usize,
    /// Tasks with 64 descriptors each.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = at_least_one)]
    tasks: usize,
}

/// The longest time that growth or scan may add to an operation.
const LONG_NS: f64 = 10_000.0;
/// The beginning of the rows' names, of tasks.
const NAME: &str = "many tasks";
/// Descriptors of a task: as many as fit a word of a bitmap.
const EACH: usize = 64;
/// One task out of this many is forked at the end.
const FORKED: usize = 10;

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let clock = Clock::calibrate();
    let filter = options.ask.common.filter.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    // A filter may name a group, or any part of a row.
    if !filter.contains(NAME) {
        rows.extend(table::rows(options.descriptors, &host, &clock)?);
    }
    if !filter.contains(table::NAME) {
        rows.extend(tasks(options.tasks, &clock)?);
    }
    Ok(rows)
}

/// The rows of one operation: its quantiles beside the control's, and beside the host's.
fn latency(name: &str, clock: &Clock, grown: &Times, control: &Times, host: &Times) -> Vec<Row> {
    let [grown, control, host] = [grown, control, host].map(|times| times.summary(clock));
    let mut rows = Vec::new();
    for (i, (quantile, _)) in QUANTILES.into_iter().enumerate() {
        let mut add = |end: &str, label, value, ratio, windows, long: String| {
            let row = Row::count(&format!("{name} {quantile}{end}"), "ns", grown.at[i]);
            let row = Row {
                ratio,
                windows,
                ..row.against(label, value, None)
            };
            rows.push(match quantile {
                "max" => row.with_note(&format!("longer than 10 us: {long}")),
                _ => row,
            });
        };
        let beside = format!(
            "{}, control {} of {}",
            grown.long, control.long, control.count
        );
        add("", "control", control.at[i], None, grown.count, beside);
        if host.count > 0 {
            let (value, long) = (host.at[i], format!("{} of {}", host.long, host.count));
            let ratio = Some(value / grown.at[i]);
            add(", tmpfs", "tmpfs", value, ratio, host.count, long);
        }
    }
    rows
}

/// The times of one operation while the tasks grow, and of its control.
struct Pair([Times; 2]);

impl Pair {
    /// Runs both operations; returns what they return.
    #[inline(always)]
    fn time<T, E>(
        &mut self,
        grown: impl FnOnce() -> Result<T, E>,
        control: impl FnOnce() -> Result<T, E>,
    ) -> Result<[T; 2], Error> {
        let [times, of_control] = &mut self.0;
        match (times.time(grown), of_control.time(control)) {
            (Ok(grown), Ok(control)) => Ok([grown, control]),
            _ => Err(wrong()),
        }
    }
}

fn wrong() -> Error {
    Error::Wrong(NAME.to_owned())
}

/// Measures very many tasks, each with [`EACH`] descriptors of files that all of them open.
fn tasks(count: usize, clock: &Clock) -> Result<Vec<Row>, Error> {
    let vfs = ours::instance()?;
    let maker = ours::task(&vfs)?;
    maker.make_dir(b"/many")?;
    let files: Vec<Vec<u8>> = (0..EACH).map(|i| format!("/many/file{i}").into()).collect();
    // Full like the others, with one file that is opened and closed.
    let control = ours::task(&vfs)?;
    for file in &files {
        maker.make_file(file, b"")?;
        control.open(file, O_RDONLY, 0).map_err(|_| wrong())?;
    }
    let rooms = [count, count * EACH, count, count, count / FORKED];
    let mut times = rooms.map(|room| Pair([(); 2].map(|()| Times::new(room))));
    let [make, open, dup, close, fork] = &mut times;
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
    let memory = |what: &str, bytes: u64, note: &str| {
        let each = bytes.saturating_sub(empty) as f64 / count as f64;
        Row::count(&format!("{NAME} {what}"), "B", each).with_note(note)
    };
    let mut rows = vec![
        memory("bytes-per-task", made, "without descriptors"),
        memory(
            "bytes-per-full-task",
            full,
            &format!("with {EACH} descriptors"),
        ),
    ];
    let names = ["make", "open", "dup", "close", "fork"];
    for (name, Pair([grown, control])) in names.into_iter().zip(&times) {
        let (name, no_host) = (format!("{NAME} {name}"), Times::new(0));
        rows.extend(latency(&name, clock, grown, control, &no_host));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_table_and_few_tasks_are_measured() {
        let clock = Clock::calibrate();
        let has = |rows: &[Row], name: &str| {
            let name = format!("many {name} p99.9");
            assert!(Row::named(rows, &name).is_some(), "{name}");
        };
        has(&tasks(20, &clock).unwrap(), "tasks open");
        let Ok(host) = Host::new() else { return };
        let rows = table::rows(3000, &host, &clock).unwrap();
        for name in ["open", "dup", "close", "churn open", "churn close"] {
            has(&rows, &format!("table {name}"));
        }
    }
}
