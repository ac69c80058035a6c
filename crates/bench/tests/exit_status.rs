// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the exit status of `openpath-bench`, that a planted fault makes each check fail, and that
//! a filter builds only the rows that it names.

use std::process::Command;

/// Runs the program; returns its exit status, standard output and standard error.
fn bench(args: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openpath-bench"));
    let out = command.args(args.split(';')).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let status = out.status.code().unwrap_or(-1);
    (status, text(&out.stdout), text(&out.stderr))
}

#[test]
fn help_hides_internal_commands() {
    let (status, help, _) = bench("--help");
    assert!(status == 0 && help.contains("walk") && !help.contains("worker"));
}

#[test]
fn failure_to_run_is_reported_with_status_2() {
    for what in ["walk", "failed-open", "same-file", "shapes", "fd", "many"] {
        assert_eq!(bench(&format!("{what};--rounds;0")).0, 2);
    }
    for (args, said) in [
        ("one;no-such-operation d1", "no-such-operation"),
        ("counts;--filter;no such row", "no such row"),
        ("run;--openpath;/no/such/program;--rounds;1", "--openpath"),
    ] {
        let (status, _, error) = bench(args);
        assert!(status == 2 && error.contains(said), "{error}");
    }
}

/// A check passes, and fails with this fault; or the host refuses both.
fn fault_fails_check(args: &str, plant: &str) {
    for (fault, want) in [(String::new(), 0), (format!(";--check;--plant={plant}"), 1)] {
        let (status, _, error) = bench(&format!("{args}{fault}"));
        let refused = status == 2 && error.contains("not permitted");
        assert!(refused || status == want, "{status}: {error}");
    }
}

#[test]
fn planted_allocation_fails_check() {
    fault_fails_check("counts;--filter;allocations stat d1", "allocation");
}

#[test]
fn planted_store_fails_check() {
    fault_fails_check("counts;--filter;shared-stores stat d1", "shared-counter");
}

#[test]
fn slow_large_table_fails_check() {
    fault_fails_check("fd;--filter;fd-churn;--rounds;5", "slow");
}

#[test]
fn planted_slowness_fails_check() {
    fault_fails_check("walk;--filter;creat-existing d1;--rounds=7", "slow");
}

#[test]
fn recorded_compilation_is_replayed() {
    let args = "failed-open;--kept;--filter;header-search;--rounds=5;--json";
    let (status, rows, error) = bench(args);
    let refused = status == 2 && error.contains("not permitted");
    assert!(refused || rows.contains("header-search failed"), "{error}");
}

/// The rows of `same-file --locks` that contain this, with the number of their first side.
fn rows(filter: &str) -> Vec<(String, Option<f64>)> {
    let args = format!("same-file;--locks;--json;--rounds=1;--seconds=0;--filter;{filter}");
    let row = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).expect("a row");
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["ours"].as_f64())
    };
    bench(&args).1.lines().map(row).collect()
}

#[test]
fn filter_matches_any_part_of_row_name() {
    let all = [
        "a file",
        "a file, flag off",
        "a locked file",
        "a locked file, flag off",
    ];
    let row = |of| (format!("opens of {of}, lines written"), Some(0.0));
    assert_eq!(rows("lines written"), all.map(row));
    assert_eq!(rows("file, lines read").len(), 2);
    assert_eq!(rows("no row at all"), []);
}
