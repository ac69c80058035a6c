// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays every case of `cases/regress` on both sides, each in a process of its own.
//!
//! Needs root; without it the test reports a skip and passes.

use std::path::Path;
use std::process::Command;

#[test]
fn regression_cases_match_the_kernel() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/regress");
    let mut cases: Vec<_> = std::fs::read_dir(&dir)
        .expect("cases/regress")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "case"))
        .collect();
    cases.sort();
    assert!(!cases.is_empty());
    let mut wrong = Vec::new();
    for case in &cases {
        let done = Command::new(env!("CARGO_BIN_EXE_oracle"))
            .arg("--case")
            .arg(case)
            .output()
            .expect("the oracle");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        match done.status.code() {
            Some(0) => {}
            Some(77) => {
                eprintln!("skipped: the oracle needs root");
                return;
            }
            _ => wrong.push(format!("{}\n{text}", case.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
