// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `many`: a million descriptors in one table, and ten thousand tasks with 64 each.
//!
//! It measures their memory by the growth of the resident set, and times single operations while
//! the tables grow and when they are full. The control is the same operation in a table that does
//! not grow, measured in turn with it: times that both have are the machine's, the rest is growth
//! or scan. The host's own table is measured in turn with them, up to its limit of descriptors.

mod clock;
mod table;
mod tasks;

use crate::cmd::{Ask, at_least_one};
use crate::error::Error;
use crate::host::Host;
use crate::row::Row;
use clock::{Clock, QUANTILES, Times};

/// The options.
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

/// Runs every wanted row.
pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let clock = Clock::calibrate();
    let filter = options.ask.common.filter.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    // A filter may name a group, or any part of a row.
    if !filter.contains(tasks::NAME) {
        rows.extend(table::rows(options.descriptors, &host, &clock)?);
    }
    if !filter.contains(table::NAME) {
        rows.extend(tasks::rows(options.tasks, &clock)?);
    }
    Ok(rows)
}

/// The rows of one operation: its quantiles beside the control's, and beside the host's.
fn latency(
    name: &str,
    clock: &Clock,
    grown: &Times,
    control: &Times,
    host: Option<&Times>,
) -> Vec<Row> {
    let [grown, control] = [grown, control].map(|times| times.summary(clock));
    let host = host.map(|times| times.summary(clock));
    let mut rows = Vec::new();
    for (i, (quantile, _)) in QUANTILES.into_iter().enumerate() {
        let note = |text: String, row: Row| match quantile {
            "max" => row.with_note(&format!("longer than 10 us: {text}")),
            _ => row,
        };
        let mut row = Row::count(&format!("{name} {quantile}"), "ns", grown.at[i]);
        row.windows = grown.count;
        let long = format!(
            "{}, control {} of {}",
            grown.long, control.long, control.count
        );
        rows.push(note(long, row.against("control", control.at[i], None)));
        if let Some(host) = &host {
            let mut row = Row::count(&format!("{name} {quantile}, tmpfs"), "ns", grown.at[i]);
            row.ratio = Some(host.at[i] / grown.at[i]);
            row.windows = host.count;
            let long = format!("{} of {}", host.long, host.count);
            rows.push(note(long, row.against("tmpfs", host.at[i], None)));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_table_and_few_tasks_are_measured() {
        let clock = Clock::calibrate();
        let rows = tasks::rows(20, &clock).unwrap();
        assert!(rows.iter().any(|row| row.name == "many tasks open p99.9"));
        let Ok(host) = Host::new() else { return };
        let rows = table::rows(3000, &host, &clock).unwrap();
        for name in ["open", "dup", "close", "churn open", "churn close"] {
            let name = format!("many table {name} p99.9");
            assert!(rows.iter().any(|row| row.name == name), "{name}");
        }
    }
}
