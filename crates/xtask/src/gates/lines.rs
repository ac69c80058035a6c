// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks the gate of cache lines on which two threads conflict: `openpath-bench two` under
//! valgrind's lackey.
//!
//! Every pair of operations runs in several layouts of memory; the worst counts. A pair that is not
//! in the list of exceptions must have no conflict. A listed pair may have about as many as the
//! list allows, and is reported when it needs no exception.

use super::list::List;
use super::symbols::Map;
use super::trace::{Conflict, Round, WIDTHS, rounds};
use super::{Gate, Plan, Report, cannot_run, in_parallel};
use std::collections::BTreeMap;
use std::io::{self, BufReader, Error, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// A page that nothing else uses.
const MARKS: u64 = 0x6f70_0000_0000;
/// In how many orders a pair runs.
const ORDERS: usize = 2;
/// How many conflicts of each pair are described.
const TOLD: usize = 4;

/// A layout of memory: by a seed, after a number of tasks, and by further arguments of `two`.
struct Layout {
    seed: u64,
    tasks: u64,
    switch: &'static str,
}

const fn layout(seed: u64, tasks: u64, switch: &'static str) -> Layout {
    Layout {
        seed,
        tasks,
        switch,
    }
}

/// Tasks on both sides of the 64th and of the 1024th, in slots of threads that ended, and side by
/// side in one array.
const LAYOUTS: [Layout; 4] = [
    layout(1, 1021, "--together"),
    layout(2, 0, ""),
    layout(3, 61, ""),
    layout(4, 12, "--reuse --together"),
];

/// The worst of all layouts and orders for one pair.
#[derive(Clone, Debug, Default)]
struct Worst {
    counts: [usize; 2],
    told: Vec<String>,
}

type Found = BTreeMap<String, Worst>;

/// Runs the layouts, and judges.
pub(super) fn run(plan: &Plan) -> io::Result<Report> {
    let layouts = if plan.plant.is_some() {
        &LAYOUTS[1..2]
    } else {
        &LAYOUTS[..]
    };
    let mut found = Found::new();
    for seen in in_parallel(layouts, |layout| trace(plan, layout)) {
        for (name, worst) in seen? {
            let known: &mut Worst = found.entry(name).or_default();
            if worst.counts > known.counts {
                known.told = worst.told;
            }
            for (known, new) in known.counts.iter_mut().zip(worst.counts) {
                *known = new.max(*known);
            }
        }
    }
    let path = plan.budgets.join("lines.txt");
    let mut list = List::load(&path)?;
    if plan.update {
        shrink(&mut list, &found);
        list.store(&path)?;
    }
    let mut report = judge(&found, &list, plan.plant.is_none());
    report.checked = format!("{} pairs, {} layouts", found.len(), layouts.len());
    Ok(report)
}

/// Traces one run.
fn trace(plan: &Plan, layout: &Layout) -> io::Result<Found> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=lackey", "--trace-mem=yes", "--log-fd=2"]);
    command.arg(&plan.program).arg("two");
    command.args([
        format!("--marks={MARKS}"),
        format!("--seed={}", layout.seed),
    ]);
    command.arg(format!("--tasks={}", layout.tasks));
    command.args(layout.switch.split_whitespace());
    if let Some(planted) = plan.plant {
        command.args(["--filter", planted.rows, "--plant", planted.name]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let valgrind = Path::new("valgrind");
    let mut child = command
        .spawn()
        .map_err(|error| cannot_run(valgrind, &error))?;
    let (Some(mut stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(Error::other("no pipes"));
    };
    let said = thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let seen = rounds(&mut BufReader::with_capacity(1 << 16, stderr), MARKS)?;
    let status = child.wait()?;
    let text = said
        .join()
        .map_err(|_| Error::other("the reader ended"))??;
    if !status.success() {
        let seed = layout.seed;
        return Err(Error::other(format!(
            "openpath-bench two with seed {seed}: {status}"
        )));
    }
    collect(&Map::parse(&text, &plan.program), &seen)
}

/// Assigns the rounds to pairs.
fn collect(map: &Map, seen: &[Round]) -> io::Result<Found> {
    if seen.len() != ORDERS * map.pairs.len() || seen.is_empty() {
        let (rounds, pairs) = (seen.len(), map.pairs.len());
        return Err(Error::other(format!(
            "{rounds} rounds traced of {pairs} pairs"
        )));
    }
    let mut found = Found::new();
    for (name, rounds) in map.pairs.iter().zip(seen.chunks(ORDERS)) {
        let mut worst = Worst::default();
        for round in rounds {
            if round.turns.contains(&0) {
                return Err(Error::other(format!("{name}: a thread had no turn")));
            }
            let counts = [0, 1].map(|width| round.conflicts[width].len());
            if counts > worst.counts {
                let wide = usize::from(counts[0] == 0);
                let told = round.conflicts[wide].iter().take(TOLD);
                worst.told = told.map(|conflict| tell(map, conflict)).collect();
            }
            for (known, new) in worst.counts.iter_mut().zip(counts) {
                *known = new.max(*known);
            }
        }
        found.insert(name.clone(), worst);
    }
    Ok(found)
}

fn tell(map: &Map, conflict: &Conflict) -> String {
    let Conflict { stored, touched } = conflict;
    let by = |code| map.code(code);
    let at = |data| map.data(data);
    format!(
        "{} written by {}; {} touched by {}",
        at(stored.data),
        by(stored.code),
        at(touched.data),
        by(touched.code)
    )
}

/// How many lines of either width an exception allows.
fn allowed(value: &str) -> Option<[usize; 2]> {
    let (counts, reason) = value.split_once(':')?;
    let (narrow, wide) = counts.trim().split_once(' ')?;
    let counts = [narrow.parse().ok()?, wide.trim().parse().ok()?];
    (!reason.trim().is_empty()).then_some(counts)
}

/// An exception's figure plus a quarter, and at least two lines, because neighbours in the heap
/// change with each build. Without an exception nothing is allowed.
fn slack(limit: usize) -> usize {
    match limit {
        0 => 0,
        limit => limit + (limit / 4).max(2),
    }
}

fn judge(found: &Found, list: &List, whole: bool) -> Report {
    let mut report = Report::new(Gate::Lines);
    for (name, Worst { counts, told }) in found {
        let [narrow, wide] = counts;
        let [n, w] = WIDTHS;
        let text = format!("{name}: {narrow} lines of {n}, {wide} of {w}");
        let limit = match list.get(name).map(allowed) {
            None => [0, 0],
            Some(Some(limit)) => limit,
            Some(None) => {
                report
                    .failures
                    .push(format!("{name}: no `64 128: reason` in the list"));
                continue;
            }
        };
        if *narrow > slack(limit[0]) || *wide > slack(limit[1]) {
            report.failures.push(text);
            let told = told.iter().map(|line| format!("  {line}"));
            report.failures.extend(told);
        } else if *counts == [0, 0] && limit != [0, 0] {
            let text = format!("{name}: needed no exception: strike it out with --update");
            report.notes.push(text);
        } else if slack(*narrow) < limit[0] || slack(*wide) < limit[1] {
            let text = format!("{text}; the list allows {limit:?}: lower it with --update");
            report.notes.push(text);
        }
    }
    for (name, _) in list.entries.iter().filter(|_| whole) {
        if !found.contains_key(name) {
            report
                .failures
                .push(format!("{name}: in the list, but no such pair"));
        }
    }
    report
}

/// Lowers the list's figures to the found ones, and deletes exceptions that are not needed.
fn shrink(list: &mut List, found: &Found) {
    list.entries.retain_mut(|(name, value)| {
        let (Some(worst), Some(limit)) = (found.get(name), allowed(value)) else {
            return true;
        };
        let [narrow, wide] = [0, 1].map(|width| limit[width].min(worst.counts[width]));
        let reason = value.split_once(':').map_or("", |(_, reason)| reason);
        *value = format!("{narrow} {wide}:{reason}");
        [narrow, wide] != [0, 0]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(entries: &[(&str, [usize; 2])]) -> Found {
        let worst = |counts| Worst {
            counts,
            told: vec!["here".to_owned()],
        };
        let entries = entries.iter();
        entries
            .map(|&(name, counts)| (name.to_owned(), worst(counts)))
            .collect()
    }

    fn list(text: &str) -> List {
        List::parse(text).unwrap()
    }

    #[test]
    fn conflict_without_exception_fails() {
        let report = judge(&found(&[("a", [0, 0]), ("b", [0, 1])]), &list(""), true);
        assert_eq!(report.failures, ["b: 0 lines of 64, 1 of 128", "  here"]);
    }

    #[test]
    fn exception_must_be_needed_and_have_reason() {
        let seen = found(&[("a", [4, 5])]);
        let verdict = |text: &str| judge(&seen, &list(text), true).green();
        assert!(verdict("a = 4 5: both write the file\n"));
        assert!(!verdict("a = 2 2: both write the file\n") && verdict("a = 4 9: r\n"));
        assert!(verdict("a = 2 3: both write the file\n"));
        assert!(!verdict("a = 0 5: r\n") && !verdict("a = 4 0: r\n"));
        assert!(!verdict("a = 4 5:\n") && !verdict("a = 4 5\n"));
        assert!(!verdict("a = 4 5: both write the file\nb = 1 1: gone\n"));
        let unneeded = judge(&found(&[("a", [0, 0])]), &list("a = 1 1: r\n"), true);
        assert!(unneeded.green());
        assert_eq!(unneeded.notes.len(), 1);
    }

    #[test]
    fn list_only_shrinks() {
        let mut kept = list("# why\na = 2 3: r\nb = 1 1: r\nc = 1 1: r\n");
        shrink(
            &mut kept,
            &found(&[("a", [1, 5]), ("b", [0, 0]), ("d", [9, 9])]),
        );
        assert_eq!(kept, list("# why\na = 1 3: r\nc = 1 1: r\n"));
    }

    #[test]
    fn trace_with_missing_rounds_is_an_error() {
        let map = Map::parse("pair a\n", Path::new("x"));
        let round = |turns| Round {
            turns,
            ..Round::default()
        };
        assert!(collect(&map, &[round([2, 2]), round([2, 2])]).is_ok());
        assert!(collect(&map, &[round([2, 2])]).is_err());
        assert!(collect(&map, &[round([2, 2]), round([2, 0])]).is_err());
    }
}
