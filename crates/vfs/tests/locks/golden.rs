// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays recorded answers of the kernel about file locks, `conformance/locks`: openpath answers
//! the same call by call, and the running kernel still does.

use crate::processes::{Agents, host, ours, settle};
use openpath_vfs::Tuning;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Cases that differ, each with its reason. A listed case that no longer differs is an error too.
const DIFFER: &[(&str, &str)] = &[];

/// How often a case that differs is tried: `/proc/locks` is read in pieces while other programs
/// lock files.
const TRIES: u32 = 4;

/// The initial processes of each case.
const PROCESSES: &str = "abc";

/// A file of cases: its lines, and for each case the range of its calls.
struct Cases {
    path: PathBuf,
    lines: Vec<String>,
}

fn files() -> Vec<Cases> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/locks");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the directory of cases")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("cannot read a case file");
        let lines = text.lines().map(str::to_owned).collect();
        Cases { path, lines }
    };
    paths.into_iter().map(read).collect()
}

/// The call in a line, without its answer.
fn call(line: &str) -> &str {
    line.split_once(" = ").map_or(line, |(call, _)| call)
}

/// Makes the calls of a case; returns the lines with their answers.
fn play(agents: &mut dyn Agents, lines: &[String]) -> Vec<String> {
    let mut waiting = BTreeSet::new();
    let play = |line: &String| {
        let call = call(line);
        let (who, what) = call.split_once(' ').expect("an actor and a call");
        let (own, others) = settle(agents, &mut waiting, who, what);
        let mut said = format!("{call} = {own}");
        for (who, what) in others {
            write!(said, " | {who} {what}").expect("text");
        }
        said
    };
    lines.iter().map(play).collect()
}

/// The cases of a file: their names, and the lines of their calls.
fn cases(file: &Cases) -> Vec<(String, core::ops::Range<usize>)> {
    let mut cases: Vec<(String, core::ops::Range<usize>)> = Vec::new();
    for (at, line) in file.lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix("case ") {
            cases.push((name.to_owned(), at + 1..at + 1));
        } else if !line.is_empty() && !line.starts_with('#') {
            cases.last_mut().expect("a call outside a case").1.end = at + 1;
        }
    }
    cases
}

/// Plays a case until it answers as written; returns the last answers.
fn play_until_equal(
    lines: &[String],
    mut agents: impl FnMut(&[String]) -> Vec<String>,
) -> Vec<String> {
    let mut said = Vec::new();
    for _ in 0..TRIES {
        said = agents(lines);
        if said == lines {
            break;
        }
    }
    said
}

/// Plays all cases; returns how many there are, and those that differ.
fn differing_cases(agents: &mut dyn FnMut(&[String]) -> Vec<String>) -> (usize, Vec<String>) {
    let (mut count, mut wrong) = (0, Vec::new());
    for file in files() {
        for (name, at) in cases(&file) {
            let lines = &file.lines[at];
            let said = play_until_equal(lines, &mut *agents);
            count += lines.len();
            let listed = DIFFER.iter().any(|(differs, _)| *differs == name);
            if (said != lines) != listed {
                let lines = lines.iter().zip(&said).filter(|(a, b)| a != b);
                let lines: Vec<String> = lines.map(|(a, b)| format!("{a}\n  not {b}")).collect();
                wrong.push(format!(
                    "case {name}, listed: {listed}\n{}",
                    lines.join("\n")
                ));
            }
        }
    }
    (count, wrong)
}

fn on_openpath(tuning: Tuning) -> impl FnMut(&[String]) -> Vec<String> {
    move |lines| {
        let mut agents = ours::Ours::new(PROCESSES, 2, tuning);
        let said = play(&mut agents, lines);
        agents.end();
        said
    }
}

#[test]
fn recorded_cases_of_locks_answer_as_the_kernel_did() {
    let (count, wrong) = differing_cases(&mut on_openpath(Tuning::default()));
    assert!(count > 250, "case files are missing");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_lock_context_flag_changes_no_answer() {
    let mut tuning = Tuning::default();
    tuning.lock_context_flag = false;
    let (_, wrong) = differing_cases(&mut on_openpath(tuning));
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_running_kernel_answers_recorded_cases_of_locks() {
    if std::env::var_os("OPENPATH_LOCKS_RECORD").is_some() {
        return record();
    }
    let mut kernel = |lines: &[String]| play(&mut host::Host::new(PROCESSES), lines);
    let (_, wrong) = differing_cases(&mut kernel);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Records the kernel's answers.
fn record() {
    for mut file in files() {
        for (_, at) in cases(&file) {
            let mut kernel = host::Host::new(PROCESSES);
            let said = play(&mut kernel, &file.lines[at.clone()]);
            file.lines.splice(at, said);
        }
        fs::write(&file.path, file.lines.join("\n") + "\n").expect("cannot write a case file");
    }
}
