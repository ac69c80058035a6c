// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath gives the host kernel's answers in each case of `cases/regress`, and differs
//! in those of `cases/overlay` only as documented. Each case runs in a process of its own.
//!
//! The tests need root; without it they print so and do nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The exit status of the oracle without root.
const NEEDS_ROOT: i32 = 77;

#[test]
fn regression_cases_match_the_kernel() {
    let mut wrong = Vec::new();
    for case in cases("cases/regress") {
        let Some((same, text)) = replay(&case, "mem") else {
            return;
        };
        if !same {
            wrong.push(format!("{}\n{text}", case.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each file is named after the difference that it shows. The kernel shows it too, so a case that
/// no longer differs fails as one that differs otherwise does.
#[test]
fn overlays_differ_from_linux_only_as_documented() {
    for case in cases("cases/overlay") {
        let id = case.file_stem().expect("a name").to_string_lossy();
        let Some((same, text)) = replay(&case, "overlay") else {
            return;
        };
        assert!(same, "{}\n{text}", case.display());
        let allowed = format!("not compared: {id}\n");
        assert!(text.contains(&allowed), "{} was not needed\n{text}", id);
    }
}

/// The cases of a directory, by name.
fn cases(dir: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
    let mut cases: Vec<_> = std::fs::read_dir(&dir)
        .expect("a directory of cases")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "case"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    cases
}

/// Whether both sides give the same, and what the oracle prints; none without root.
fn replay(case: &Path, back: &str) -> Option<(bool, String)> {
    let done = Command::new(env!("CARGO_BIN_EXE_oracle"))
        .args(["--back", back, "--case"])
        .arg(case)
        .output()
        .expect("the oracle");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.code() == Some(NEEDS_ROOT) {
        eprintln!("skipped: the oracle needs root");
        return None;
    }
    Some((done.status.success(), text))
}
