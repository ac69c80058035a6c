// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests recorded inotify events of the kernel, `conformance/notify`: openpath sends the same, call
//! by call.

use crate::case::Case;
use std::fs;
use std::path::PathBuf;

/// Cases that differ, each with its reason. A listed case that no longer differs is an error too.
const DIFFER: &[(&str, &str)] = &[];

/// A recorded case: its name and its lines.
struct Written {
    name: String,
    lines: Vec<String>,
}

fn cases() -> Vec<Written> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/notify");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the directory of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "case"))
        .collect();
    paths.sort();
    let mut cases: Vec<Written> = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).expect("cannot read a case file");
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("case ") {
                let (name, lines) = (name.to_owned(), Vec::new());
                cases.push(Written { name, lines });
            } else if !line.is_empty() && !line.starts_with('#') {
                let case = cases.last_mut().expect("a call outside a case");
                case.lines.push(line.to_owned());
            }
        }
    }
    cases
}

/// The calls of a case, without their answers.
fn calls(lines: &[String]) -> impl Iterator<Item = &str> {
    let calls = lines.iter().filter(|line| !line.starts_with(' '));
    calls.map(|line| {
        line.rsplit_once(" = ")
            .map_or(line.as_str(), |(call, _)| call)
    })
}

#[test]
fn recorded_cases_of_inotify_give_the_kernels_events() {
    let cases = cases();
    assert!(cases.len() > 60, "case files are missing");
    let mut wrong = Vec::new();
    for written in &cases {
        let mut case = Case::new();
        let ours: Vec<String> = calls(&written.lines)
            .flat_map(|call| case.run(call))
            .collect();
        let listed = DIFFER.iter().any(|(name, _)| *name == written.name);
        let differs = ours != written.lines;
        if differs != listed {
            wrong.push(format!(
                "case {}{}\nkernel:\n{}\nours:\n{}\n",
                written.name,
                if listed { " (listed as different)" } else { "" },
                written.lines.join("\n"),
                ours.join("\n")
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
