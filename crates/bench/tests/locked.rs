// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `same-file --locks` with a filter builds only the rows that it names.

use std::process::Command;

/// The names of the rows that contain this, with the number of their first side.
fn rows(filter: &str) -> Vec<(String, Option<f64>)> {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_openpath-bench"));
    bench.args(["same-file", "--locks", "--json", "--rounds=1"]);
    bench.args(["--seconds=0", "--filter", filter]);
    let out = bench.output().expect("the program");
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row");
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["ours"].as_f64())
    };
    String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(row)
        .collect()
}

#[test]
fn filter_matches_any_part_of_row_name() {
    let [plain, locked] = ["a file", "a locked file"].map(|of| format!("opens of {of}"));
    let name = |of: &str, by: &str| format!("{of}{by}, lines written");
    let written = rows("lines written");
    let names: Vec<&str> = written.iter().map(|(name, _)| &**name).collect();
    let all = [
        (&plain, ""),
        (&plain, ", flag off"),
        (&locked, ""),
        (&locked, ", flag off"),
    ];
    assert_eq!(names, all.map(|(of, by)| name(of, by)));
    assert!(
        written.iter().all(|(_, count)| *count == Some(0.0)),
        "{written:?}"
    );
    assert_eq!(rows("file, lines read").len(), 2);
    assert_eq!(rows("no row at all"), []);
}
