// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the gates `arena`, `allocations`, `instructions` and `locked`: compares figures of
//! `openpath-bench counts` with zero, or with the budget of each row.

use super::budget::{SLACK, Standing, judge};
use super::list::List;
use super::{Gate, Plan, Report, cannot_run};
use serde_json::Value;
use std::io::{self, Error};
use std::process::Command;

/// One row.
struct Row {
    name: String,
    /// The count; none if it could not be measured.
    count: Option<f64>,
    /// It exceeds the contract's bar.
    short: bool,
    note: String,
}

/// Every row with a name that begins with `kind`, or those of the fault.
fn rows(kind: &str, plan: &Plan) -> io::Result<Vec<Row>> {
    let mut command = Command::new(&plan.program);
    command.args(["counts", "--json", "--filter"]);
    match plan.plant {
        Some(planted) => command.args([planted.rows, "--plant", planted.name]),
        None => command.arg(format!("{kind} ")),
    };
    let out = command
        .output()
        .map_err(|error| cannot_run(&plan.program, &error))?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(Error::other(text));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let rows: io::Result<Vec<Row>> = text.lines().map(row).collect();
    let rows = rows?;
    if rows.is_empty() {
        return Err(Error::other(format!("there is no row of {kind}")));
    }
    Ok(rows)
}

fn row(line: &str) -> io::Result<Row> {
    let value: Value = serde_json::from_str(line)?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Ok(Row {
        name: text("name"),
        count: value["ours"].as_f64(),
        short: value["ok"] == Value::Bool(false),
        note: text("note"),
    })
}

/// The rows with a count; the others become failures.
fn counted(rows: Vec<Row>, report: &mut Report) -> Vec<(Row, f64)> {
    let mut counted = Vec::new();
    for row in rows {
        match row.count {
            Some(count) => counted.push((row, count)),
            None => report
                .failures
                .push(format!("{}: not measured: {}", row.name, row.note)),
        }
    }
    report.checked = format!("{} operations", counted.len());
    counted
}

/// A gate that requires zero.
pub(super) fn zero(gate: Gate, kind: &str, plan: &Plan) -> io::Result<Report> {
    let mut report = Report::new(gate);
    for (row, count) in counted(rows(kind, plan)?, &mut report) {
        if count > 0.0 {
            let Row { name, note, .. } = row;
            report.failures.push(format!("{name}: {count:.3} {note}"));
        }
    }
    Ok(report)
}

/// A gate with a budget for each row: 1 % tolerance for instructions, none for whole numbers.
pub(super) fn budgeted(gate: Gate, kind: &str, plan: &Plan) -> io::Result<Report> {
    let slack = if gate == Gate::Instructions {
        SLACK
    } else {
        0.0
    };
    let path = plan.budgets.join("instructions.txt");
    let mut list = List::load(&path)?;
    let mut report = Report::new(gate);
    let rows = counted(rows(kind, plan)?, &mut report);
    if plan.update {
        list.entries.retain(|(name, _)| !name.starts_with(kind));
        let entry = |(row, count): &(Row, f64)| (row.name.clone(), format!("{count:.1}"));
        list.entries.extend(rows.iter().map(entry));
        list.entries.sort();
        list.store(&path)?;
    }
    for (row, count) in &rows {
        let name = &row.name;
        let Some(budget) = list.get(name).and_then(|value| value.parse().ok()) else {
            report
                .failures
                .push(format!("{name}: no budget; {count:.1} counted"));
            continue;
        };
        let text = format!("{name}: {count:.1}, budget {budget:.1}");
        match judge(*count, budget, slack) {
            Standing::Kept => {}
            Standing::Exceeded => report.failures.push(text),
            Standing::Improved => report.notes.push(format!("{text}: lower it with --update")),
        }
        if row.short {
            let text = format!("{name}: {count:.1} exceeds the contract's bar");
            let found = if gate == Gate::Locked {
                &mut report.failures
            } else {
                &mut report.notes
            };
            found.push(text);
        }
    }
    let measured = |name: &String| rows.iter().any(|(row, _)| row.name == *name);
    for (name, _) in list
        .entries
        .iter()
        .filter(|(name, _)| name.starts_with(kind))
    {
        if plan.plant.is_none() && !measured(name) {
            report
                .failures
                .push(format!("{name}: in the budget, but not measured"));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_without_count_fails() {
        let lines = [
            r#"{"name":"a d1","ours":3.5,"ok":false,"verdict":"short","note":null}"#,
            r#"{"name":"c d1","ours":null,"ok":null,"verdict":"not_measured","note":"no tool"}"#,
        ];
        let rows: io::Result<Vec<Row>> = lines.iter().map(|line| row(line)).collect();
        let mut report = Report::new(Gate::Locked);
        let counted = counted(rows.unwrap(), &mut report);
        assert_eq!(
            (counted.len(), counted[0].1, counted[0].0.short),
            (1, 3.5, true)
        );
        assert!(report.notes.is_empty());
        assert_eq!(report.failures, ["c d1: not measured: no tool"]);
        assert!(row("no object").is_err());
    }
}
